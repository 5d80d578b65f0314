"""A durable group whose members are at a node that is not heard: its place in the log stays."""

from __future__ import annotations

import pytest

from iot_mqtt.codec import Unsubscribe
from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.store import GridStore
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.ports.store import StoredGroup
from tests.unit.broker.groupworld import FILTER, GroupWorld, Member

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow


def die_for_good(world: GroupWorld, name: str) -> None:
    """A node that nobody waits for."""
    world.names = tuple(one for one in world.names if one != name)
    world.gone.add(name)
    world.kill(name)


def test_a_group_that_moved_to_an_unheard_node_is_owed_what_is_acknowledged_here() -> None:
    """The node that had its member before, and was the last to tell of it, leaves for good."""
    world = GroupWorld(names="abcd")
    member = world.enter("m1", "b")
    member.leave()
    sent = world.publish("a", 4, 1)
    world.network.part("a", "c")
    world.wait(3.0)
    world.connect(member, "c")
    die_for_good(world, "b")
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
    die_for_good(world, "c")
    world.wait(later)
    sent += world.publish("a", 4, 1)
    world.network.heal()
    world.wait(10.0)
    sent += world.publish("a", 4, 1)
    world.connect(member, "b")
    world.settle()
    assert sorted(world.came().elements()) == sorted(sent)


@pytest.mark.parametrize("others", [False, True], ids=["first", "second"])
@pytest.mark.parametrize("for_good", [False, True])
def test_a_group_that_a_node_has_never_heard_of_is_owed_what_that_one_acknowledged_before_it_died(
    for_good: bool, others: bool
) -> None:
    """Its place in that log is noted by the node at which it begins: for the next life, or for who gives it out."""
    world = GroupWorld(names="abc")
    if others:
        other = Member(world, "other")
        world.clients.append(other)
        world.connect(other, "b")
        other.subscribe(("$share/other/u/#", 2))
        world.wait(2.0)
    world.network.part("a", "c")
    world.wait(3.0)
    world.publish("a", 2, 1)
    before = set(world.ledger.sent)
    world.enter("m1", "c")
    sent = world.publish("a", 4, 1)
    if for_good:
        die_for_good(world, "a")
    else:
        world.kill("a")
    world.wait(15.0)
    world.network.heal()
    if not for_good:
        world.start("a")
        assert world.until(lambda: world.lives["a"].ready, 20.0)
    assert world.until(lambda: set(sent) <= set(world.came()), 40.0)
    assert not before & set(world.came())
    assert sorted(world.came().elements()) == sorted(sent)


def test_nobody_is_told_that_a_group_has_begun_whose_place_cannot_be_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it can."""
    place, refused = GridStore.place_group, [1]

    async def place_later(self: GridStore, filter: str, group: StoredGroup) -> None:
        if refused:
            raise Unavailable("not now")
        await place(self, filter, group)

    monkeypatch.setattr(GridStore, "place_group", place_later)
    world = GroupWorld(names="abc")
    world.network.part("a", "c")
    world.wait(3.0)
    member = Member(world, "m1")
    world.clients.append(member)
    world.connect(member, "c")
    member.join()
    world.wait(15.0)
    assert not member.in_group
    refused.clear()
    assert world.until(lambda: member.in_group, 5.0)
    assert len(world.records(CacheName.GROUPS)) == 3


def test_a_place_that_was_noted_goes_with_its_group() -> None:
    """Its member leaves it before the nodes hear each other."""
    world = GroupWorld(names="abc")
    world.network.part("a", "c")
    world.wait(3.0)
    member = world.enter("m1", "c")
    world.wait(2.0)
    member.send(Unsubscribe(member.next_id(), (FILTER,)))
    world.wait(2.0)
    world.network.heal()
    world.wait(5.0)
    assert not world.records(CacheName.GROUPS)


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
