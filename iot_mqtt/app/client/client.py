"""A client that waits: one connection, one thread, and everything that has to happen while it waits."""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from iot_mqtt.app.client import words
from iot_mqtt.app.client.errors import NoConnection, NotTaken, Rejected, TookTooLong
from iot_mqtt.app.client.protocol import Arrived, Ended, Event, Protocol, Settled
from iot_mqtt.app.client.streams import Stream
from iot_mqtt.codec import (
    MAX_PACKET_SIZE,
    NO_PROPERTIES,
    Connack,
    Properties,
    Publish,
    Request,
    Suback,
    Unsuback,
    size,
)
from iot_mqtt.errors import ReasonCode

#: Bytes that wait to be written; above it nothing more is published until some have left.
_HIGH: Final = 262_144
#: Reads in one step; there may be more to read then.
_READS: Final = 64
#: Seconds that a broker has to answer PINGREQ, at most; and to close after DISCONNECT.
_PING_PATIENCE: Final = 30.0
_LINGER: Final = 1.0

Note = Callable[[str], None]
Answer = TypeVar("Answer", Suback, Unsuback)


class Client:
    """``connect`` first. Whatever waits does what has come, writes what is left, and pings.

    The end of the connection is raised by the first wait after everything that came before it was handed out.
    """

    def __init__(
        self,
        stream: Stream,
        protocol: Protocol,
        keep_alive: int,
        note: Note | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.protocol = protocol
        #: Messages, for whoever takes them to accept.
        self.arrived: deque[Publish] = deque()
        #: What became of messages that were sent.
        self.settled: deque[Settled] = deque()
        self._stream = stream
        self._keep_alive = keep_alive
        self._note = note
        self._now = now
        self._wrote = now()
        self._connack: Connack | None = None
        self._answers: dict[int, Suback | Unsuback] = {}
        self._failure: Exception | None = None
        self._more = False

    # What is asked of the broker.

    def connect(self, patience: float) -> Connack:
        """What the broker said; ``Rejected`` if it was no."""
        until = self._now() + patience
        while self._connack is None:
            if not self.step(until, must=True):
                raise NoConnection(f"no answer to CONNECT within {patience:g} s; does this port speak MQTT?")
        found = self._connack
        if found.reason >= 0x80:
            said = found.properties
            reason = words.sentence(found.reason, said.reason_string, said.server_reference)
            raise Rejected(f"the broker refuses the connection: {reason}", found.reason)
        if found.properties.server_keep_alive is not None:
            self._keep_alive = found.properties.server_keep_alive
        return found

    def subscribe(self, filters: tuple[Request, ...], properties: Properties, patience: float) -> Suback:
        return self._answer(self.protocol.subscribe(filters, properties), Suback, "SUBSCRIBE", patience)

    def unsubscribe(self, filters: tuple[str, ...], patience: float) -> Unsuback:
        return self._answer(self.protocol.unsubscribe(filters), Unsuback, "UNSUBSCRIBE", patience)

    def publish(self, message: Publish) -> int:
        """Send as soon as there is room for it; the packet id. ``NotTaken`` if the broker has said that it will not."""
        self._check(message)
        while (message.qos and self.protocol.room <= 0) or len(self.protocol.out) > _HIGH:
            self.step(None)
        return self.protocol.publish(message)

    def settle(self, patience: float) -> None:
        """Until everything that was sent is answered."""
        until = self._now() + patience
        self._write()
        while self.protocol.unsettled or self.protocol.out:
            if not self.step(until, must=True) and self._now() >= until:
                raise TookTooLong(f"{self.protocol.unsettled} messages were not acknowledged within {patience:g} s")

    def release(self, patience: float) -> None:
        """Until the exchanges of QoS 2 messages that were accepted are over, or for so long."""
        until = self._now() + patience
        while self.protocol.unreleased and self._failure is None and self._now() < until:
            self.step(until)

    def close(self, reason: ReasonCode = ReasonCode.SUCCESS, properties: Properties = NO_PROPERTIES) -> None:
        """Say goodbye, and wait a moment for what the broker has still to say. May raise what a wait may."""
        ended = self._failure
        if ended is None:
            self.protocol.disconnect(reason, properties)
            until = self._now() + _LINGER
            while self._failure is None and self._now() < until:
                self.step(until)
            ended = self._failure
        self._stream.close()
        if isinstance(ended, Rejected):
            raise ended

    def drop(self) -> None:
        """Close without a word."""
        self._stream.close()

    # Waiting.

    def step(self, until: float | None, beside: int | None = None, *, must: bool = False) -> bool:
        """Wait until something has come, or ``until``; then do what is to be done.

        Says whether ``beside``, another file, can be read, or with ``must`` whether anything has come at all.
        """
        if self._failure is not None:
            raise self._failure
        self._write()
        ready, ours = self._poll(self._seconds(until), beside)
        if ours:
            self._read()
        self._write()
        self._stay_alive()
        return ours if must else ready

    # For who waits for many clients at once.

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def writing(self) -> bool:
        """Whether there is something to be written."""
        return bool(self.protocol.out) or self._stream.waiting

    def pump(self) -> None:
        """Do what is to be done, without waiting."""
        if self._failure is not None:
            raise self._failure
        self._read()
        while self._more:
            self._read()
        self._write()
        self._stay_alive()

    def _poll(self, seconds: float | None, beside: int | None) -> tuple[bool, bool]:
        number = self._stream.fileno()
        writes = select.POLLOUT if self.writing else 0
        poller = select.poll()
        poller.register(number, select.POLLIN | writes)
        if beside is not None:
            poller.register(beside, select.POLLIN)
        found = dict(poller.poll(None if seconds is None else seconds * 1000))
        ours = self._more or bool(found.get(number))
        return beside is not None and beside in found, ours

    def _seconds(self, until: float | None) -> float | None:
        """How long to wait."""
        if self._more:
            return 0.0
        ends = [] if until is None else [until]
        if self._keep_alive:
            patience = min(self._keep_alive, _PING_PATIENCE) if self.protocol.pinged else self._keep_alive
            ends.append(self._wrote + patience)
        return max(0.0, min(ends) - self._now()) if ends else None

    def _read(self) -> None:
        self._more = False
        for _ in range(_READS):
            data = self._stream.receive()
            if data is None:
                return
            if not data:
                if self._failure is None:
                    self._failure = NoConnection("the connection was closed by the broker or on the way")
                return
            for event in self.protocol.feed(data):
                self._take(event)
        self._more = True

    def _take(self, event: Event) -> None:
        if isinstance(event, Arrived):
            self.arrived.append(event.message)
        elif isinstance(event, Settled):
            self.settled.append(event)
        elif isinstance(event, Connack):
            self._connack = event
        elif isinstance(event, Ended):
            reason = words.sentence(event.reason, event.said, event.server)
            who = "the connection was ended" if event.ours else "the broker ended the connection"
            self._failure = Rejected(f"{who}: {reason}", event.reason)
        else:
            self._answers[event.packet_id] = event
        if self._note is not None:
            self._note(_noted(event))

    def _write(self) -> None:
        out = self.protocol.out
        while out:
            # A copy of a piece: bytes behind it may be added while it is written.
            sent = self._stream.send(bytes(out[:_HIGH]))
            if not sent:
                return
            del out[:sent]
            self._wrote = self._now()

    def _stay_alive(self) -> None:
        idle = self._now() - self._wrote
        if not self._keep_alive or self._connack is None:
            return
        if self.protocol.pinged and idle >= min(self._keep_alive, _PING_PATIENCE):
            self._failure = NoConnection("the broker does not answer any more")
        elif not self.protocol.pinged and idle >= self._keep_alive:
            self.protocol.ping()
            self._write()

    def _answer(self, number: int, kind: type[Answer], what: str, patience: float) -> Answer:
        until = self._now() + patience
        while number not in self._answers:
            if not self.step(until, must=True) and self._now() >= until:
                raise TookTooLong(f"no answer to {what} within {patience:g} s")
        found = self._answers.pop(number)
        assert isinstance(found, kind)
        return found

    def _check(self, message: Publish) -> None:
        """What the broker has said in CONNACK that it does not take."""
        limits = self.protocol.limits
        if limits.maximum_qos is not None and message.qos > limits.maximum_qos:
            raise NotTaken(f"the broker takes no QoS {message.qos}; the highest is -q {limits.maximum_qos}")
        if message.retain and limits.retain_available is False:
            raise NotTaken("the broker keeps no retained messages; leave -r out")
        alias = message.properties.topic_alias
        if alias is not None and alias > (limits.topic_alias_maximum or 0):
            raise NotTaken(f"the broker takes topic aliases up to {limits.topic_alias_maximum or 0}, not {alias}")
        most = limits.maximum_packet_size or MAX_PACKET_SIZE
        needs = len(message.payload)
        if needs <= most:
            needs = size(replace(message, packet_id=1) if message.qos else message, self.protocol.version)
        if needs > most:
            raise NotTaken(f"the broker takes packets of up to {most} bytes; this message needs {needs}")


def _noted(event: Event) -> str:
    """For -d."""
    if isinstance(event, Connack):
        return f"CONNACK {words.name(event.reason)}, session present: {event.session_present}"
    if isinstance(event, Arrived):
        message = event.message
        return f"PUBLISH {message.topic!r} q{message.qos} m{message.packet_id}, {len(message.payload)} bytes"
    if isinstance(event, Settled):
        return f"acknowledged m{event.packet_id}: {words.sentence(event.reason, event.said)}"
    if isinstance(event, Ended):
        return f"ended: {words.sentence(event.reason, event.said)}"
    return f"{event.type.name} m{event.packet_id}: {', '.join(map(words.name, event.reasons))}"
