"""A durable group whose members are at a node that is not heard: its place in the log stays."""

from __future__ import annotations

import pytest

from iot_mqtt.codec import Unsubscribe
from tests.unit.broker.groupworld import FILTER, GroupWorld

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow


def test_a_group_that_moved_to_an_unheard_node_is_owed_what_is_acknowledged_here() -> None:
    """The node that had its member before, and was the last to tell of it, leaves for good."""
    world = GroupWorld(names="abcd")
    member = world.enter("m1", "b")
    member.leave()
    sent = world.publish("a", 4, 1)
    world.network.part("a", "c")
    world.wait(3.0)
    world.connect(member, "c")
    world.names = ("a", "c", "d")
    world.gone.add("b")
    world.kill("b")
    world.wait(30.0)
    sent += world.publish("a", 8, 1)
    world.wait(1.0)
    world.network.heal()
    world.settle()
    assert sorted(world.came()) == sorted(sent)


def test_a_group_that_begins_at_an_unheard_node_is_owed_what_is_acknowledged_here() -> None:
    """Its first member has its SUBACK, and this node does not know of it yet."""
    world = GroupWorld(names="abc")
    world.network.part("a", "c")
    world.wait(3.0)
    world.enter("m1", "c")
    sent = world.publish("a", 8, 1)
    world.wait(1.0)
    world.network.heal()
    world.settle()
    assert sorted(world.came()) == sorted(sent)


@pytest.mark.parametrize("later", [0.5, 30.0])
def test_a_group_whose_node_is_gone_before_it_is_heard_is_owed_what_is_acknowledged_here(later: float) -> None:
    """Before that node died, and until others have told what its sessions want."""
    world = GroupWorld(names="abc")
    world.network.part("a", "c")
    world.wait(3.0)
    member = world.enter("m1", "c")
    sent = world.publish("a", 4, 1)
    world.names = ("a", "b")
    world.gone.add("c")
    world.kill("c")
    world.wait(later)
    sent += world.publish("a", 4, 1)
    world.network.heal()
    world.wait(10.0)
    sent += world.publish("a", 4, 1)
    world.connect(member, "b")
    world.settle()
    assert sorted(world.came().elements()) == sorted(sent)


def test_a_group_that_begins_anew_meanwhile_is_owed_nothing_of_before() -> None:
    """Its member leaves the group here, and comes again at the node that is not heard: QoS 2 comes once."""
    world = GroupWorld(names="abc")
    world.network.part("a", "c")
    world.wait(3.0)
    member = world.enter("m1", "a")
    sent = world.publish("a", 4, 2)
    world.settle()
    member.send(Unsubscribe(member.next_id(), (FILTER,)))
    world.wait(1.0)
    world.enter("m2", "c")
    sent += world.publish("a", 4, 2)
    world.network.heal()
    world.settle()
    assert sorted(world.came().elements()) == sorted(sent)


@pytest.mark.parametrize("most", [0, 1])
def test_groups_that_come_and_go_meanwhile_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("iot_mqtt.broker.cluster.peers.MOST_LET_GO", most)
    world = GroupWorld(names="abc")
    world.network.part("a", "c")
    world.wait(3.0)
    member = world.enter("m1", "b")

    def kept() -> int:
        broker = world.lives["a"].broker
        assert broker is not None
        return len(broker.readers.groups.parts())

    assert kept() == 1
    member.send(Unsubscribe(member.next_id(), (FILTER,)))
    world.wait(1.0)
    assert kept() == most
    world.network.heal()
    world.wait(5.0)
    assert kept() == 0
