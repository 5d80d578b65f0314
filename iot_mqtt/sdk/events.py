"""What a codec makes of frames: the things that its gateway said, as values.

Slotted and positional, because a busy gateway makes a hundred thousand of them a second. Treat them as frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

#: What a reading can be. Bytes are for the codec to put into words (hexadecimal, base64).
Value: TypeAlias = "bool | int | float | str | None"


class Event:
    """Base of all of them; only these classes are understood."""

    __slots__: tuple[str, ...] = ()


@dataclass(slots=True)
class Login(Event):
    """The gateway says who it is. Exactly one comes before everything else but ``Send``, ``Heartbeat`` and ``Close``.

    A protocol without a login yields one from ``opened``, with a name from its configuration or the peer's address.
    """

    #: 1 to 64 characters, none of them ``/``, ``+``, ``#``, ``$`` or a control character.
    gateway: str
    username: str | None = None
    secret: bytes | None = field(default=None, repr=False)
    #: Seconds within which something always comes from this gateway; 0: as the listener says.
    heartbeat: float = 0.0


@dataclass(slots=True)
class Readings(Event):
    """Values of one device at one time. It becomes one message on ``up/<gateway>/<device>``."""

    #: As ``Login.gateway``.
    device: str
    #: By tag. As ``bytes`` they are a JSON object already: for codecs that are fast.
    values: Mapping[str, Value] | bytes
    #: The device's clock in milliseconds since 1970; None: when it came.
    time: int | None = None
    #: Of the gateway's frames, whichever devices they are about. It grows for ever, also over restarts: what comes
    #: with a number that was safe, or a lower one, is a repetition and is not published. None: there is none.
    sequence: int | None = None
    #: By tag, where it is not "good": "bad", "uncertain", "stale".
    quality: Mapping[str, str] | None = None


@dataclass(slots=True)
class WhenSafe(Event):
    """Asks to be told with ``Codec.safe(token)`` once everything before it is safe."""

    token: int


@dataclass(slots=True)
class Heartbeat(Event):
    """The gateway is alive and has nothing to say; every other event says so, too."""


@dataclass(slots=True)
class Send(Event):
    """Bytes for the gateway, in order with everything else that is sent."""

    data: bytes


@dataclass(slots=True)
class Answer(Event):
    """What a device says to a command."""

    #: ``Command.number`` of the one that is answered.
    number: int
    ok: bool
    #: For a person: why it failed.
    detail: str = ""
    #: What the device answered, for whoever sent the command.
    values: Mapping[str, Value] | None = None


@dataclass(slots=True)
class Close(Event):
    """The connection is of no use any more; what was sent before leaves first."""

    reason: str
