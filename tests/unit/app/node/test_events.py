"""The event stream: what happens on all nodes reaches who listens at one, once, in order, and with its losses told."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.event_resources import RATES
from iot_mqtt.admin.streams import AT_ONCE, MOST, Stream, event_bytes
from iot_mqtt.app.node.events import WAIT, EventDesk, Sources, read_place
from iot_mqtt.broker.facade import MemberInfo
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.events import ALARM_CLEARED, ALARM_RAISED, CLIENT_CONNECTED, KINDS, Events
from tests.unit.broker.harness import Node

ALL = frozenset(KINDS)


class Wire:
    """What a listener has got."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.finished = False
        self._text = ""
        stream.open(self._take, self._finish)

    def _take(self, data: bytes) -> None:
        self._text += data.decode()

    def _finish(self) -> None:
        self.finished = True

    @property
    def events(self) -> list[tuple[str, Any, str]]:
        """Kind, value and id of each."""
        found = []
        for block in self._text.split("\n\n")[:-1]:
            lines = dict(line.split(": ", 1) for line in block.split("\n") if line[0] != ":")
            if lines:
                found.append((lines["event"], json.loads(lines["data"]), lines.get("id", "")))
        return found

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _, _ in self.events]


class Cluster:
    """Nodes that ask each other, at once."""

    def __init__(self, *names: str) -> None:
        self.clock = ManualClock()
        self.names = names
        self.desks: dict[str, EventDesk] = {}
        self.of: dict[str, Sources] = {}
        self.down: set[str] = set()
        for name in names:
            self.start(name)

    def start(self, name: str) -> None:
        """A life of a node begins."""
        alarms: list[Alarm] = []
        sources = Sources(
            Events(self.clock.wall),
            Counters(),
            lambda: 7,
            lambda: tuple(alarms),
            lambda: [
                MemberInfo(number, other, 1, "", "self" if other == name else "up", draining=False, clients=0)
                for number, other in enumerate(self.names)
            ],
            Link(self, name),
        )
        self.desks[name], self.of[name] = EventDesk(name, self.clock), sources
        self.alarms = alarms
        self.desks[name].begin(sources)


class Link:
    """Of one node to the others."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.later: dict[str, Callable[[bytes], Awaitable[bytes]]] = {}
        self._cluster = cluster

    async def ask_all(
        self, name: str, body: bytes, within: float, only: Collection[int] | None = None
    ) -> Mapping[int, bytes | str]:
        found: dict[int, bytes | str] = {}
        for number in only or ():
            other = self._cluster.names[number]
            if other in self._cluster.down:
                found[number] = "it does not answer"
            else:
                asking = self._cluster.of[other].asking
                assert asking is not None
                found[number] = await asking.later[name](body)
        return found


def test_who_listens_hears_of_clients() -> None:
    """From a broker that serves them: with reasons, and without passwords."""
    node = Node()
    heard: list[tuple[str, Mapping[str, object]]] = []
    node.broker.monitoring.events.watchers = (lambda event: heard.append((event.kind, event.fields)),)
    client = node.connect("c")
    client.wire.feed(b"\xe0\x00")
    node.turn()
    assert [kind for kind, _ in heard] == ["client.connected", "client.disconnected", "session.ended"]
    assert heard[0][1]["client"] == "c"
    assert heard[1][1]["reason"] == "client_disconnected"


def test_events_of_all_nodes_come_from_any() -> None:
    cluster = Cluster("a", "b")
    wire = Wire(cluster.desks["a"].listen(ALL, None, None))
    for name in ("b", "a", "b"):
        cluster.of[name].events.publish(CLIENT_CONNECTED, {"client": name})
        cluster.clock.advance(0.1)
    assert [(kind, value["node"], value["client"]) for kind, value, _ in wire.events] == [
        (CLIENT_CONNECTED, name, name) for name in ("b", "a", "b")
    ]


def test_who_comes_back_gets_what_he_missed() -> None:
    """At another node, too; and what is not kept any more is counted."""
    cluster = Cluster("a", "b")
    wire = Wire(cluster.desks["a"].listen(ALL, None, None))
    for number in range(3):
        for name in ("a", "b"):
            cluster.of[name].events.publish(CLIENT_CONNECTED, {"client": f"{name}{number}"})
        cluster.clock.advance(0.1)
    place = wire.events[1][2]
    wire.stream.end()
    assert wire.finished
    again = Wire(cluster.desks["b"].listen(ALL, None, place))
    cluster.clock.advance(0.1)
    assert sorted(value["client"] for _, value, _ in again.events) == ["a1", "a2", "b1", "b2"]
    for number in range(3000):
        cluster.of["b"].events.publish(CLIENT_CONNECTED, {"client": f"x{number}"})
    later = Wire(cluster.desks["b"].listen(ALL, "b", place))
    assert later.events[0][:2] == ("lost", {"node": "b", "events": 2002})
    assert later.stream.lost >= 2002


def test_a_node_that_is_away_is_named_and_followed_when_it_is_back() -> None:
    """In another life: all of that one is told."""
    cluster = Cluster("a", "b")
    wire = Wire(cluster.desks["a"].listen(ALL, None, None))
    cluster.of["b"].events.publish(CLIENT_CONNECTED, {"client": "one"})
    cluster.clock.advance(0.1)
    cluster.down.add("b")
    cluster.desks["b"].close()
    cluster.clock.advance(WAIT)
    cluster.start("b")
    cluster.of["b"].events.publish(CLIENT_CONNECTED, {"client": "two"})
    cluster.down.clear()
    cluster.clock.advance(5)
    assert [(kind, value.get("client")) for kind, value, _ in wire.events] == [
        (CLIENT_CONNECTED, "one"),
        ("missing", None),
        (CLIENT_CONNECTED, "two"),
    ]


def test_alarms_are_raised_and_cleared_and_rates_come_each_second() -> None:
    cluster = Cluster("a")
    desk = cluster.desks["a"]
    wire = Wire(desk.listen(frozenset({*KINDS, RATES}), None, None))
    desk.tick()
    cluster.alarms.append(Alarm(AlarmKind.ROOM, "the disk is full"))
    cluster.of["a"].counters.messages_received += 5
    desk.tick()
    cluster.alarms.clear()
    desk.tick()
    assert wire.kinds == [RATES, ALARM_RAISED, RATES, ALARM_CLEARED, RATES]
    assert wire.events[2][1]["received"] == 5
    assert wire.events[4][1]["received"] == 0


def test_rates_of_other_nodes_come_only_to_who_wants_them() -> None:
    cluster = Cluster("a", "b")
    wire = Wire(cluster.desks["a"].listen(frozenset({RATES}), None, None))
    other = Wire(cluster.desks["a"].listen(ALL, None, None))
    for name in ("b", "a"):
        cluster.desks[name].tick()
        cluster.clock.advance(0.1)
    assert [value["node"] for _, value, _ in wire.events] == ["b", "a"]
    assert other.events == []


def test_a_slow_listener_loses_the_oldest_and_is_told() -> None:
    stream = Stream()
    wire = Wire(stream)
    stream.pause()
    for number in range(MOST + 10):
        stream.put(event_bytes("n", number))
    stream.resume(wire._take)
    assert wire.events[0] == ("lost", {"events": 10}, "")
    assert [value for _, value, _ in wire.events[1:]] == list(range(10, MOST + 10))
    assert stream.lost == 10


def test_there_are_only_so_many_streams() -> None:
    desk = Cluster("a").desks["a"]
    streams = [desk.listen(ALL, None, None) for _ in range(AT_ONCE)]
    with pytest.raises(ApiError, match="open already"):
        desk.listen(ALL, None, None)
    streams[0].end()
    desk.listen(ALL, None, None)
    desk.close()
    assert len(desk.streams) == 0


@pytest.mark.parametrize("place", ["a", "a=1", "a=x.1", "a=1.1&b", "a=1.1&b=1.-1", "=&="])
def test_a_place_that_is_none_of_ours_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match=r"Last-Event-ID|query field"):
        read_place(place)


def test_a_question_that_is_none_is_refused() -> None:
    desk = Cluster("a").desks["a"]
    failed: Deferred[object] = ensureDeferred(desk._answer(b'{"place": "x", "rates": false}'))
    errors: list[object] = []
    failed.addErrback(errors.append)
    assert errors
