"""Packets in words: what the flight recorder kept of them, as an operator reads it. Payloads by their size only.

Nothing is held against the specification here: what is wrong or cut is described as far as it goes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from iot_mqtt.codec.kinds import PacketType
from iot_mqtt.errors import ReasonCode
from iot_mqtt.native import image_of

__all__ = ["PacketInfo", "Splitter", "described", "described_one"]

_HEAD: Final = struct.Struct("<HBBQI")
_KIND: Final = struct.Struct("<BI")
_PUBLISH: Final = struct.Struct("<IHH")
_UNKNOWN: Final = 0xFFFF_FFFF
_TOPIC: Final = 64
_VERSIONS: Final = {3: "3.1", 4: "3.1.1", 5: "5.0"}
#: Return codes of CONNACK before MQTT 5.
_REFUSALS: Final = (
    "accepted",
    "unacceptable protocol version",
    "identifier rejected",
    "server unavailable",
    "bad user name or password",
    "not authorized",
)


@dataclass(frozen=True, slots=True)
class PacketInfo:
    """What went over a connection with one receive or one write: a packet, or several."""

    #: Seconds since 1970.
    at: float
    #: "in": from the client; "out": to it.
    direction: str
    #: The type of the first one.
    packet: str
    #: All of it, for people; without payloads and passwords.
    text: str
    #: How many were looked at; of a large batch the first eight.
    packets: int
    bytes: int


def described(image: bytes) -> list[PacketInfo]:
    """The records of a ring, the oldest first. What cannot be read ends it."""
    found: list[PacketInfo] = []
    pos = 0
    while pos + _HEAD.size <= len(image):
        size, direction, counts, milliseconds, taken = _HEAD.unpack_from(image, pos)
        record = image[pos + _HEAD.size : pos + size]
        if size < _HEAD.size or pos + size > len(image) or len(record) < (counts & 31) * _KIND.size:
            break
        pos += size
        kinds = [_KIND.unpack_from(record, at * _KIND.size) for at in range(counts & 31)]
        if any(kind > PacketType.AUTH for kind, _ in kinds):
            break
        images = list(_images(record[(counts & 31) * _KIND.size :], counts >> 5))
        rest = sum(count for kind, count in kinds if not kind)
        kinds = [one for one in kinds if one[0]]
        packets = sum(count for _, count in kinds)
        first = images[0][0] >> 4 if images else 0
        name = PacketType(first).name if first else "PART"
        text = _text(kinds, images, packets, taken, rest)
        found.append(PacketInfo(milliseconds / 1000, "out" if direction else "in", name, text, packets, taken))
    return found


def _images(data: bytes, count: int) -> Iterator[tuple[int, int, bytes]]:
    """First byte, remaining length and what is kept of each."""
    pos = 0
    for _ in range(count):
        if pos >= len(data) or data[pos] < 5 or pos + 1 + data[pos] > len(data):
            return
        stop = pos + 1 + data[pos]
        yield data[pos + 1], int.from_bytes(data[pos + 2 : pos + 6], "little"), data[pos + 6 : stop]
        pos = stop


def _text(
    kinds: list[tuple[int, int]], images: list[tuple[int, int, bytes]], packets: int, size: int, rest: int
) -> str:
    if not images:
        return f"{size} bytes within a packet" if not packets else f"{packets} packets that MQTT does not have"
    texts = [_packet(*one) for one in images]
    if packets == 1 and not rest:
        return texts[0]
    if packets > len(texts):
        texts.insert(-1, "…")
    several = ", ".join(f"{count} {PacketType(kind).name}" for kind, count in kinds)
    more = f"; and {rest} bytes more" if rest else ""
    return f"{several}, {size} bytes: {'; '.join(texts)}{more}"


def _packet(first: int, length: int, body: bytes) -> str:
    kind = first >> 4
    if not kind:
        return "no packet of MQTT"
    try:
        detail = _DETAILS.get(PacketType(kind), _nothing)(first, length, body)
    except (IndexError, struct.error):
        detail = "cut"
    return f"{PacketType(kind).name} {detail}".rstrip()


def _nothing(_first: int, _length: int, _body: bytes) -> str:
    return ""


def _connect(_first: int, _length: int, body: bytes) -> str:
    at = 2 + (body[0] << 8 | body[1])
    version, flags, keep_alive = body[at], body[at + 1], body[at + 2] << 8 | body[at + 3]
    has = [
        word
        for bit, word in ((0x80, "user name"), (0x40, "password"), (0x04, f"will at QoS {flags >> 3 & 3}"))
        if flags & bit
    ]
    clean = ", clean" if flags & 2 else ""
    carrying = f", with {', '.join(has)}" if has else ""
    return f"MQTT {_VERSIONS.get(version, version)}, keep-alive {keep_alive} s{clean}{carrying}"


def _connack(_first: int, length: int, body: bytes) -> str:
    code = body[1]
    plain = length == 2 and code < len(_REFUSALS)
    return f"{_REFUSALS[code] if plain else _reason(code)}{', session present' if body[0] & 1 else ''}"


def _publish(first: int, _length: int, body: bytes) -> str:
    payload, packet_id, topic_size = _PUBLISH.unpack_from(body)
    kept = body[_PUBLISH.size : _PUBLISH.size + min(topic_size, _TOPIC)]
    begun = body[_PUBLISH.size + len(kept) :]
    words = [_quoted(kept) + ("…" if topic_size > len(kept) else "") if topic_size else "by its topic alias"]
    words.append(f"QoS {first >> 1 & 3}")
    if packet_id:
        words.append(f"id {packet_id}")
    words += [word for bit, word in ((1, "retain"), (8, "dup")) if first & bit]
    words.append("payload not all there" if payload == _UNKNOWN else f"{payload} bytes")
    if begun:
        words.append(f"beginning with {begun!r}")
    return ", ".join(words)


def _ack(_first: int, length: int, body: bytes) -> str:
    reason = f", {_reason(body[2])}" if length > 2 and body[2:] else ""
    return f"id {body[0] << 8 | body[1]}{reason}"


def _with_id(_first: int, length: int, body: bytes) -> str:
    return f"id {body[0] << 8 | body[1]}, {length} bytes"


def _suback(_first: int, length: int, body: bytes) -> str:
    """Of MQTT 5, unless there are more properties than were kept, as well as of older versions."""
    text = f"id {body[0] << 8 | body[1]}"
    if length > len(body):
        return f"{text}, {length} bytes"
    codes = body[3 + body[2] :] if length > 3 and body[2] + 3 < length else body[2:]
    return f"{text}: {', '.join(_reason(code) for code in codes)}"


def _filters(first: int, length: int, body: bytes) -> str:
    """As far as they are kept: with the properties of MQTT 5 or without, whichever fits."""
    text = f"id {body[0] << 8 | body[1]}"
    options = int(first >> 4 == PacketType.SUBSCRIBE)
    for start in (3 + body[2] if length > 2 else 2, 2):
        found = _read_filters(body, start, length, options)
        if found:
            return f"{text}: {', '.join(found)}{'' if length <= len(body) else ' …'}"
    return f"{text}, {length} bytes"


def _read_filters(body: bytes, pos: int, length: int, options: int) -> list[str]:
    """Filters to the end of the packet, or of what is kept of it; none if these are none."""
    found: list[str] = []
    while pos < length and pos + 2 <= len(body):
        size = body[pos] << 8 | body[pos + 1]
        text = body[pos + 2 : pos + 2 + size]
        pos += 2 + size + options
        if not size or pos > length or b"\0" in text:
            return []
        qos = f" QoS {body[pos - 1] & 3}" if options and pos <= len(body) else ""
        found.append(f"{_quoted(text)}{qos}")
    return found if pos == length or length > len(body) else []


def _ending(_first: int, length: int, body: bytes) -> str:
    return _reason(body[0]) if length and body else ""


def described_one(first: int, length: int, body: bytes, five: bool) -> tuple[str, str, bytes]:
    """The name of a packet, the packet in words, and the topic of a PUBLISH. ``body``: its beginning."""
    kind = first >> 4
    (image,) = _images(image_of(first, length, body, five), 1)
    topic = b""
    if kind == PacketType.PUBLISH and len(body) > 1:
        topic = body[2 : 2 + (body[0] << 8 | body[1])]
    return PacketType(kind).name if kind else "NONE", _packet(*image), topic


class Splitter:
    """Cuts a stream into packets, from any place of it on. No more than ``KEEP`` bytes of a packet are kept."""

    KEEP: Final = 4096

    def __init__(self, head: bytes = b"", skip: int = 0) -> None:
        self._head = bytearray(head)
        self._skip = skip
        self._length = 0
        self._body: bytearray | None = None

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """First byte, remaining length and the beginning of the body of each packet that these bytes complete."""
        pos, size = 0, len(data)
        while pos < size or self._body is not None:
            if self._body is not None:
                pos = self._take(data, pos)
                if self._skip:
                    return
                body, self._body = bytes(self._body), None
                first = self._head[0]
                self._head.clear()
                yield first, self._length, body
            elif self._skip:
                taken = min(self._skip, size - pos)
                self._skip -= taken
                pos += taken
            else:
                self._head.append(data[pos])
                pos += 1
                self._begin()

    def _take(self, data: bytes, pos: int) -> int:
        """More of the packet that has begun."""
        taken = min(self._skip, len(data) - pos)
        assert self._body is not None
        self._body += data[pos : pos + min(taken, self.KEEP - len(self._body))]
        self._skip -= taken
        return pos + taken

    def _begin(self) -> None:
        """Whether a packet's head is whole."""
        head = self._head
        if len(head) < 2 or head[-1] > 127:
            if len(head) == 5:
                # This is no head, and what comes no packets: the decoder has closed the connection for it.
                head.clear()
                self._skip = 1 << 62
            return
        self._length = self._skip = sum((byte & 127) << 7 * index for index, byte in enumerate(head[1:]))
        self._body = bytearray()


_DETAILS: Final = {
    PacketType.CONNECT: _connect,
    PacketType.CONNACK: _connack,
    PacketType.PUBLISH: _publish,
    PacketType.PUBACK: _ack,
    PacketType.PUBREC: _ack,
    PacketType.PUBREL: _ack,
    PacketType.PUBCOMP: _ack,
    PacketType.SUBSCRIBE: _filters,
    PacketType.SUBACK: _suback,
    PacketType.UNSUBSCRIBE: _filters,
    PacketType.UNSUBACK: _with_id,
    PacketType.DISCONNECT: _ending,
    PacketType.AUTH: _ending,
}


def _reason(code: int) -> str:
    try:
        return ReasonCode(code).name
    except ValueError:
        return f"0x{code:02x}"


def _quoted(text: bytes) -> str:
    """A name that a client chose: on one line, and without what a terminal would obey."""
    return repr(text.decode("utf-8", "replace"))[1:-1] if text else "''"
