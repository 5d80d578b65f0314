"""Cache ``retained``: topic to its last retained message.

version (1) │ epoch (8) │ counter (8) │ message
"""

from __future__ import annotations

from struct import Struct

from iot_mqtt.grid.records.base import VERSION, StructError, Unreadable, check_version
from iot_mqtt.grid.records.message import decode_message, encode_message
from iot_mqtt.values import Message

_HEAD = Struct(">BQQ")


def encode_retained(message: Message, epoch: int, counter: int) -> bytes:
    return encode_message(message, _HEAD.pack(VERSION, epoch, counter))


def decode_retained(record: bytes) -> tuple[Message, int, int]:
    """The message, epoch and counter: of two records of a topic, the one with the greater version stands."""
    check_version(record)
    try:
        _, epoch, counter = _HEAD.unpack_from(record)
    except StructError as cut:
        raise Unreadable("a retained entry cut short") from cut
    return decode_message(record, _HEAD.size), epoch, counter
