"""Traces: packets as they go, described, bounded, of all nodes; nothing is looked at when none runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.streams import Stream
from iot_mqtt.admin.trace_resources import Wanted, read_wanted
from iot_mqtt.app.node.events import Sources
from iot_mqtt.app.node.tracing import A_SECOND, MOST, TraceDesk
from iot_mqtt.broker.recorder import Recorded
from iot_mqtt.codec import Publish, encode
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.addresses import host_of
from tests.unit.app.node.test_events import Cluster, Wire
from tests.unit.broker.harness import V5, Node


class World:
    """A broker, and who traces it."""

    def __init__(self) -> None:
        self.node = Node()
        self.broker = self.node.broker
        self.desk = TraceDesk("n1", self.node.clock)
        self.desk.begin(
            self.broker.monitoring.recorder,
            Sources(self.broker.monitoring.events, self.broker.counters, int, tuple, tuple),
        )

    def trace(self, **wanted: Any) -> Wire:
        stream = Stream()
        self.desk.trace(Wanted(**wanted), stream)
        return Wire(stream)

    def lines(self, wire: Wire) -> list[str]:
        """What was told so far."""
        self.node.clock.advance(1)
        self.node.turn()
        return [value["text"] for kind, value, _ in wire.events if kind == "packet"]

    def peer(self) -> str:
        """Where clients come from."""
        return self.node.open(V5).wire.channel.peer

    def rings(self) -> Iterator[Recorded]:
        return self.broker.monitoring.recorder.connections


def test_a_client_is_followed_from_its_connect_on() -> None:
    world = World()
    wire = world.trace(client="c")
    world.node.connect("other").publish("t", b"x")
    client = world.node.connect("c")
    world.lines(wire)
    client.publish("a/b", b"hidden", qos=1)
    found = world.lines(wire)
    assert [text.split()[0] for text in found] == ["CONNECT", "CONNACK", "PUBLISH", "PUBACK"]
    assert "a/b" in found[2]
    assert not any("hidden" in text for text in found)


def test_packets_are_found_however_the_stream_is_cut() -> None:
    """Also when the trace begins in the middle of a packet."""
    world = World()
    client = world.node.connect("c")
    data = encode(Publish(b"a/1", b"x" * 300, 0), client.version) + b"\xc0\x00"
    client.wire.feed(data[:100])
    wire = world.trace(client="c")
    client.wire.feed(data[100:])
    world.node.turn()
    for byte in encode(Publish(b"a/2", b"y" * 200, 0), client.version):
        client.wire.feed(bytes([byte]))
    client.wire.feed(encode(Publish(b"a/3", b"z", 0), client.version) * 20)
    found = world.lines(wire)
    assert found[:2] == ["PINGREQ", "PINGRESP"]
    assert found[2].startswith("PUBLISH a/2, QoS 0")
    assert len(found) == 23


def test_a_topic_is_followed_through_all_connections() -> None:
    world = World()
    reader = world.node.connect("reader")
    reader.subscribe("#")
    wire = world.trace(filter="a/+/c")
    writer = world.node.connect("writer")
    world.lines(wire)
    for topic in ("a/b/c", "a/b/d", "a/x/c"):
        writer.publish(topic, b"")
    found = [(value["client"], value["direction"], value["text"].split()[1]) for _, value, _ in traced(world, wire)]
    assert sorted(found) == [
        ("reader", "out", "a/b/c,"),
        ("reader", "out", "a/x/c,"),
        ("writer", "in", "a/b/c,"),
        ("writer", "in", "a/x/c,"),
    ]


def traced(world: World, wire: Wire) -> list[tuple[str, Any, str]]:
    """All events, after a while."""
    world.lines(wire)
    return wire.events


def test_who_sends_too_much_is_told_in_part() -> None:
    world = World()
    client = world.node.connect("c")
    wire = world.trace(client="c")
    client.wire.feed(b"\xc0\x00" * 600)
    assert len(world.lines(wire)) == A_SECOND
    assert sum(value["packets"] for kind, value, _ in wire.events if kind == "lost") >= 100


def test_who_is_not_let_in_is_followed_by_its_name_and_by_its_address() -> None:
    """Without its password; who said nothing of itself is found by its address only."""
    world = World()
    by_name, by_address = world.trace(client="eve"), world.trace(address=host_of(world.peer()))
    other = world.trace(client="mallory")
    world.broker.clients.door.refusing = Refused("not now", ReasonCode.SERVER_BUSY)
    world.node.connect("eve", username="eve", password=b"secret-1")
    world.node.open(V5).wire.feed(b"\xff\xff\xff\xff\xff")
    world.node.turn()
    found = world.lines(by_name)
    assert [text.split()[0] for text in found] == ["CONNECT", "CONNACK"]
    assert not any("secret-1" in text for text in found)
    assert len(world.lines(by_address)) >= 3
    assert world.lines(other) == []


def test_nothing_is_tapped_when_no_trace_runs() -> None:
    """Nor when it has ended: by its time, or because its listener has left."""
    world = World()
    client = world.node.connect("c")
    assert all(one.tap is None for one in world.rings())
    wire = world.trace(client="c", seconds=5)
    assert any(one.tap is not None for one in world.rings())
    world.node.clock.advance(6)
    world.node.clock.advance(1)
    assert wire.finished
    assert all(one.tap is None for one in world.rings())
    client.publish("t", b"x")
    assert world.broker.monitoring.recorder.on_named is None


def test_there_are_only_so_many() -> None:
    world = World()
    wires = [world.trace(client="c") for _ in range(MOST)]
    with pytest.raises(ValueError, match="already"):
        world.trace(client="c")
    wires[0].stream.end()
    world.node.clock.advance(1)
    world.trace(client="c")


def test_other_nodes_are_asked_and_forget_when_they_are_not() -> None:
    cluster, worlds = Cluster("a", "b"), {name: Node() for name in ("a", "b")}
    desks = {}
    for name, node in worlds.items():
        desks[name] = TraceDesk(name, cluster.clock)
        desks[name].begin(node.broker.monitoring.recorder, cluster.of[name])
    stream = Stream()
    desks["a"].trace(Wanted(client="c"), stream)
    wire = Wire(stream)
    client = worlds["b"].connect("c")
    cluster.clock.advance(1)
    client.publish("t", b"x")
    cluster.clock.advance(1)
    assert [value["node"] for kind, value, _ in wire.events if kind == "packet"] == ["b"] * 3
    cluster.down.add("b")
    cluster.clock.advance(1)
    assert "missing" in wire.kinds
    for _ in range(5):
        cluster.clock.advance(10)
    assert all(one.tap is None for one in worlds["b"].broker.monitoring.recorder.connections)
    assert json.dumps(wire.events)


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"client": "a", "filter": "b"},
        {"filter": "a/#/b"},
        {"client": "a", "seconds": "0"},
        {"client": "a", "seconds": "601"},
        {"client": "a", "seconds": "x"},
        {"client": ""},
    ],
)
def test_what_cannot_be_traced_is_a_bad_request(query: dict[str, str]) -> None:
    with pytest.raises(ApiError):
        read_wanted(Call(query=query))
