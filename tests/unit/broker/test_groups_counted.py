"""What waits for a durable group of several nodes is in the figures, or it is said that it is not counted yet."""

from __future__ import annotations

import pytest

from iot_mqtt.admin.turns import AtOnce
from iot_mqtt.app.node.views import make_view
from iot_mqtt.broker.readers import census
from iot_mqtt.broker.shared_groups.names import part_name
from iot_mqtt.broker.views.tally import tally
from iot_mqtt.ports.store import StoredGroup
from tests.simulation.brokers import BrokerLife
from tests.unit.broker.groupworld import GroupWorld
from tests.unit.broker.harness import Node, run
from tests.unit.broker.logreaders import durable
from tests.unit.broker.neighbours import Neighbour

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

GROUP = "$share/g/t"


def waiting(life: BrokerLife) -> tuple[int, int]:
    """Messages, and readers that are not counted yet."""
    assert life.broker is not None
    found = tally(life.broker.sessions, life.broker.readers.groups)
    return found.backlog, found.uncounted


def all_waiting(world: GroupWorld) -> tuple[int, int]:
    """The same of all nodes."""
    found = [waiting(life) for life in world.running]
    return sum(backlog for backlog, _ in found), sum(uncounted for _, uncounted in found)


def lines(world: GroupWorld) -> dict[str, tuple[int, int]]:
    """Members and messages that wait, by node, as shared groups are listed."""
    found = {}
    for life in world.running:
        assert life.broker is not None
        view = make_view(life.broker, node_id=life.name, version="1", started_at=0.0, breathe=AtOnce().next)
        for one in run(view.subscribing.groups()):
            found[life.name] = (one.members, one.waiting)
    return found


def away(world: GroupWorld, node: str = "a", count: int = 10) -> None:
    """The only member is away, and each node has recorded so many messages for it."""
    world.enter("m1", node, qos=1).leave()
    world.wait(0.5)
    for name in world.names:
        world.publish(name, count)
    world.publisher.leave()
    world.wait(3.0)
    assert all_waiting(world) == (count * len(world.names), 0)


def watch(world: GroupWorld, seconds: float, number: int, total: int) -> None:
    """While all nodes run, or somebody gives out what is in the log of the one that does not, nothing is missing that
    is not said.
    """
    for _ in range(round(seconds / 0.01)):
        world.step(0.01)
        backlog, uncounted = all_waiting(world)
        if len(world.running) == len(world.names) or world.givers(number):
            assert backlog == total or uncounted, f"{backlog} of {total} wait, and nothing is uncounted"


def restart(world: GroupWorld, name: str, down: float) -> None:
    """One node stops in order, and begins anew so many seconds later."""
    life = world.lives[name]
    assert life.place is not None
    world.stop(life)
    assert world.until(lambda: life.ended, 10.0)
    watch(world, down, life.place.number, 30)
    world.again(name)
    watch(world, 20.0, life.place.number, 30)
    assert all_waiting(world) == (30, 0)


@pytest.mark.parametrize("down", [0.5, 4.0, 25.0])
def test_after_restarts_everything_is_counted_again(down: float) -> None:
    """Before another node has its groups, and after that."""
    world = GroupWorld()
    away(world)
    for name in "bac":
        restart(world, name, down)
    world.connect(world.members[0], "b")
    world.settle()
    world.wait(8.0)
    assert all_waiting(world) == (0, 0)


def test_who_gives_out_the_log_of_a_dead_node_counts_it() -> None:
    """As soon as it has read it, and it is 0 when all is taken."""
    world = GroupWorld()
    away(world)
    world.kill("b")
    world.wait(40.0)
    assert all_waiting(world) == (30, 0)
    world.connect(world.members[0], "c")
    world.settle()
    world.wait(3.0)
    assert all_waiting(world) == (0, 0)


def test_what_comes_while_another_node_still_gives_it_out() -> None:
    """The node is back and records, and does not have its groups yet."""
    world = GroupWorld()
    away(world)
    life = world.lives["b"]
    assert life.place is not None
    world.kill("b")
    world.wait(40.0)
    world.again("b")
    assert world.until(lambda: len(world.running) == 3, 20.0)
    world.publish("b", 10)
    world.publisher.leave()
    watch(world, 20.0, life.place.number, 40)
    assert all_waiting(world) == (40, 0)


def test_what_a_member_elsewhere_would_have_read_is_counted_when_it_leaves() -> None:
    """Who has come to give a log out has not read everything, for the member is full."""
    world = GroupWorld()
    member = world.enter("m1", "b", window=2, qos=1)
    member.slow = True
    for _ in range(5):
        world.publish("a", 40)
    world.publisher.leave()
    world.wait(2.0)
    world.kill("a")
    world.wait(40.0)
    assert all_waiting(world)[1] == 1
    member.leave()
    world.wait(3.0)
    assert all_waiting(world) == (200, 0)


def test_the_list_has_what_waits_at_every_node() -> None:
    """Also at those that have no member; the line goes when nothing waits there."""
    world = GroupWorld()
    away(world)
    assert lines(world) == {"a": (1, 10), "b": (0, 10), "c": (0, 10)}
    world.connect(world.members[0], "a")
    world.settle()
    world.wait(3.0)
    assert lines(world) == {"a": (1, 0)}


def adopted(count: int) -> tuple[Node, Neighbour]:
    """A node that gives out what its neighbour, which writes on, has recorded for a group whose member is away."""
    node = Node(number=1)
    other = Neighbour(node)
    client = durable(node, "m1")
    client.subscribe(GROUP, qos=1)
    client.lose()
    other.record_unforwarded(*(b"%d" % number for number in range(count)))
    node.broker.readers.groups._parts.open(2, other.reader, ([(part_name(2, GROUP), StoredGroup(0))], []))
    return node, other


def figures(node: Node) -> tuple[int, int]:
    """Messages that wait, and readers that are not counted yet."""
    info = node.view.info()
    assert not info.unexplained
    return info.waiting, info.uncounted


def test_what_comes_to_an_adopted_log_is_uncounted_until_it_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it comes while the log is counted."""
    monkeypatch.setattr(census, "RUNS_A_TURN", 1)
    node, other = adopted(10)
    assert figures(node)[1] == 1
    other.record_unforwarded(b"more")
    node.turn()
    assert figures(node) == (11, 0)
    other.record_unforwarded(b"and more")
    node.broker.readers.groups.grew(2)
    assert figures(node) == (11, 1)
    node.turn()
    assert figures(node) == (12, 0)
    client = durable(node, "m1")
    client.drain()
    node.turn()
    assert figures(node) == (0, 0)
    other.record_unforwarded(b"the last")
    node.broker.readers.groups.grew(2)
    node.turn()
    assert figures(node) == (1, 0)
    client.drain()
    node.turn()
    assert figures(node) == (0, 0)
