"""One connection with a codec, led as the broker leads it, with a memory of all that came out.

::

    bytes ─▶ framer ─▶ Codec.decode_many ─▶ rules ─▶ events          an end: BadFrame, framing, Close, order
                                                   └▶ Fault           the codec's own doing

The clock stands still and the logger is silent, so that the same bytes give the same events.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from iot_mqtt.framing import FrameError, framer_of
from iot_mqtt.sdk.codec import BadBatch, Codec, Host
from iot_mqtt.sdk.errors import BadFrame, CannotEncode
from iot_mqtt.sdk.event_json import as_json, command_from
from iot_mqtt.sdk.events import Close, Event, Heartbeat, Login, Send
from iot_mqtt.sdk.kit.rules import (
    NOT_ITS_OWN,
    Fault,
    check_bytes,
    check_encoded,
    check_event,
    check_reason,
    check_schema,
)
from iot_mqtt.sdk.kit.vectors import Vector, Vectors

#: What ``Host.now`` says: some day in November 2023.
NOW: Final = 1_700_000_000_000
PEER: Final = "192.0.2.1:40000"
_MAX_COUNTERS: Final = 32

_LOG = logging.getLogger("iot_mqtt.sdk.kit.codec")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False


@dataclass(frozen=True, slots=True)
class Subject:
    """What is examined."""

    codec: type[Codec]
    config: Any
    vectors: Vectors
    #: What ``config`` was read from.
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: Names that ``Host.count`` was given: labels of a metric, so they are counted over all connections.
    counters: set[str] = field(default_factory=set)


class Conversation:
    """One connection. ``end`` says why nothing more is taken; a ``Fault`` is raised."""

    def __init__(self, subject: Subject, *, with_schema: bool = False) -> None:
        self._subject = subject
        self._schema = subject.codec.schema if with_schema else None
        self._is_known = False
        self.events: list[Event] = []
        self.end = ""
        #: Frames that reached the codec.
        self.frames = 0
        self._framer = framer_of(subject.codec.framing)
        host = Host(subject.config, peer=PEER, log=_LOG, count=self._count, now=lambda: NOW)
        self.codec: Codec = called("the constructor", subject.codec, host)
        self._take(called("opened", lambda: list(self.codec.opened())))

    @classmethod
    def after(cls, subject: Subject, vector: Vector, *, with_schema: bool = False) -> Conversation:
        """A connection on which happened what comes before a vector; its events are forgotten."""
        conversation = cls(subject, with_schema=with_schema)
        for earlier in subject.vectors.before(vector):
            conversation.play(earlier)
        conversation.events.clear()
        return conversation

    def play(self, vector: Vector) -> bytes | str | None:
        """Do what the vector says; returns what was encoded or said, or in words why there is no such command."""
        result: bytes | str | None = None
        if vector.say is not None:
            result = self.say(*vector.say)
        if vector.command is not None:
            result = self.encode(command_from(vector.command))
        for frame in vector.frames:
            self.feed(frame)
        return result

    @property
    def buffered(self) -> int:
        """Bytes of a frame that is not complete."""
        return self._framer.buffered

    def story(self) -> list[dict[str, Any]]:
        """All events and the end, to be compared."""
        told = [as_json(event, secrets=True) for event in self.events]
        return [*told, {"end": self.end}] if self.end else told

    def feed(self, data: bytes) -> None:
        """Bytes from the gateway. Raises ``Fault``."""
        if self.end:
            return
        items = self._framer.feed(data)
        frames = [item for item in items if isinstance(item, bytes)]
        if frames:
            self.decode(frames)
        if items and isinstance(items[-1], FrameError):
            self._ended(items[-1].reason)

    def _ended(self, reason: str) -> None:
        """The first end counts: frames before a bad one may have ended it already."""
        if not self.end:
            self.end = str(reason)

    def decode(self, frames: list[bytes]) -> None:
        """Frames for the codec, all in one call."""
        self.frames += len(frames)
        events, error = decoded(self.codec, frames)
        self._take(events)
        if error is not None:
            self._ended(error.reason)

    def encode(self, command: Any) -> bytes | str:
        """The bytes of a command, or why it has none. Raises ``Fault``."""
        try:
            return check_encoded(self.codec.encode(command))
        except CannotEncode as error:
            return str(error) or "CannotEncode without a reason"
        except NOT_ITS_OWN:
            raise
        except BaseException as error:
            told = f"number={command.number}, device={command.device!r}, values={dict(command.values)!r}"
            raise Fault(f"encode({told:.300}) raised {said(error)}; only CannotEncode may be raised") from error

    def say(self, word: str, argument: Any = None) -> bytes:
        """``welcome``, ``refuse`` or ``safe``. Raises ``Fault``."""
        arguments = () if word == "welcome" else (argument,)
        return check_bytes(called(word, getattr(self.codec, word), *arguments), word)

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            check_event(event)
            if self._schema is not None:
                check_schema(event, self._schema)
            if self.end:
                continue
            if isinstance(event, Login):
                self._login(event)
            elif isinstance(event, Close):
                self.events.append(event)
                self.end = "closed"
            elif self._is_known or isinstance(event, Send | Heartbeat):
                self.events.append(event)
            else:
                self.end = "no_login"

    def _login(self, event: Login) -> None:
        if self._is_known:
            self.end = "unexpected"
            return
        self._is_known = True
        self.events.append(event)
        self.say("welcome")

    def _count(self, name: str, amount: int = 1) -> None:
        self._subject.counters.add(name)
        if len(self._subject.counters) > _MAX_COUNTERS:
            raise Fault(f"count() has more than {_MAX_COUNTERS} names; {name!r} is one too many")


def decoded(codec: Codec, frames: list[bytes]) -> tuple[list[Event], BadFrame | None]:
    """What ``decode_many`` says, and the bad frame that ended it. Raises ``Fault``."""
    try:
        return list(codec.decode_many(frames)), None
    except BadBatch as batch:
        if isinstance(batch.error, BadFrame):
            check_reason(batch.error.reason)
            return list(batch.events), batch.error
        error: BaseException = batch.error
    except BadFrame as bad:
        check_reason(bad.reason)
        return [], bad
    except NOT_ITS_OWN:
        raise
    except BaseException as other:  # noqa: BLE001  # whatever a codec raises is told
        error = other
    if isinstance(error, Fault):
        raise error
    shown = ", ".join(frame.hex() for frame in frames[:3])
    raise Fault(f"decode raised {said(error)}; only BadFrame may be raised. Frames: {shown:.300}") from error


def called(what: str, function: Any, *arguments: Any) -> Any:
    """The result of a method that must not raise. Raises ``Fault``."""
    try:
        return function(*arguments)
    except NOT_ITS_OWN:
        raise
    except BaseException as error:
        raise Fault(f"{what} raised {said(error)}") from error


def said(error: BaseException) -> str:
    """The error, and the line of the codec where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""
    return f"{type(error).__name__}: {error}{where}"
