"""The pure-Python twin of ``_records.pyx``: a message as the grid keeps it, laid out as in ``grid/records/message``."""

from __future__ import annotations

from struct import Struct
from typing import Protocol

_HEAD = Struct(">BBHHII")
_EXPIRES = Struct(">d")


class Recorded(Protocol):
    """A message, as far as it is recorded."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    properties: bytes
    expires_at: float | None
    publisher: str


def message_record(before: bytes, message: Recorded) -> bytes:
    """The record of a message, behind what is to stand before it."""
    topic, payload, properties = message.topic, message.payload, message.properties
    publisher, expires_at = message.publisher.encode(), message.expires_at
    flags = message.qos | (0x04 if message.retain else 0) | (0 if expires_at is None else 0x08)
    head = _HEAD.pack(0x10, flags, len(topic), len(publisher), len(properties), len(payload))
    expires = b"" if expires_at is None else _EXPIRES.pack(expires_at)
    return b"".join((before, head, expires, topic, publisher, properties, payload))
