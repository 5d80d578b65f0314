"""The data types of section 1.5 (MQTT 5) and 1.5 / 2.2.3 (MQTT 3.1.1): read with bounds, written with limits.

A ``Reader`` walks one packet body that is already complete; running off its end is the peer's fault
(``Malformed``). Writers raise ``ValueError``, because a value that does not fit is our own fault.
"""

from __future__ import annotations

from typing import Final

from iot_mqtt.errors import Malformed, ProtocolViolation, ReasonCode

#: The largest remaining length that four bytes can say.
MAX_REMAINING_LENGTH: Final = 268_435_455
#: The largest packet there can be: that, and its five bytes of fixed header.
MAX_PACKET_SIZE: Final = MAX_REMAINING_LENGTH + 5


def text(data: bytes) -> str:
    """A UTF-8 string as MQTT wants it: well-formed, without surrogates and without U+0000."""
    try:
        # Python's strict decoder refuses surrogates and overlong forms [MQTT-1.5.4-1] [MQTT-1.5.3-1].
        decoded = data.decode()
    except UnicodeDecodeError:
        raise Malformed("a string is not well-formed UTF-8") from None
    if "\0" in decoded:
        raise Malformed("a string contains U+0000")  # [MQTT-1.5.4-2] [MQTT-1.5.3-2]
    return decoded


def name(data: bytes, what: str) -> str:
    """The same of a topic or filter, which the error then shows."""
    try:
        return text(data)
    except Malformed as error:
        raise error.naming(what, data.decode(errors="backslashreplace")) from None


def check_topic(topic: bytes) -> None:
    """Refuse what may not be a topic name: bad UTF-8, no characters at all, wildcards."""
    decoded = name(topic, "topic")
    if not topic:
        raise Malformed("the topic name is empty", ReasonCode.TOPIC_NAME_INVALID)  # [MQTT-4.7.3-1]
    if b"#" in topic or b"+" in topic:
        # [MQTT-3.3.2-2], and for will topics likewise.
        raise Malformed("it contains a wildcard", ReasonCode.TOPIC_NAME_INVALID).naming("topic", decoded)


class Reader:
    """One packet body, or one property block, read front to back."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes, pos: int = 0, end: int | None = None) -> None:
        self.data = data
        self.pos = pos
        self.end = len(data) if end is None else end

    def byte(self) -> int:
        """One byte."""
        pos = self.pos
        if pos >= self.end:
            raise Malformed("the packet ends where a byte should be")
        self.pos = pos + 1
        return self.data[pos]

    def u16(self) -> int:
        """Two Byte Integer, big-endian."""
        pos = self.pos
        if pos + 2 > self.end:
            raise Malformed("the packet ends inside a two byte integer")
        self.pos = pos + 2
        return self.data[pos] << 8 | self.data[pos + 1]

    def packet_id(self) -> int:
        """A packet identifier, which is never 0."""
        value = self.u16()
        if not value:
            raise ProtocolViolation("the packet identifier is 0")  # [MQTT-2.2.1-3] [MQTT-2.3.1-1]
        return value

    def u32(self) -> int:
        """Four Byte Integer, big-endian."""
        return int.from_bytes(self.take(4), "big")

    def varint(self) -> int:
        """Variable Byte Integer in its shortest form, of at most four bytes."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift > 21:
                raise Malformed("a variable byte integer is longer than four bytes")
        if shift and not byte:
            raise Malformed("a variable byte integer is longer than it need be")  # [MQTT-1.5.5-1]
        return value

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        pos = self.pos
        stop = pos + size
        if stop > self.end:
            raise Malformed("the packet ends inside a field")
        self.pos = stop
        return self.data[pos:stop]

    def binary(self) -> bytes:
        """Binary data behind its two bytes of length."""
        pos = self.pos + 2
        if pos > self.end:
            raise Malformed("the packet ends inside a two byte integer")
        self.pos = stop = pos + (self.data[pos - 2] << 8 | self.data[pos - 1])
        if stop > self.end:
            raise Malformed("the packet ends inside a field")
        return self.data[pos:stop]

    def text(self) -> str:
        """A UTF-8 encoded string behind its two bytes of length."""
        return text(self.binary())

    def rest(self) -> bytes:
        """Everything up to the end."""
        pos = self.pos
        self.pos = self.end
        return self.data[pos : self.end]

    @property
    def left(self) -> int:
        """How many bytes have not been read."""
        return self.end - self.pos

    def finish(self) -> None:
        """Refuse bytes that no field accounts for."""
        if self.pos != self.end:
            raise Malformed("bytes are left over behind the last field")


def u16(value: int) -> bytes:
    """Two Byte Integer."""
    if not 0 <= value <= 0xFFFF:
        raise ValueError(f"{value} does not fit two bytes")
    return value.to_bytes(2, "big")


def packet_id(value: int) -> bytes:
    """A packet identifier, which is never 0 [MQTT-2.2.1-3]."""
    if not 0 < value <= 0xFFFF:
        raise ValueError(f"{value} is no packet identifier")
    return value.to_bytes(2, "big")


def varint(value: int) -> bytes:
    """Variable Byte Integer in its shortest form [MQTT-1.5.5-1]."""
    if 0 <= value < 128:
        return value.to_bytes(1, "big")
    if not 0 <= value <= MAX_REMAINING_LENGTH:
        raise ValueError(f"{value} does not fit a variable byte integer")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def binary(value: bytes) -> bytes:
    """Binary data, or an already encoded string, behind its two bytes of length."""
    if len(value) > 0xFFFF:
        raise ValueError(f"a field of {len(value)} bytes is too long")
    return len(value).to_bytes(2, "big") + value


def string(value: str) -> bytes:
    """A UTF-8 encoded string behind its two bytes of length."""
    return binary(value.encode())


def packet(first: int, body: bytes) -> bytes:
    """A whole packet: first byte, remaining length, body."""
    size = len(body)
    if size < 128:
        return bytes((first, size)) + body
    return bytes((first,)) + varint(size) + body
