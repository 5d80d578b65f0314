"""A node ends, or begins a new life: who had not been brought what its earlier life recorded gets that in its order."""

from __future__ import annotations

from typing import Any, cast

from iot_mqtt.broker.cluster.links import Links
from iot_mqtt.codec import Publish
from tests.simulation.clients import Subscriber
from tests.unit.broker.groupworld import GroupWorld


class Reader(Subscriber):
    """Notes what comes."""

    def __init__(self, world: GroupWorld) -> None:
        super().__init__(world, "reader")
        self.got: list[bytes] = []

    def _came(self, packet: Publish) -> None:
        super()._came(packet)
        self.got.append(packet.payload)


def begun() -> tuple[GroupWorld, Reader, list[bytes]]:
    """A reader at node a, which has not been brought all that its publisher has sent to node c."""
    world = GroupWorld()
    reader = Reader(world)
    world.clients.append(reader)
    world.connect(reader, "a")
    reader.subscribe(("t/a", 1))
    world.wait(1.0)
    sent = world.publish("c", 1)
    assert world.until(lambda: reader.got == sent, 5.0)
    world.network.part("a", "c")
    return world, reader, sent + world.publish("c", 3)


def test_what_an_earlier_life_recorded_comes_before_what_its_publisher_sends_elsewhere() -> None:
    """The link is cut, and who reads stands still while that node is off the list: it hears of the later life alone."""
    world, reader, sent = begun()
    world.pause("a")
    world.stop(world.lives["c"])
    assert world.until(lambda: world.lives["c"].ended, 5.0, step=0.01)
    world.again("c")
    assert world.until(lambda: world.lives["c"].ready, 5.0, step=0.01)
    sent += world.publish("b", 3)
    world.resume("a")
    assert world.until(lambda: len(reader.got) == len(sent), 10.0)
    assert reader.got == sent


def test_what_a_node_recorded_that_is_off_the_list_is_waited_for_until_it_is_fenced() -> None:
    """The grid answers a little later."""
    world, reader, sent = begun()
    before, here = list(sent), world.lives["a"]
    world.stop(world.lives["c"])
    here.door.shut = True
    assert world.until(lambda: world.lives["c"].ended, 5.0, step=0.01)
    sent += world.publish("b", 3)
    world.wait(0.5)
    assert reader.got == before[:1]
    here.door.shut = False
    assert world.until(lambda: len(reader.got) == len(sent), 10.0)
    assert reader.got == sent


def test_an_end_that_was_asked_for_before_the_last_life_was_over_is_none() -> None:
    """The grid's answer says nothing of what was recorded since."""
    links = Links(cast(Any, None), cast(Any, None))
    earlier = links.ends(2)
    later = links.ends(2)
    links.ended(2, earlier)
    assert links.is_ending(2)
    links.ended(2, later)
    links.ended(2, later)
    assert not links.is_ending(2)
