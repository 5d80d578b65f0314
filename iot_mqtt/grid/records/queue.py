"""Caches ``queue``, ``dup``, ``pubrel`` and ``received``: what a session has not finished. The hot records.

queue     version (1) │ flags (1) │ packet id (2) │ extra length (2) │ extra │ message
          flags: 0x03 qos, 0x04 retain, 0x08 shared; extra: identifiers (4 each, flag 0x10), later fields
          with flag 0x10 extra begins with the number of identifiers (2)
dup       version (1) │ qos (1), not used │ sequence in the queue (8) │ order of sending (8), not used
pubrel    version (1) │ order of sending (8)
received  version (1)
"""

from __future__ import annotations

from struct import Struct

from iot_mqtt.grid.records.base import VERSION, StructError, Unreadable, check_version
from iot_mqtt.grid.records.message import decode_message
from iot_mqtt.values import Message

_HEAD = Struct(">BBHH")
_DUP = Struct(">BBQQ")
_PUBREL = Struct(">BQ")
_COUNT = Struct(">H")
_RETAIN, _SHARED, _IDENTIFIERS = 0x04, 0x08, 0x10

_pack_head = _HEAD.pack
_pack_dup = _DUP.pack
_pack_pubrel = _PUBREL.pack
_HEAD_SIZE = _HEAD.size


def encode_queue(
    message: bytes,
    qos: int,
    packet_id: int = 0,
    retain: bool = False,
    identifiers: tuple[int, ...] = (),
    shared: bool = False,
) -> bytes:
    """One entry; ``message`` is what ``encode_message`` made, the same bytes for every session it waits for.

    Call it with positional arguments: keywords cost half as much again.
    """
    flags = qos | (_RETAIN if retain else 0) | (_SHARED if shared else 0)
    if not identifiers:
        return _pack_head(VERSION, flags, packet_id, 0) + message
    count = len(identifiers)
    extra = Struct(f">H{count}I").pack(count, *identifiers)
    return _pack_head(VERSION, flags | _IDENTIFIERS, packet_id, len(extra)) + extra + message


def decode_queue(record: bytes) -> tuple[Message, int, bool, tuple[int, ...], int, bool]:
    """What ``StoredDelivery`` has behind its sequence, which is in the key."""
    try:
        version, flags, packet_id, extra = _HEAD.unpack_from(record)
        if version >> 4 != VERSION >> 4:
            raise Unreadable(f"a queue entry of format {version >> 4}.{version & 15}; this version reads 1.x")
        identifiers: tuple[int, ...] = ()
        if flags & _IDENTIFIERS:
            (count,) = _COUNT.unpack_from(record, _HEAD_SIZE)
            identifiers = Struct(f">{count}I").unpack_from(record, _HEAD_SIZE + _COUNT.size)
    except StructError as cut:
        raise Unreadable("a queue entry cut short") from cut
    message = decode_message(record, _HEAD_SIZE + extra)
    return message, flags & 0x03, bool(flags & _RETAIN), identifiers, packet_id, bool(flags & _SHARED)


def encode_dup(sequence: int) -> bytes:
    """Sent and not yet acknowledged (QoS 1: PUBACK, QoS 2: PUBREC); the message is in the queue at ``sequence``."""
    return _pack_dup(VERSION, 0, sequence, sequence)


def decode_dup(record: bytes) -> int:
    """The sequence."""
    check_version(record)
    try:
        return int(_DUP.unpack_from(record)[2])
    except StructError as cut:
        raise Unreadable("a dup entry cut short") from cut


def encode_pubrel(order: int) -> bytes:
    """PUBREC came, PUBCOMP has not; ``order`` is the order in which PUBREL is sent again."""
    return _pack_pubrel(VERSION, order)


def decode_pubrel(record: bytes) -> int:
    """The order."""
    check_version(record)
    try:
        return int(_PUBREL.unpack_from(record)[1])
    except StructError as cut:
        raise Unreadable("a pubrel entry cut short") from cut


#: A QoS 2 packet id of the client that PUBREL has not released: the key says it all.
RECEIVED = bytes((VERSION,))
