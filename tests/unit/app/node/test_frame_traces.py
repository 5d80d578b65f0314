"""Frames of gateways in traces: in hex, with what the codec made of them, from behind the login, and bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from iot_mqtt.admin.streams import Stream
from iot_mqtt.admin.trace_resources import Wanted
from iot_mqtt.app.node.events import Sources
from iot_mqtt.app.node.frame_traces import LONGEST, SHOWN
from iot_mqtt.app.node.tracing import A_SECOND, TraceDesk
from iot_mqtt.pipeline.pipeline import Pipeline
from tests.unit.app.node.test_events import Wire
from tests.unit.devices.link.linkkit import World


class Traced:
    """A listener of gateways, and who traces it."""

    def __init__(self, folder: Path) -> None:
        self.world = World(captures=folder)
        self.node = self.world.node
        broker = self.node.broker
        self._desk = TraceDesk("n1", self.node.clock)
        sources = Sources(broker.monitoring.events, broker.counters, int, tuple, tuple)
        self._desk.begin(broker.monitoring.recorder, sources, self.world.captures)

    def trace(self, **wanted: Any) -> Wire:
        stream = Stream()
        self._desk.trace(Wanted(**wanted), stream)
        return Wire(stream)

    def lines(self, wire: Wire) -> list[tuple[str, str, str]]:
        """Client, direction and text of what was told of frames so far."""
        self.node.clock.advance(1)
        self.node.turn()
        packets = [value for kind, value, _ in wire.events if kind == "packet"]
        frames = [one for one in packets if one["packet"] in ("FRAME", "EVENT")]
        return [(one["client"], one["direction"], one["text"]) for one in frames]


def shown(text: bytes) -> str:
    return f"frame of {len(text)} bytes: {text.hex()}"


def test_a_gateway_is_followed_with_what_its_codec_made_of_it(tmp_path: Path) -> None:
    """Whether it was there before the trace or comes later; never its login, and nobody else."""
    traced = Traced(tmp_path)
    early = traced.world.gateway("line-1")
    other = traced.world.gateway("line-2")
    wire = traced.trace(client="line-1")
    early.say('r press {"t": 1} 7', "beat")
    other.say("beat")
    assert traced.lines(wire) == [
        ("line-1", "in", shown(b'r press {"t": 1} 7')),
        ("line-1", "in", shown(b"beat")),
        ("line-1", "in", 'readings {"device": "press", "values": {"t": 1}, "time": 1000, "sequence": 7}'),
        ("line-1", "in", "heartbeat {}"),
        ("line-1", "out", shown(b"beat\n")),
    ]
    early.hang_up()
    late = traced.world.gateway("line-1", "ann")
    late.say("beat")
    found = traced.lines(wire)[5:]
    assert ("line-1", "in", shown(b"beat")) in found
    assert not any("login" in text or b"login".hex() in text or b"ann".hex() in text for _, _, text in found)


def test_a_device_has_the_frames_of_its_gateway_and_its_own_events(tmp_path: Path) -> None:
    """A frame does not say whose it is."""
    traced = Traced(tmp_path)
    gateway = traced.world.gateway("line-1")
    wire = traced.trace(client="line-1/press")
    gateway.say('r press {"t": 1}', 'r oven {"t": 2}')
    texts = [text for _, _, text in traced.lines(wire)]
    assert texts[:2] == [shown(b'r press {"t": 1}'), shown(b'r oven {"t": 2}')]
    assert [text.split(",")[0] for text in texts[2:]] == ['readings {"device": "press"']


def test_long_frames_and_many_frames_are_cut(tmp_path: Path) -> None:
    """What is left out is counted; a trace that nobody asks for any more looks at nothing."""
    traced = Traced(tmp_path)
    gateway = traced.world.gateway("line-1")
    wire = traced.trace(client="line-1")
    long = f'r press {{"text": "{"x" * 2_000}"}}'
    gateway.say(long)
    frame, event = [text for _, _, text in traced.lines(wire)]
    assert frame == f"frame of {len(long)} bytes: {long.encode()[:SHOWN].hex()}…"
    assert len(event) == LONGEST + 1
    gateway.say(*['r press {"t": 1}'] * A_SECOND)
    assert len(traced.lines(wire)) - 2 == A_SECOND
    # Of each reading there are the frame, the event, and the PUBLISH that it becomes.
    assert [value["packets"] for kind, value, _ in wire.events if kind == "lost"] == [2 * A_SECOND]
    pipeline = cast(Pipeline, gateway.wire.channel.pipeline)
    assert "watch" in pipeline
    wire.stream.end()
    traced.node.clock.advance(1)
    assert "watch" not in pipeline
