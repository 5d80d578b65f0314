"""Files as mosquitto writes them, byte by byte: ``persist.h`` of its versions 1.4 to 2.0."""

from __future__ import annotations

import struct

from iot_mqtt.app.importing.mosquitto_db import MAGIC

CONFIGURATION, MESSAGE, CLIENT_MESSAGE, RETAINED, SUBSCRIPTION, CLIENT = range(1, 7)


def file(version: int, *chunks: tuple[int, bytes]) -> bytes:
    head = ">II" if version >= 5 else ">HI"
    return b"".join(
        (MAGIC, struct.pack(">II", 0, version), *(struct.pack(head, kind, len(body)) + body for kind, body in chunks))
    )


def message(
    number: int,
    topic: bytes,
    payload: bytes,
    qos: int = 1,
    *,
    expires: int = 0,
    properties: bytes = b"",
    client: bytes = b"plc",
    user: bytes = b"ann",
) -> tuple[int, bytes]:
    """As since version 5."""
    sizes = struct.pack(">IHHHHHBB", len(payload), 7, len(client), len(user), len(topic), 1883, qos, 1)
    return MESSAGE, struct.pack("<Qq", number, expires) + sizes + client + user + topic + payload + properties


def old_message(version: int, number: int, topic: bytes, payload: bytes, qos: int = 1) -> tuple[int, bytes]:
    """As in version 3 and 4."""
    body = struct.pack("<Q", number) + _text(b"plc")
    if version == 4:
        body += _text(b"ann") + struct.pack(">H", 1883)
    body += struct.pack(">HH", 7, 0) + _text(topic) + bytes((qos, 1)) + struct.pack(">I", len(payload)) + payload
    return MESSAGE, body


def retained(number: int) -> tuple[int, bytes]:
    return RETAINED, struct.pack("<Q", number)


def _text(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data
