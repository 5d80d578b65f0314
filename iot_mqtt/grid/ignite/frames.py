"""The gateway's frames, both ways; nothing here knows sockets. The format: cluster/gateway/PROTOCOL.md.

``encode_*`` make whole frames. ``FrameReader`` takes bytes as they come and gives whole frames back; a frame
that is too long is refused at its header, before any of it is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from iot_mqtt.ports.grid import Pair

#: Of everything in here: whoever changes a frame gives it another number, and keeps its samples under that number.
VERSION: Final = 2
#: In the place of a length: there is no value.
NONE: Final = b"\xff\xff\xff\xff"
LONGEST_KEY: Final = 0xFFFF
MOST_STRETCHES: Final = 0xFFFF
#: Of a page, however many are asked for: the gateway reads no more.
MOST_ENTRIES: Final = 1 << 16

_HEADER = struct.Struct(">IB")
_ID = struct.Struct(">I")
_SHORT = struct.Struct(">H")
_WORD = struct.Struct(">I")
_IDENTITY = struct.Struct(">HQI")
_LIFE = struct.Struct(">HQ")
_TOPOLOGY = struct.Struct(">QHI")
_ROOM = struct.Struct(">QQQ")
_UNKNOWN: Final = 0xFFFF_FFFF
_DONE = struct.Struct(">IB")
_MANY = struct.Struct(">IH")
_PAGE = struct.Struct(">BI")


class Op(IntEnum):
    """The first byte behind the length."""

    HELLO = 0x01
    COMMIT = 0x02
    SWAP = 0x03
    REMOVE_PREFIX = 0x04
    LISTEN = 0x05
    UNLISTEN = 0x06
    SEND = 0x07
    FENCE = 0x08
    PING = 0x09
    READ = 0x0A
    WELCOME = 0x81
    REFUSED = 0x82
    DONE = 0x83
    DELIVER = 0x84
    TOPOLOGY = 0x85
    FOUND = 0x86
    SWAPPED = 0x87
    ROOM = 0x88


class Status(IntEnum):
    """How a request ended."""

    DONE = 0
    NOT_READY = 1
    FENCED = 2
    BAD_REQUEST = 3
    NOT_SWAPPED = 4
    WRONG_TOKEN = 5
    UNKNOWN_VERSION = 6


class BadFrame(Exception):
    """What came is no frame of this protocol: the connection is of no more use."""


class Welcome(NamedTuple):
    """The HELLO is accepted; every frame after it may be up to ``longest``."""

    version: int
    server: bytes
    longest: int


class Refused(NamedTuple):
    """It is not."""

    status: int
    reason: str


class Done(NamedTuple):
    """How a request ended."""

    id: int
    status: int
    detail: str
    #: Of compare-and-sets: the status of each.
    results: bytes = b""


class Deliver(NamedTuple):
    """A message to a topic."""

    topic: str
    payload: bytes


class Topology(NamedTuple):
    """How many servers there are now, and how many partitions have fewer copies than they should; None: not known."""

    version: int
    servers: int
    missing: int | None


class Room(NamedTuple):
    """Bytes: of the fullest server what is used and how much it offers, and what all of them offer together, their
    copies taken off. An offer of 0: not known.
    """

    used: int
    offered: int
    capacity: int


class Page(NamedTuple):
    """Entries, and whether there may be others behind the last one."""

    more: bool
    entries: list[Pair]


class Found(NamedTuple):
    """A page for each one that was wanted."""

    id: int
    pages: list[Page]


Incoming = Welcome | Refused | Done | Deliver | Topology | Room | Found
#: A compare-and-set: (cache, key, expected, new).
Swap = tuple[str, bytes, "bytes | None", "bytes | None"]
#: A page (cache, prefix, after, limit) or, with a limit of 0, the entry whose key is the prefix.
Wanted = tuple[str, bytes, "bytes | None", int]
#: One ``putAll`` and one ``removeAll`` of a cache: each key once, None to remove it.
Stretch = tuple[str, Mapping[bytes, "bytes | None"]]


# Writing.


def _frame(op: Op, *parts: bytes) -> bytes:
    return b"".join((_HEADER.pack(1 + sum(map(len, parts)), op), *parts))


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _SHORT.pack(len(encoded)) + encoded


def _key(key: bytes) -> bytes:
    return _SHORT.pack(len(key)) + key


def _value(value: bytes | None) -> bytes:
    return NONE if value is None else _WORD.pack(len(value)) + value


def encode_hello(token: str, node: int, boot: int, connection: int) -> bytes:
    return _frame(Op.HELLO, bytes((VERSION,)), _text(token), _IDENTITY.pack(node, boot, connection))


def encode_commit(id: int, stretches: Sequence[Stretch], needed: bool = False) -> bytes:
    """``needed``: it may use the room that is kept for going on, and for making room."""
    parts = [_ID.pack(id), bytes((needed,)), _SHORT.pack(len(stretches))]
    for cache, entries in stretches:
        parts += (_text(cache), _WORD.pack(len(entries)))
        for key, value in entries.items():
            parts += (_SHORT.pack(len(key)), key)
            parts += (NONE,) if value is None else (_WORD.pack(len(value)), value)
    return _frame(Op.COMMIT, *parts)


def encode_swap(id: int, swaps: Sequence[Swap]) -> bytes:
    parts = [_ID.pack(id), _SHORT.pack(len(swaps))]
    for cache, key, expected, new in swaps:
        parts += (_text(cache), _key(key), _value(expected), _value(new))
    return _frame(Op.SWAP, *parts)


def encode_remove_prefix(id: int, cache: str, prefix: bytes) -> bytes:
    return _frame(Op.REMOVE_PREFIX, _ID.pack(id), _text(cache), _key(prefix))


def encode_listen(id: int, topic: str) -> bytes:
    return _frame(Op.LISTEN, _ID.pack(id), _text(topic))


def encode_send(topic: str, payload: bytes) -> bytes:
    return _frame(Op.SEND, _text(topic), _WORD.pack(len(payload)), payload)


def encode_fence(id: int, node: int, boot: int) -> bytes:
    return _frame(Op.FENCE, _ID.pack(id), _LIFE.pack(node, boot))


def encode_ping(id: int) -> bytes:
    return _frame(Op.PING, _ID.pack(id))


def encode_read(id: int, wanted: Sequence[Wanted]) -> bytes:
    parts = [_ID.pack(id), _SHORT.pack(len(wanted))]
    for cache, prefix, after, limit in wanted:
        parts += (_text(cache), _key(prefix), _value(after), _WORD.pack(limit))
    return _frame(Op.READ, *parts)


# Reading.


class _Body:
    """A frame's body, read from the front."""

    __slots__ = ("data", "at")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, shape: struct.Struct) -> tuple[int, ...]:
        try:
            found = shape.unpack_from(self.data, self.at)
        except struct.error:
            raise BadFrame("a frame ends early") from None
        self.at += shape.size
        return found

    def raw(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.data):
            raise BadFrame("a frame ends early")
        found = self.data[self.at : end]
        self.at = end
        return found

    def text(self) -> str:
        (length,) = self.take(_SHORT)
        try:
            return self.raw(length).decode()
        except UnicodeDecodeError:
            raise BadFrame("a text is not UTF-8") from None

    def pairs(self, count: int) -> list[Pair]:
        """So many keys and values. Inlined: a page has thousands."""
        data, at, found = self.data, self.at, []
        short, word = _SHORT.unpack_from, _WORD.unpack_from
        try:
            for _ in range(count):
                middle = at + 2 + short(data, at)[0]
                end = middle + 4 + word(data, middle)[0]
                found.append((data[at + 2 : middle], data[middle + 4 : end]))
                at = end
        except struct.error:
            raise BadFrame("a frame ends early") from None
        if at > len(data):
            raise BadFrame("a frame ends early")
        self.at = at
        return found

    def end(self) -> None:
        if self.at != len(self.data):
            raise BadFrame(f"{len(self.data) - self.at} bytes behind the end of a frame")


def _page(body: _Body) -> Page:
    more, count = body.take(_PAGE)
    return Page(more != 0, body.pairs(count))


def decode(op: int, data: bytes) -> Incoming:
    """One frame of the gateway, without its length and op."""
    body = _Body(data)
    frame: Incoming
    match op:
        case Op.DONE:
            id, status = body.take(_DONE)
            frame = Done(id, status, body.text())
        case Op.DELIVER:
            topic = body.text()
            (length,) = body.take(_WORD)
            frame = Deliver(topic, body.raw(length))
        case Op.WELCOME:
            (version,) = body.raw(1)
            if version != VERSION:
                # What follows is of that version.
                return Welcome(version, b"", 0)
            server = body.raw(16)
            (longest,) = body.take(_WORD)
            frame = Welcome(version, server, longest)
        case Op.REFUSED:
            (status,) = body.raw(1) or (0,)
            frame = Refused(status, body.text())
        case Op.TOPOLOGY:
            number, servers, missing = body.take(_TOPOLOGY)
            frame = Topology(number, servers, None if missing == _UNKNOWN else missing)
        case Op.ROOM:
            frame = Room(*body.take(_ROOM))
        case Op.SWAPPED:
            id, count = body.take(_MANY)
            frame = Done(id, Status.DONE, "", body.raw(count))
        case Op.FOUND:
            id, count = body.take(_MANY)
            frame = Found(id, [_page(body) for _ in range(count)])
        case _:
            raise BadFrame(f"unknown frame 0x{op:02x}")
    body.end()
    return frame


class FrameReader:
    """Bytes in, whole frames out."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Incoming]:
        """The frames that are whole now. Raises ``BadFrame``; what came before the bad one is lost with it."""
        buffer = self._buffer
        buffer += data
        frames: list[Incoming] = []
        at, end = 0, len(buffer)
        while end - at >= 4:
            (length,) = _WORD.unpack_from(buffer, at)
            if not 1 <= length <= self._limit:
                raise BadFrame(f"a frame of {length} bytes; the limit is {self._limit}")
            if end - at < 4 + length:
                break
            frame = decode(buffer[at + 4], bytes(buffer[at + 5 : at + 4 + length]))
            frames.append(frame)
            at += 4 + length
            if frame.__class__ is Welcome and frame.version != VERSION:
                # What is behind it is of that version.
                break
        if at:
            del buffer[:at]
        return frames
