"""What a vendor writes: one class that turns frames into values and commands into frames.

::

    bytes ─▶ framing (declared) ─▶ frame ─▶ Codec.decode ─▶ Readings, Login, Answer … ─▶ broker
    bytes ◀──────────────────────────────── Codec.encode ◀─ Command ◀───────────────────┘

A codec does no I/O, starts no thread and reads no clock but ``host.now``. One object serves one connection, so what it
has to remember of a gateway it keeps in itself. Found through the entry-point group ``iot_mqtt.codecs``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

from iot_mqtt.framing import Framing
from iot_mqtt.sdk.events import Event, Value
from iot_mqtt.sdk.schema import Schema

#: Plugins say which they were written for; another one is refused with the reason.
SDK_VERSION: Final = 1

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class NoConfig:
    """A codec that needs none."""


@dataclass(frozen=True, slots=True)
class Command:
    """Something that a device is to do. What its fields are called is between its sender and the codec."""

    #: Counts the commands of this connection; an ``Answer`` names it. 1 to 0xFFFFFFFF.
    number: int
    device: str
    #: The body, if it was a JSON object; empty otherwise.
    values: Mapping[str, Any]
    #: The body as it came.
    body: bytes
    #: Milliseconds since 1970 after which it must not be done any more; None: no deadline.
    deadline: int | None = None


class Host(Generic[C]):
    """What a codec gets from the broker."""

    def __init__(
        self,
        config: C,
        *,
        peer: str,
        log: logging.Logger,
        count: Callable[[str, int], None],
        now: Callable[[], int],
    ) -> None:
        self.config = config
        #: Address of the gateway.
        self.peer = peer
        self.log = log
        #: ``count("retries", 1)`` shows as ``iot_mqtt_codec_events_total{codec=…, event="retries"}``; at most 32 names.
        self.count = count
        #: Milliseconds since 1970.
        self.now = now


class Codec:
    """Base of all codecs. Only ``framing`` and ``decode``, or ``decode_many`` in its place, must be given."""

    #: The SDK it was written for.
    sdk: ClassVar[int] = SDK_VERSION
    #: The plugin's own version, for people.
    version: ClassVar[str] = "0"
    framing: ClassVar[Framing]
    #: What it tells; published with the data. See ``iot_mqtt.sdk.Schema``.
    schema: ClassVar[Schema] = Schema()
    #: Whether gateways answer commands: then one has no more unanswered ones than ``commands_at_once`` of its listener.
    answers: ClassVar[bool] = False
    #: A frozen dataclass; ``application.yaml`` is checked against it strictly.
    Config: ClassVar[type] = NoConfig

    def __init__(self, host: Host[Any]) -> None:
        self.host = host

    def opened(self) -> Iterable[Event]:
        """The connection is there."""
        return ()

    def decode(self, frame: bytes) -> Iterable[Event]:
        """What a frame says. Raises ``BadFrame``."""
        if type(self).decode_many is Codec.decode_many:
            raise NotImplementedError("a codec has decode, or decode_many")
        try:
            return self.decode_many((frame,))
        except BadBatch as batch:
            raise batch.error from None

    def decode_many(self, frames: Sequence[bytes]) -> list[Event]:
        """What several frames say, in order. For codecs that are faster at many; ``decode`` must agree with it.

        When a frame is bad, what was decoded before it must not get lost: it is in ``BadBatch.events``.
        """
        events: list[Event] = []
        for frame in frames:
            try:
                events.extend(self.decode(frame))
            except Exception as error:
                raise BadBatch(events, error) from error
        return events

    def welcome(self) -> bytes:
        """The gateway is let in: what it is told."""
        return b""

    def refuse(self, reason: str) -> bytes:
        """The gateway is not let in, or no longer: what it is told before the connection is closed."""
        return b""

    def safe(self, token: int) -> bytes:
        """All that came before ``WhenSafe(token)`` is safe: what the gateway is told. A token covers earlier ones."""
        return b""

    def encode(self, command: Command) -> bytes:
        """A command as bytes for the gateway. Raises ``CannotEncode``."""
        from iot_mqtt.sdk.errors import CannotEncode

        raise CannotEncode("this protocol has no commands")

    def idle(self) -> Iterable[Event]:
        """Nothing came for two thirds of the heartbeat: a chance to ask whether the gateway is there."""
        return ()


class BadBatch(Exception):
    """A frame among several was bad: what came before it, and why."""

    def __init__(self, events: list[Event], error: Exception) -> None:
        super().__init__(str(error))
        self.events = events
        self.error = error


__all__ = ["SDK_VERSION", "BadBatch", "Codec", "Command", "Host", "NoConfig", "Value"]
