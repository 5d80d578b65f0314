"""Numbers and small pieces of the gateway protocol, which both ends share.

::

    │ 0     │ 1 … 6            │ 7        │ 8, 9           │ 10 …
    │ magic │ milliseconds     │ channels │ length of data │ data          big endian throughout

    channels 0:        control frame; data begins with its kind
    channels 1 to 255: data frame of so many devices
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from iot_mqtt.custom_protocols.names import is_name
from iot_mqtt.sdk import BadFrame

MAGIC: Final = 0x68
#: Versions of the protocol that are spoken here.
LOWEST: Final = 1
HIGHEST: Final = 1

HEADER: Final = 10
#: Of a data frame: where its layout, or its values if the layout was declared, begin.
LAYOUT_AT: Final = 21
MAX_DATA: Final = 0xFFFF
#: Sequences stay below, so that every reader of JSON gets them whole.
MAX_SEQUENCE: Final = (1 << 53) - 1
MAX_TIME: Final = (1 << 48) - 1

HEAD: Final = struct.Struct(">BHIBH")
#: What a data frame begins with, after the header: sequence, flags, length or number of the layout.
DATA_HEAD: Final = struct.Struct(">QBH")


class Kind(IntEnum):
    """The first byte of a control frame's data."""

    LOGIN = 1
    LOGIN_ANSWER = 2
    HEARTBEAT = 3
    HEARTBEAT_ANSWER = 4
    LAYOUT = 5
    ACK = 6
    COMMAND = 7
    COMMAND_ANSWER = 8
    CLOSE = 9


class Flag(IntEnum):
    """Bits of a data frame's flags."""

    WANTS_ACK = 1
    QUALITIES = 2
    DECLARED = 4


KNOWN_FLAGS: Final = 7


class Code(IntEnum):
    """What a login is answered with."""

    WELCOME = 0
    REFUSED = 1
    VERSION = 2


class Type(IntEnum):
    """What a reading is."""

    NOTHING = 0
    BOOL = 1
    I8 = 2
    I16 = 3
    I32 = 4
    I64 = 5
    U8 = 6
    U16 = 7
    U32 = 8
    U64 = 9
    F32 = 10
    F64 = 11
    STRING = 12
    BYTES = 13


#: The letters of ``struct`` for the types of a fixed size, by number. Nothing takes a byte, too: a small frame of a
#: declared layout must not become any number of readings.
LETTERS: Final = ("x", "?", "b", "h", "i", "q", "B", "H", "I", "Q", "f", "d")

#: Words of the SDK, by number.
QUALITIES: Final = ("good", "uncertain", "bad", "stale")


def frame(time: int, channels: int, data: bytes) -> bytes:
    """Header and data."""
    return HEAD.pack(MAGIC, time >> 32, time & 0xFFFF_FFFF, channels, len(data)) + data


def control(time: int, kind: Kind, body: bytes = b"") -> bytes:
    """A control frame."""
    return frame(time, 0, bytes((kind,)) + body)


def short_text(text: str) -> bytes:
    """A length byte and so many bytes of UTF-8. Raises ``ValueError``."""
    data = text.encode()
    if len(data) > 0xFF:
        raise ValueError(f"{len(data)} bytes of text, at most 255 are possible")
    return bytes((len(data),)) + data


def clipped(text: str) -> bytes:
    """As ``short_text``, for people: what is too long is cut off."""
    data = text.encode(errors="replace")[:0xFF].decode(errors="ignore").encode()
    return bytes((len(data),)) + data


class Reader:
    """Takes a frame apart from front to back; whatever is not there is a ``BadFrame``."""

    __slots__ = ("data", "at")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    @property
    def rest(self) -> int:
        """Bytes that are left."""
        return len(self.data) - self.at

    def take(self, count: int, what: str) -> bytes:
        if count > self.rest:
            raise BadFrame("length", f"{what} wants {count} bytes, {self.rest} are left")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, width: int, what: str) -> int:
        return int.from_bytes(self.take(width, what), "big")

    def text(self, width: int, what: str) -> str:
        """UTF-8 behind a length of so many bytes."""
        data = self.take(self.number(width, f"length of {what}"), what)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise BadFrame("text", f"{what} is no UTF-8: {error.reason}") from error

    def name(self, what: str) -> str:
        """What a gateway or a device is called."""
        text = self.text(1, what)
        if not is_name(text):
            raise BadFrame("text", f"{what} {text[:64]!r}: 1 to 64 printable characters without / + # $")
        return text

    def end(self) -> None:
        if self.rest:
            raise BadFrame("length", f"{self.rest} bytes are left over")
