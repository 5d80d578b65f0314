"""What leaves for another node at the end of a turn: in order, and together what came together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from iot_mqtt.broker.cluster import peers
from iot_mqtt.broker.cluster.peers import Peer, PeerRoutes
from iot_mqtt.broker.cluster.presence import Presence
from iot_mqtt.broker.facade import Published
from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.sessions.route_turns import RouteTurns
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.cluster import Forwarded, Interest
from iot_mqtt.ports.counters import Counters, LinkDrop
from iot_mqtt.ports.log import LogRun, Reference
from iot_mqtt.values import NOBODY, Message, Origin
from tests.unit.broker.harness import Node, run
from tests.unit.cluster.links.linkskit import publishes


@dataclass
class Line:
    """``Peers``, as far as one peer uses them."""

    more: bool = True
    items: list[Forwarded] = field(default_factory=list)

    def takes_more(self, peer: int) -> bool:
        return self.more

    def crowded(self, peer: int) -> bool:
        return False

    def forward(self, peer: int, item: Forwarded) -> None:
        self.items.append(item)

    def topics(self) -> list[list[str]]:
        """By item."""
        return [[run.topic.decode() for run in (item.run, *item.more)] for item in self.items]


def peer_on(line: Line) -> Peer:
    peer = Peer(2, line, Counters(), lambda: None)  # type: ignore[arg-type]
    peer.up = True
    return peer


def publication(topic: str, *, qos: int = 0, client: str = "c", at: float = 1.0, **more: Any) -> Publication:
    run = publishes(topic.encode(), [b"x"], qos=qos, five=more.get("five", False))
    return Publication(run, run.topic, client, at, more.get("origin", NOBODY))


def test_what_came_of_one_client_at_once_goes_as_one() -> None:
    line = Line()
    peer = peer_on(line)
    for topic in ("a", "b", "c"):
        peer.take(publication(topic), None)
    peer.end_turn(1)
    assert line.topics() == [["a", "b", "c"]]
    peer.end_turn(2)
    assert len(line.items) == 1


@pytest.mark.parametrize("other", [{"client": "d"}, {"at": 2.0}, {"five": True}, {"origin": Origin("anna")}], ids=str)
def test_what_differs_in_who_and_when_goes_by_itself(other: dict[str, Any]) -> None:
    line = Line()
    peer = peer_on(line)
    for one in (publication("a"), publication("b", **other), publication("c")):
        peer.take(one, None)
    peer.end_turn(1)
    assert line.topics() == [["a"], ["b"], ["c"]]


def test_a_member_of_a_group_gets_its_own_in_its_place() -> None:
    line = Line()
    peer = peer_on(line)
    for topic, member in (("a", None), ("b", None), ("g", ("$share/g/g", "m")), ("c", None), ("d", None)):
        peer.take(publication(topic), member)
    peer.end_turn(1)
    assert line.topics() == [["a", "b"], ["g"], ["c", "d"]]
    assert [item.plain for item in line.items] == [True, False, True]


def test_who_reads_one_run_at_a_time_gets_them_so() -> None:
    line = Line(more=False)
    peer = peer_on(line)
    for topic in ("a", "b"):
        peer.take(publication(topic), None)
    peer.end_turn(1)
    assert line.topics() == [["a"], ["b"]]


def kept(topic: str, *, client: str = "c") -> Publication:
    """A message that is in this node's log."""
    found = publication(topic, qos=1, client=client)
    found.logged = LogRun(Reference(0, 1, 2, 1), found.run, found.topic, client, 1.0, NOBODY)
    return found


def test_what_is_in_the_log_waits_and_is_not_overtaken() -> None:
    """QoS 0 of others does not wait for it; QoS 1 behind it does."""
    line = Line()
    peer = peer_on(line)
    for one in (publication("a", client="d"), kept("kept"), publication("b", client="d"), publication("late", qos=1)):
        peer.take(one, None)
    peer.end_turn(5)
    assert line.topics() == [["a", "b"]]
    peer.committed(4)
    assert len(line.items) == 1
    peer.committed(5)
    assert line.topics()[1:] == [["kept"], ["late"]]


def test_qos_0_does_not_overtake_what_waits_of_the_same_publisher() -> None:
    """In that turn and in later ones, until all of it has left."""
    line = Line()
    peer = peer_on(line)
    for one in (publication("0"), kept("1"), publication("2"), publication("3", qos=1), publication("4")):
        peer.take(one, None)
    peer.end_turn(5)
    assert line.topics() == [["0"]]
    for one in (publication("other", client="d"), publication("5"), kept("6"), publication("7")):
        peer.take(one, None)
    peer.end_turn(6)
    assert line.topics() == [["0"], ["other"]]
    peer.committed(5)
    assert line.topics()[2:] == [["1"], ["2"], ["3"], ["4"], ["5"]]
    peer.committed(6)
    assert line.topics()[7:] == [["6"], ["7"]]
    peer.take(publication("8"), None)
    peer.end_turn(7)
    assert line.topics()[9:] == [["8"]]


def test_qos_0_that_waits_behind_a_commit_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What there is no room for is dropped, and counted; others' QoS 0 goes on."""
    line = Line()
    peer = peer_on(line)
    monkeypatch.setattr(peers, "MOST_BEHIND", 1)
    peer.take(kept("1"), None)
    peer.take(publication("2"), None)
    peer.end_turn(5)
    peer.take(publication("3"), None)
    peer.take(publication("other", client="d"), None)
    peer.end_turn(5)
    assert line.topics() == [["other"]]
    peer.committed(5)
    peer.take(publication("4"), None)
    peer.end_turn(6)
    assert line.topics() == [["other"], ["1"], ["2"], ["4"]]
    assert peer._counters.forwards_dropped[LinkDrop.PEER_CROWDED] == 1


def test_nothing_waits_for_a_peer_that_was_lost() -> None:
    """What waited for it is gone, and holds nothing up when it is back."""
    line = Line()
    peer = peer_on(line)
    for one in (kept("1"), publication("2")):
        peer.take(one, None)
    peer.end_turn(5)
    peer.lost()
    peer.up = True
    peer.take(publication("3"), None)
    peer.end_turn(5)
    assert line.topics() == [["3"]]


def wanted_by(node: Node, number: int) -> PeerRoutes:
    """The routes of a node that hears of others; node ``number`` is up."""
    broker, line = node.broker, Line()
    turns = RouteTurns(broker.turn)
    routes = PeerRoutes(line, broker.routing.routes, broker.readers.groups, node.counters, lambda: None, turns)  # type: ignore[arg-type]
    routes.peer(number).up = True
    return routes


def receivers(node: Node, topic: bytes) -> list[str]:
    """Who gets a message, by what stands in the routes."""
    return sorted(route.receiver.client_id.strip("\0") for route in node.broker.routing.routes.match(topic).plain)


def test_what_a_node_that_is_down_keeps_is_wanted_all_the_same() -> None:
    """Its durable sessions are owed it; whoever was connected there is not."""
    node = Node()
    routes = wanted_by(node, 2)
    routes.wants(2, [Interest("kept", live=True, kept=True), Interest("live", live=True)])
    assert receivers(node, b"kept") == ["keeper-2", "peer-2"]
    assert receivers(node, b"live") == ["peer-2"]
    routes.down(2)
    assert receivers(node, b"kept") == ["keeper-2"]
    assert receivers(node, b"live") == []
    routes.wants(2, [Interest("kept", live=True, kept=True)])
    assert receivers(node, b"kept") == ["keeper-2", "peer-2"]


@pytest.mark.parametrize(
    ("topic", "qos", "expected"),
    [
        (b"kept", 1, True),
        (b"kept", 0, False),
        (b"live", 0, True),
        (b"group", 1, False),
        (b"nobody", 1, False),
    ],
)
def test_whoever_publishes_as_the_node_is_told_that_others_get_it(topic: bytes, qos: int, expected: bool) -> None:
    """Who is counted here is not told of again, and the uplink is no session."""
    node = Node()
    wants = [Interest("kept", kept=True), Interest("live", live=True), Interest("$share/g/group", members=("x",))]
    wanted_by(node, 2).wants(2, wants)
    published = run(node.view.publish(Message(topic, b"", qos)))
    assert published == Published(int(topic == b"group"), elsewhere=expected)


@pytest.mark.parametrize("number", [0, 2, 255])
def test_what_a_node_keeps_stays_when_a_doubt_is_over(number: int) -> None:
    """Of every number that there is: a node that was alone before it was migrated has 0."""
    node, group = Node(), "$share/g/t"
    routes = wanted_by(node, 3)
    routes.wants(number, [Interest(group, kept=True)])
    routes.doubt(True)
    routes.doubt(False)
    assert list(routes.kept_groups()) == [group]
    routes.wants(number, [], full=True)
    assert list(routes.kept_groups()) == []


def test_a_node_that_says_everything_wants_nothing_else() -> None:
    """What it wanted in a life before, and does not name, is over; what other nodes want stays."""
    node = Node()
    routes = wanted_by(node, 2)
    routes.wants(3, [Interest("old", kept=True)])
    routes.wants(2, [Interest("old", live=True, kept=True), Interest("new", live=True)])
    routes.wants(2, [Interest("new", live=True)], full=True)
    assert receivers(node, b"old") == ["keeper-3"]
    assert receivers(node, b"new") == ["peer-2"]


def test_what_other_nodes_want_is_no_subscription_of_this_node() -> None:
    """Neither in its figures nor in its bound: a node may have as many of its own, whatever others have."""
    node = Node(MqttSettings(max_subscriptions=2))
    routes, client = wanted_by(node, 2), node.connect("client")
    many = [Interest(f"t/{number}", live=True, kept=True) for number in range(10)]
    routes.wants(2, [*many, Interest("$share/g/t", kept=True, members=("x",))])
    assert node.view.info().subscriptions == 0
    assert client.subscribe("t/1", "t/2").reasons == (ReasonCode.SUCCESS,) * 2
    assert client.subscribe("t/3").reasons == (ReasonCode.QUOTA_EXCEEDED,)
    assert node.view.info().subscriptions == 2
    routes.wants(2, [], full=True)
    assert node.view.info().subscriptions == 2
    client.unsubscribe("t/1", "t/2")
    assert node.broker.routing.routes.subscription_count == node.view.info().subscriptions == 0


MANY = [f"f/{number}/+" for number in range(2_000)]
#: What a turn may change, of such filters.
MOST = 700


def passes(node: Node) -> int:
    """How many turns there are until nothing is left to do; none of them changes more than a turn may."""
    routes, turns, going_on = node.broker.routing.routes, 0, True
    while going_on:
        before = routes.foreign_count
        going_on = node.one_turn()
        turns += 1
        assert abs(routes.foreign_count - before) < MOST
    return turns


def test_many_filters_of_other_nodes_come_and_go_in_turns() -> None:
    """However many nodes say it at once; who hears that it is acted on hears it when that is so."""
    node = Node()
    routes = wanted_by(node, 2)
    done: list[int] = []
    for number in (2, 3):
        routes.follow(number, [Interest(filter, live=True) for filter in MANY], partial(done.append, number))
    assert node.broker.routing.routes.foreign_count == 0
    assert passes(node) > 4
    assert node.broker.routing.routes.foreign_count == 2 * len(MANY)
    assert sorted(done) == [2, 3]
    for number in (2, 3):
        routes.follow(number, [Interest(filter) for filter in MANY], partial(done.append, number))
    assert passes(node) > 4
    assert node.broker.routing.routes.foreign_count == node.broker.routing.routes.subscription_count == 0
    assert len(done) == 4


def test_what_a_node_says_is_followed_in_order() -> None:
    """Little behind much waits for that; what another node says does not."""
    node = Node()
    routes = wanted_by(node, 2)
    done: list[str] = []
    routes.follow(2, [Interest(filter, live=True) for filter in MANY], partial(done.append, "much"))
    routes.follow(2, [Interest(MANY[0]), Interest("t", live=True)], partial(done.append, "little"))
    routes.follow(3, [Interest("t", live=True)], partial(done.append, "other"))
    assert receivers(node, b"t") == ["peer-3"]
    assert done == ["other"]
    node.turn()
    assert done == ["other", "much", "little"]
    assert receivers(node, b"t") == ["peer-2", "peer-3"]
    assert receivers(node, b"f/0/x") == []
    assert receivers(node, b"f/1/x") == ["peer-2"]


def test_a_node_that_goes_while_it_is_followed_leaves_what_it_keeps() -> None:
    """And says everything anew when it is back."""
    node = Node()
    routes = wanted_by(node, 2)
    routes.follow(2, [Interest(filter, live=True, kept=filter == MANY[0]) for filter in MANY], lambda: None)
    node.one_turn()
    routes.down(2)
    assert passes(node) > 3
    assert node.broker.routing.routes.foreign_count == 1
    assert receivers(node, b"f/0/x") == ["keeper-2"]
    routes.follow(2, [Interest("t", live=True)], lambda: None, full=True)
    node.turn()
    assert node.broker.routing.routes.foreign_count == 1
    assert receivers(node, b"t") == ["peer-2"]


def test_doubt_ends_when_what_was_said_is_followed() -> None:
    """Until then whatever is acknowledged is recorded; if there is another doubt by then, that one goes on."""
    node = Node()
    routes = wanted_by(node, 2)
    told: list[bool] = []
    none, groups = cast(Any, None), cast(Any, SimpleNamespace(doubt=lambda _: None))
    presence = Presence(routes, groups, none, none, none, none, cast(Any, SimpleNamespace(doubt=told.append)))
    presence.doubt(some=True)
    routes.follow(2, [Interest(filter, live=True) for filter in MANY], lambda: None)
    presence.doubt(some=False)
    assert told == [True]
    presence.doubt(some=True)
    node.turn()
    assert told == [True]
    presence.doubt(some=False)
    assert told == [True, False]
    presence.doubt(some=True)
    routes.follow(2, [Interest(filter) for filter in MANY], lambda: None)
    presence.doubt(some=False)
    node.turn()
    assert told == [True, False, True, False]
