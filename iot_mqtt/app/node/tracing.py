"""Traces: what goes over connections, packet by packet, as it goes; of all nodes, for who looks at one.

A trace is of a client, of an address, or of the messages of a topic filter. It taps the rings of the connections it is
about, so a connection that is in none pays nothing. Each node describes its own packets, without payloads and
passwords; others ask for them again and again, and a node that was not asked for a while ends the trace::

    ring ──tap──▶ splitter ──▶ lines, so many a second ◀──"trace.lines"── the node where somebody looks
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from typing import Any, Final

from twisted.internet.defer import Deferred, ensureDeferred

from iot_mqtt.admin.streams import Stream, event_bytes
from iot_mqtt.admin.trace_resources import Wanted
from iot_mqtt.app.node.events import Sources
from iot_mqtt.app.node.frame_traces import FrameTraces
from iot_mqtt.broker.facade import MemberInfo
from iot_mqtt.broker.recorder import Recorded, Recorder, is_over
from iot_mqtt.codec.describing import Splitter, described, described_one
from iot_mqtt.devices.link import Captures
from iot_mqtt.pause import pause
from iot_mqtt.ports.addresses import host_of
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.questions import AskingLater
from iot_mqtt.topics import matches

log = logging.getLogger(__name__)

QUESTION: Final = "trace.lines"
#: Traces of a node at once, those for other nodes included; lines of one that wait, and lines of one in a second.
MOST: Final = 8
WAITING: Final = 2000
A_SECOND: Final = 500
#: Seconds between two looks for lines; until a trace that nobody asks for ends.
LOOK: Final = 0.25
FORGOTTEN: Final = 10.0

Line = Mapping[str, object]


@dataclass(slots=True)
class _Tapped:
    """One connection of one trace: where its two streams stand."""

    recorded: Recorded
    inbound: Splitter
    five: bool


class Trace:
    """On one node."""

    def __init__(self, wanted: Wanted, recorder: Recorder, clock: Clock, node: str) -> None:
        self.wanted = wanted
        self.lines: deque[Line] = deque()
        #: Packets that were not told: too many.
        self.lost = 0
        self.asked_at = clock.monotonic()
        self._recorder = recorder
        self._clock = clock
        self._node = node
        self._second = 0
        self._told = 0
        self._tapped: dict[Recorded, _Tapped] = {}

    def concerns(self, recorded: Recorded) -> bool:
        """Whether it is about a connection."""
        wanted = self.wanted
        if wanted.client is not None:
            return recorded.client_id == wanted.client
        return wanted.address is None or host_of(recorded.peer) == wanted.address

    def tap(self, recorded: Recorded) -> None:
        """A connection that it is about, from the next receive on."""
        head, skip, five = recorded.place()
        self._tapped[recorded] = _Tapped(recorded, Splitter(head, skip), five)

    def begun(self, recorded: Recorded) -> None:
        """The same of one that has just begun: with what came so far."""
        if self.wanted.filter is None:
            for one in described(recorded.image()):
                self.tell(recorded.client_id, recorded.peer, one.direction, one.packet, one.text)

    def leave(self, recorded: Recorded) -> None:
        """A connection that is over."""
        self._tapped.pop(recorded, None)

    def heard(self, recorded: Recorded, direction: int, data: bytes) -> None:
        """Bytes went over a connection."""
        tapped = self._tapped.get(recorded)
        if tapped is None:
            return
        splitter = Splitter() if direction else tapped.inbound
        for first, length, body in splitter.feed(data):
            if self.wanted.filter is not None and first >> 4 != 3:
                continue
            if self.full:
                self.lost += 1
                continue
            packet, text, topic = described_one(first, length, body, tapped.five)
            if self.wanted.filter is None or matches(self.wanted.filter, topic.decode("utf-8", "replace")):
                self.tell(recorded.client_id, recorded.peer, "out" if direction else "in", packet, text)

    def take(self) -> dict[str, Any]:
        """What has gathered."""
        lines, lost = list(self.lines), self.lost
        self.lines.clear()
        self.lost = 0
        self.asked_at = self._clock.monotonic()
        return {"lines": lines, "lost": lost}

    @property
    def full(self) -> bool:
        """Whether nothing more is told in this second."""
        return self._told >= A_SECOND and self._second == int(self._clock.monotonic())

    def tell(self, client: str, peer: str, direction: str, packet: str, text: str) -> None:
        """One line, if there is room for it."""
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second, self._told = second, 0
        if self._told >= A_SECOND or len(self.lines) >= WAITING:
            self.lost += 1
            return
        self._told += 1
        who = {"node": self._node, "at": self._clock.wall(), "client": client, "peer": peer}
        self.lines.append({**who, "direction": direction, "packet": packet, "text": text})


class TraceDesk:
    """All traces of a node, and those it looks at on others."""

    def __init__(self, node: str, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._recorder: Recorder | None = None
        self._of: Sources | None = None
        self._traces: dict[str, Trace] = {}
        self._frames: FrameTraces | None = None

    def begin(self, recorder: Recorder, of: Sources, links: Captures | None = None) -> None:
        """There is a broker; ``links``: to gateways."""
        self._recorder, self._of = recorder, of
        self._frames = None if links is None else FrameTraces(links, self._traces)
        recorder.on_ended = self._ended
        if of.asking is not None:
            of.asking.later[QUESTION] = self._answer

    def trace(self, wanted: Wanted, stream: Stream) -> None:
        """Send what is wanted of all nodes to a stream, for as long as it is open; ``ValueError`` where there are too
        many.
        """
        of, id = self._of, token_hex(8)
        assert of is not None
        self._open(id, wanted)
        self._follow(self._here(id, stream))
        for member in of.members():
            if member.state != "self" and not member.away and of.asking is not None:
                self._follow(self._there(of.asking, member, id, wanted, stream))
        self._clock.call_later(wanted.seconds, stream.end)

    # On this node.

    def _open(self, id: str, wanted: Wanted) -> Trace:
        for old, trace in tuple(self._traces.items()):
            if self._clock.monotonic() - trace.asked_at > FORGOTTEN:
                self._close(old)
        if len(self._traces) >= MOST:
            raise ValueError(f"{MOST} traces run on {self._node} already")
        recorder = self._recorder
        assert recorder is not None
        if not recorder.most:
            raise ValueError(f"{self._node} records nothing: recorder.enabled is false")
        trace = self._traces[id] = Trace(wanted, recorder, self._clock, self._node)
        recorder.on_named, recorder.on_refused = self._named, self._refused
        for recorded in recorder.connections:
            if recorded.client_id and trace.concerns(recorded):
                self._tap(trace, recorded)
        if self._frames is not None:
            self._frames.look()
        self._clock.call_later(FORGOTTEN, partial(self._look_after, id))
        return trace

    def _close(self, id: str) -> None:
        self._traces.pop(id, None)
        if self._frames is not None:
            self._frames.look()
        recorder = self._recorder
        if recorder is not None and not self._traces:
            recorder.on_named = recorder.on_refused = None
            for recorded in recorder.connections:
                recorded.tap = None

    def _look_after(self, id: str) -> None:
        trace = self._traces.get(id)
        if trace is None:
            return
        if self._clock.monotonic() - trace.asked_at > FORGOTTEN:
            self._close(id)
        else:
            self._clock.call_later(FORGOTTEN, partial(self._look_after, id))

    def _named(self, recorded: Recorded) -> None:
        # Not now: the receive that it is part of is not over.
        self._clock.call_later(0, partial(self._begun, recorded))

    def _begun(self, recorded: Recorded) -> None:
        for trace in self._traces.values():
            if not is_over(recorded) and trace.concerns(recorded):
                trace.begun(recorded)
                self._tap(trace, recorded)

    def _refused(self, recorded: Recorded) -> None:
        """Whole, for it is over: what it sent, and how it was told."""
        for trace in self._traces.values():
            if trace.concerns(recorded):
                trace.begun(recorded)

    def _tap(self, trace: Trace, recorded: Recorded) -> None:
        trace.tap(recorded)
        recorded.tap = partial(self._heard, recorded)

    def _heard(self, recorded: Recorded, direction: int, data: bytes) -> None:
        """Called in the middle of a receive or a write: nothing that goes wrong here may end a connection."""
        for trace in tuple(self._traces.values()):
            try:
                trace.heard(recorded, direction, data)
            except Exception as error:
                trace.leave(recorded)
                log.error("a trace cannot follow a connection", exc_info=error)

    def _ended(self, recorded: Recorded) -> None:
        for trace in self._traces.values():
            trace.leave(recorded)

    # Towards who looks.

    async def _here(self, id: str, stream: Stream) -> None:
        while not stream.ended and (trace := self._traces.get(id)) is not None:
            _put(stream, self._node, trace.take())
            await pause(self._clock, LOOK)
        self._close(id)

    async def _there(self, asking: AskingLater, member: MemberInfo, id: str, wanted: Wanted, stream: Stream) -> None:
        question = json.dumps({"id": id, **wanted.asdict()}).encode()
        while not stream.ended:
            answers = await asking.ask_all(QUESTION, question, 5.0, (member.number,))
            answer = answers.get(member.number, "it is not there")
            if isinstance(answer, str):
                stream.put(event_bytes("missing", {"node": member.node_id, "reason": answer}))
                await pause(self._clock, 2.0)
                continue
            _put(stream, member.node_id, json.loads(answer))
            await pause(self._clock, LOOK)

    async def _answer(self, body: bytes) -> bytes:
        asked = json.loads(body)
        id = str(asked.pop("id"))
        trace = self._traces.get(id)
        return json.dumps((trace or self._open(id, Wanted(**asked))).take()).encode()

    def _follow(self, following: Any) -> None:
        waiting: Deferred[None] = ensureDeferred(following)
        waiting.addErrback(lambda failure: log.error("a trace ended: %s", failure.value))


def _put(stream: Stream, node: str, found: Mapping[str, Any]) -> None:
    for line in found["lines"]:
        stream.put(event_bytes("packet", line))
    if found["lost"]:
        stream.lost += int(found["lost"])
        stream.put(event_bytes("lost", {"node": node, "packets": found["lost"]}))
