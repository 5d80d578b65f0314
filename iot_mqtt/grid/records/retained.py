"""Cache ``retained``: topic to its last retained message.

version (1) │ epoch (8) │ counter (8) │ message │ user length (2) │ user

The last two are there where the message counts for a user: then the flag 0x10 is set among those of the message.
"""

from __future__ import annotations

from struct import Struct

from iot_mqtt.grid.records.base import VERSION, StructError, Unreadable, check_version
from iot_mqtt.grid.records.message import decode_message, encode_message, end_of
from iot_mqtt.values import Message, OwnedMessage, retained_by

_HEAD = Struct(">BQQ")
_LENGTH = Struct(">H")
#: Where the flags of the message are, and the one that is set.
_FLAGS, _OWNED = _HEAD.size + 1, 0x10


def encode_retained(message: Message, epoch: int, counter: int) -> bytes:
    record = encode_message(message, _HEAD.pack(VERSION, epoch, counter))
    user = retained_by(message)
    if user is None:
        return record
    name = user.encode("utf-8", "surrogatepass")
    head, flags, rest = record[:_FLAGS], record[_FLAGS] | _OWNED, record[_FLAGS + 1 :]
    return b"".join((head, bytes((flags,)), rest, _LENGTH.pack(len(name)), name))


def decode_retained(record: bytes) -> tuple[Message, int, int]:
    """The message, epoch and counter: of two records of a topic, the one with the greater version stands."""
    check_version(record)
    try:
        _, epoch, counter = _HEAD.unpack_from(record)
    except StructError as cut:
        raise Unreadable("a retained entry cut short") from cut
    message = decode_message(record, _HEAD.size)
    if record[_FLAGS] & _OWNED:
        message = OwnedMessage(message, _user(record, end_of(record, _HEAD.size)))
    return message, epoch, counter


def _user(record: bytes, offset: int) -> str:
    name = offset + _LENGTH.size
    try:
        (length,) = _LENGTH.unpack_from(record, offset)
        if name + length > len(record):
            raise Unreadable("a retained entry cut short")
        return record[name : name + length].decode("utf-8", "surrogatepass")
    except (StructError, UnicodeDecodeError) as cut:
        raise Unreadable("a retained entry whose user cannot be read") from cut
