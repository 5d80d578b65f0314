"""What a codec makes of frames: the things that its gateway said, as values.

Slotted and positional, because a busy gateway makes a hundred thousand of them a second. Treat them as frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

#: What a reading can be. Bytes are for the codec to put into words (hexadecimal, base64).
Value: TypeAlias = "bool | int | float | str | None"


class Event:
    """Base of all of them; only these classes are understood."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__ if name != "secret")
        return f"{type(self).__name__}({inner})"


class Login(Event):
    """The gateway says who it is. Exactly one comes before everything else but ``Send``, ``Heartbeat`` and ``Close``.

    A protocol without a login yields one from ``opened``, with a name from its configuration or the peer's address.
    """

    __slots__ = ("gateway", "username", "secret", "heartbeat")

    def __init__(
        self, gateway: str, username: str | None = None, secret: bytes | None = None, heartbeat: float = 0.0
    ) -> None:
        #: 1 to 64 characters, none of them ``/``, ``+``, ``#``, ``$`` or a control character.
        self.gateway = gateway
        self.username = username
        self.secret = secret
        #: Seconds within which something always comes from this gateway; 0: as the listener says.
        self.heartbeat = heartbeat


class Readings(Event):
    """Values of one device at one time. It becomes one message on ``up/<gateway>/<device>``."""

    __slots__ = ("device", "values", "time", "sequence", "quality")

    def __init__(
        self,
        device: str,
        values: Mapping[str, Value] | bytes,
        time: int | None = None,
        sequence: int | None = None,
        quality: Mapping[str, str] | None = None,
    ) -> None:
        #: As ``Login.gateway``.
        self.device = device
        #: By tag. As ``bytes`` they are a JSON object already: for codecs that are fast.
        self.values = values
        #: The device's clock in milliseconds since 1970; None: when it came.
        self.time = time
        #: Of the gateway's frames, whichever devices they are about. It grows for ever, also over restarts: what comes
        #: with a number that was safe, or a lower one, is a repetition and is not published. None: there is none.
        self.sequence = sequence
        #: By tag, where it is not "good": "bad", "uncertain", "stale".
        self.quality = quality


class WhenSafe(Event):
    """Asks to be told with ``Codec.safe(token)`` once everything before it is safe."""

    __slots__ = ("token",)

    def __init__(self, token: int) -> None:
        self.token = token


class Heartbeat(Event):
    """The gateway is alive and has nothing to say; every other event says so, too."""

    __slots__ = ()


class Send(Event):
    """Bytes for the gateway, in order with everything else that is sent."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Answer(Event):
    """What a device says to a command."""

    __slots__ = ("number", "ok", "detail", "values")

    def __init__(self, number: int, ok: bool, detail: str = "", values: Mapping[str, Value] | None = None) -> None:
        #: ``Command.number`` of the one that is answered.
        self.number = number
        self.ok = ok
        #: For a person: why it failed.
        self.detail = detail
        #: What the device answered, for whoever sent the command.
        self.values = values


class Close(Event):
    """The connection is of no use any more; what was sent before leaves first."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason
