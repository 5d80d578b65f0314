"""Link protocol, version 1: datagrams as bytes. Frozen: what it writes is held against recorded samples.

    datagram     version = 1 (1) │ kind (1) │ sender (1) │ receiver (1) │ sender's boot (8) │ receiver's boot (8) │ body
    1 DATA       first (8) │ end (8) │ items (4) │ item …
    2 HEARTBEAT  next (8) │ end (8) │ received (8) │ routes version (8) │ routes digest (8) │ load (8, float)
                 │ flags (1) │ clock (8, float) │ seen of the receiver's (8, float, NaN: nothing) (both with flag 0x08)
                 flags: 0x01 draining, 0x02 hears the receiver, 0x04 reads publications of several runs, 0x08 clocks
    3 REPAIR     spans (2) │ (first (8) │ last (8)) …
    4 LOST       first (8) │ last (8)

What items are, ``items_v1`` says. What may be added, and is skipped by a reader that does not know it: kinds of items,
fields behind the last one of an item or of a datagram, flags. Everything else needs a version 2 beside this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan, nan
from struct import Struct, error
from typing import Final

from iot_mqtt.cluster.links.items_v1 import LEAST_ITEM, read_items, write_item
from iot_mqtt.cluster.links.values import Data, Datagram, Head, Heartbeat, Lost, Repair
from iot_mqtt.errors import Malformed

VERSION: Final = 1
DATA, HEARTBEAT, REPAIR, LOST = 1, 2, 3, 4

_HEAD: Final = Struct(">BBBBQQ")
HEAD_SIZE: Final = _HEAD.size
_DATA: Final = Struct(">QQI")
_HEARTBEAT: Final = Struct(">QQQQQdB")
_CLOCKS: Final = Struct(">dd")
_COUNT: Final = Struct(">H")
_SPAN: Final = Struct(">QQ")

#: Numbers of items are below this, so that nothing that is made of them outgrows its eight bytes.
_NUMBERS: Final = 1 << 63

_DRAINING, _HEARS, _TAKES_MORE, _CLOCKS_TOLD = 0x01, 0x02, 0x04, 0x08


def write_data(head: Head, first: int, end: int, items: Sequence[bytes]) -> bytes:
    """Items that ``write_item`` wrote, as one datagram."""
    return b"".join((_head(DATA, head), _DATA.pack(first, end, len(items)), *items))


def write(head: Head, datagram: Datagram) -> bytes:
    """Any datagram."""
    match datagram:
        case Data(first, end, items):
            return write_data(head, first, end, [write_item(item) for item in items])
        case Heartbeat():
            flags = (_DRAINING if datagram.draining else 0) | (_HEARS if datagram.hears else 0)
            flags |= _TAKES_MORE if datagram.takes_more else 0
            clocks = b""
            if datagram.clocks is not None:
                clock, seen = datagram.clocks
                flags |= _CLOCKS_TOLD
                clocks = _CLOCKS.pack(clock, nan if seen is None else seen)
            fields = _HEARTBEAT.pack(
                datagram.next,
                datagram.end,
                datagram.received,
                datagram.routes_version,
                datagram.routes_digest,
                datagram.load,
                flags,
            )
            return _head(HEARTBEAT, head) + fields + clocks
        case Repair(spans):
            packed = [_SPAN.pack(first, last) for first, last in spans]
            return b"".join((_head(REPAIR, head), _COUNT.pack(len(packed)), *packed))
        case Lost(first, last):
            return _head(LOST, head) + _SPAN.pack(first, last)


def _head(kind: int, head: Head) -> bytes:
    return _HEAD.pack(VERSION, kind, head.sender, head.receiver, head.sender_boot, head.receiver_boot)


# -- in --------------------------------------------------------------------------------------


def read_head(payload: bytes) -> tuple[int, Head]:
    """(kind, head) of a datagram whose body has not been looked at."""
    try:
        version, kind, sender, receiver, sender_boot, receiver_boot = _HEAD.unpack_from(payload)
    except error:
        raise Malformed("a datagram without a whole head")
    if version != VERSION:
        raise Malformed(f"link protocol version {version}; this node speaks {VERSION}")
    return kind, Head(sender, sender_boot, receiver, receiver_boot)


def read_span(payload: bytes) -> tuple[int, int, int]:
    """(first, last, end) of DATA whose items have not been looked at."""
    try:
        first, end, count = _DATA.unpack_from(payload, HEAD_SIZE)
    except error:
        raise Malformed("DATA cut short")
    room = (len(payload) - HEAD_SIZE - _DATA.size) // LEAST_ITEM
    if not 0 < first < _NUMBERS or not 0 < count <= room:
        raise Malformed(f"DATA of {count} items from number {first} on")
    return first, first + count - 1, end


def read(payload: bytes) -> tuple[Head, Datagram]:
    """A whole datagram; ``Malformed`` if it is none, or none of a kind that is known."""
    kind, head = read_head(payload)
    reader = _BODIES.get(kind)
    if reader is None:
        raise Malformed(f"a datagram of kind {kind}")
    return head, reader(payload)


def read_data(payload: bytes) -> Data:
    """The items as well."""
    first, last, end = read_span(payload)
    return Data(first, end, read_items(payload, HEAD_SIZE + _DATA.size, last + 1 - first))


def read_heartbeat(payload: bytes) -> Heartbeat:
    clocks = None
    try:
        next, end, received, version, digest, load, flags = _HEARTBEAT.unpack_from(payload, HEAD_SIZE)
        if flags & _CLOCKS_TOLD:
            clock, seen = _CLOCKS.unpack_from(payload, HEAD_SIZE + _HEARTBEAT.size)
            clocks = clock, None if isnan(seen) else seen
    except error:
        raise Malformed("HEARTBEAT cut short")
    if not 0 < next < _NUMBERS or (clocks is not None and isnan(clocks[0])):
        raise Malformed(f"HEARTBEAT with {next} as the next number, or a clock without a time")
    draining, hears, takes_more = (flags & one != 0 for one in (_DRAINING, _HEARS, _TAKES_MORE))
    return Heartbeat(next, end, received, version, digest, load, draining, hears, takes_more, clocks)


def read_repair(payload: bytes) -> Repair:
    try:
        (count,) = _COUNT.unpack_from(payload, HEAD_SIZE)
        offset = HEAD_SIZE + _COUNT.size
        spans = tuple(_span(payload, offset + index * _SPAN.size) for index in range(count))
    except error:
        raise Malformed("REPAIR cut short")
    return Repair(spans)


def read_lost(payload: bytes) -> Lost:
    try:
        return Lost(*_span(payload, HEAD_SIZE))
    except error:
        raise Malformed("LOST cut short")


def _span(payload: bytes, offset: int) -> tuple[int, int]:
    first, last = _SPAN.unpack_from(payload, offset)
    if not 0 < first <= last < _NUMBERS:
        raise Malformed(f"a span from {first} to {last}")
    return first, last


_BODIES: Final[dict[int, Callable[[bytes], Datagram]]] = {
    DATA: read_data,
    HEARTBEAT: read_heartbeat,
    REPAIR: read_repair,
    LOST: read_lost,
}
