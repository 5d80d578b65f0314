"""A node lets go of what is at home there, and who asked for it does not take it: somebody still has it.

What a session wants is recorded for half a minute after its home has let go of it. Then it has to be in somebody's
memory, or what is acknowledged meanwhile is lost to it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iot_mqtt.ports.grid import CacheName
from tests.simulation.brokers import BrokerLife
from tests.simulation.clients import Subscriber
from tests.unit.broker.groupworld import GroupWorld
from tests.unit.broker.plant import Plant


def has(life: BrokerLife, client_id: str) -> bool:
    assert life.broker is not None
    return life.broker.sessions.get(client_id) is not None


def number(life: BrokerLife) -> int:
    assert life.place is not None
    return life.place.number


def is_home(life: BrokerLife, client_id: str) -> bool:
    """By the record."""
    return life.world.entries(CacheName.CHANNELS)[client_id.encode()][1] == number(life)


def moving(plant: Plant, until: Callable[[], bool]) -> Subscriber:
    """A client goes from a to b, as far as that."""
    client = plant.subscriber("s", "a")
    client.leave()
    plant.wait(0.5)
    client.connect(plant.lives["b"])
    assert plant.until(until, 10.0, 0.001)
    return client


def away_for_a_minute(plant: Plant, client: Subscriber) -> None:
    """The client gives up; what is published long after is for it all the same."""
    client.leave()
    plant.wait(40.0)
    plant.publish("c")
    plant.wait(20.0)
    plant.enter("s", "c")
    plant.settle()
    assert plant.came("s") == 5


@pytest.mark.parametrize("dies", [True, False])
def test_a_session_whose_next_home_does_not_take_it(dies: bool) -> None:
    """That one dies, or the grid does not answer it."""
    plant = Plant("a", "b", "c")
    client = moving(plant, lambda: not has(plant.lives["a"], "s"))
    if dies:
        plant.names = ("a", "c")
        plant.gone.add("b")
        plant.kill("b")
    else:
        plant.lives["b"].door.shut = True
        plant.wait(3.0)
        plant.lives["b"].door.shut = False
    away_for_a_minute(plant, client)


def test_a_session_whose_next_home_cannot_load_it() -> None:
    """The record names that one, which has nothing in memory."""
    plant = Plant("a", "b", "c")
    client = moving(plant, lambda: is_home(plant.lives["b"], "s"))
    plant.lives["b"].door.shut = True
    plant.wait(3.0)
    plant.lives["b"].door.shut = False
    assert not client.connected
    away_for_a_minute(plant, client)


def test_a_session_whose_next_home_cannot_load_it_for_long() -> None:
    """Longer than what it wants is recorded for at its last home."""
    plant = Plant("a", "b", "c")
    client = moving(plant, lambda: is_home(plant.lives["b"], "s"))
    plant.lives["b"].door.shut = True
    client.leave()
    plant.wait(50.0)
    plant.publish("c")
    plant.wait(2.0)
    plant.lives["b"].door.shut = False
    plant.wait(20.0)
    plant.publish("a", 2)
    plant.enter("s", "c")
    plant.settle()
    assert plant.came("s") == 7
    plant.wait(40.0)
    assert not plant.entries(CacheName.ROUTES).keys() - {bytes((number(plant.lives["c"]),)) + b"t/#"}


def test_the_parts_of_groups_whose_writer_dies_before_it_takes_them() -> None:
    """It came back, and asked who had adopted them; it did not live to have them."""
    world = GroupWorld(0, "ab")
    member = world.enter("m", "b")
    member.slow = True
    names = world.publish("a", 30, qos=2)
    writer = number(world.lives["a"])
    world.kill("a")
    assert world.until(lambda: gives(world.lives["b"], writer), 20.0)
    world.start("a")
    assert world.until(lambda: not gives(world.lives["b"], writer), 20.0, 0.001)
    world.gone.add("a")
    world.kill("a")
    world.settle(60.0)
    assert world.came().keys() >= set(names)


def gives(life: BrokerLife, writer: int) -> bool:
    """Whether a node gives what groups are owed of a log to their members."""
    assert life.broker is not None
    return life.broker.readers.groups.has_part(writer)
