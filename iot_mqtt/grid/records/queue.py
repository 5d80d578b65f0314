"""Caches ``queue``, ``dup``, ``pubrel`` and ``received``: what a session has not finished. The hot records.

queue     version (1) │ flags (1) │ packet id (2) │ extra length (2) │ extra │ message
          flags: 0x03 qos, 0x04 retain, 0x08 shared; extra: identifiers (4 each, flag 0x10), later fields
          with flag 0x10 extra begins with the number of identifiers (2)
dup       version (1) │ qos (1) │ sequence in the queue (8) │ order of sending (8)
pubrel    version (1) │ order of sending (8)
received  version (1)
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(slots=True)
class QueueRecord:
    """One message that waits for one session; ``packet_id`` 0: not sent yet."""

    message: Message
    qos: int
    packet_id: int = 0
    retain: bool = False
    identifiers: tuple[int, ...] = ()
    shared: bool = False


@dataclass(frozen=True, slots=True)
class DupRecord:
    """Sent and not yet acknowledged (QoS 1: PUBACK, QoS 2: PUBREC); the message is in the queue at ``sequence``."""

    sequence: int
    qos: int
    sent_order: int


@dataclass(frozen=True, slots=True)
class PubrelRecord:
    """PUBREC came, PUBCOMP has not; ``order`` is the order in which PUBREL is sent again."""

    order: int


@dataclass(frozen=True, slots=True)
class ReceivedRecord:
    """A QoS 2 packet id of the client that PUBREL has not released."""


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


def decode_queue(record: bytes) -> QueueRecord:
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
    return QueueRecord(message, flags & 0x03, packet_id, bool(flags & _RETAIN), identifiers, bool(flags & _SHARED))


def encode_dup(sequence: int, qos: int, sent_order: int) -> bytes:
    return _pack_dup(VERSION, qos, sequence, sent_order)


def decode_dup(record: bytes) -> DupRecord:
    check_version(record)
    try:
        _, qos, sequence, sent_order = _DUP.unpack_from(record)
    except StructError as cut:
        raise Unreadable("a dup entry cut short") from cut
    return DupRecord(sequence, qos, sent_order)


def encode_pubrel(order: int) -> bytes:
    return _pack_pubrel(VERSION, order)


def decode_pubrel(record: bytes) -> PubrelRecord:
    check_version(record)
    try:
        _, order = _PUBREL.unpack_from(record)
    except StructError as cut:
        raise Unreadable("a pubrel entry cut short") from cut
    return PubrelRecord(order)


_RECEIVED = bytes((VERSION,))


def encode_received() -> bytes:
    return _RECEIVED


def decode_received(record: bytes) -> ReceivedRecord:
    check_version(record)
    return ReceivedRecord()
