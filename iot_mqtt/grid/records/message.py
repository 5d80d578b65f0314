"""A message as part of other records. Encode it once, however many records carry it.

version (1) │ flags (1) │ topic length (2) │ publisher length (2) │ properties length (4) │ payload length (4)
│ expires at (8, float; only with flag 0x08) │ topic │ publisher │ properties │ payload │ later fields

flags: 0x03 qos, 0x04 retain, 0x08 expires
"""

from __future__ import annotations

from struct import Struct

from iot_mqtt import native
from iot_mqtt.grid.records.base import VERSION, StructError, Unreadable
from iot_mqtt.values import Message

_HEAD = Struct(">BBHHII")
_EXPIRES = Struct(">d")
_RETAIN, _HAS_EXPIRES = 0x04, 0x08

_unpack_head = _HEAD.unpack_from
_HEAD_SIZE = _HEAD.size


def encode_message(message: Message, before: bytes = b"") -> bytes:
    """Its record, behind what is to stand ``before`` it."""
    return native.message_record(before, message)


def end_of(record: bytes, offset: int) -> int:
    """Where the message that begins at ``offset``, and can be decoded, ends."""
    _, flags, *sizes = _unpack_head(record, offset)
    size: int = sum(sizes)
    return offset + _HEAD_SIZE + (_EXPIRES.size if flags & _HAS_EXPIRES else 0) + size


def decode_message(record: bytes, offset: int = 0) -> Message:
    """The message that begins at ``offset``; what follows its payload is a later version's and skipped."""
    try:
        version, flags, topic_size, publisher_size, properties_size, payload_size = _unpack_head(record, offset)
        topic = offset + _HEAD_SIZE
        expires_at = None
        if flags & _HAS_EXPIRES:
            (expires_at,) = _EXPIRES.unpack_from(record, topic)
            topic += _EXPIRES.size
    except StructError as cut:
        raise Unreadable("a message cut short") from cut
    if version >> 4 != VERSION >> 4:
        raise Unreadable(f"a message of format {version >> 4}.{version & 15}; this version reads 1.x")
    publisher = topic + topic_size
    properties = publisher + publisher_size
    payload = properties + properties_size
    end = payload + payload_size
    if end > len(record):
        raise Unreadable("a message cut short")
    try:
        name = record[publisher:properties].decode()
    except UnicodeDecodeError as garbled:
        raise Unreadable("a message of a publisher that is no UTF-8") from garbled
    return Message(
        record[topic:publisher],
        record[payload:end],
        flags & 0x03,
        retain=bool(flags & _RETAIN),
        properties=record[properties:payload],
        expires_at=expires_at,
        publisher=name,
    )
