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


#: Directions and states of client messages, as mosquitto numbers them.
IN, OUT = 0, 1
WAIT_FOR_PUBACK, WAIT_FOR_PUBREC, WAIT_FOR_PUBREL, WAIT_FOR_PUBCOMP, QUEUED = 3, 5, 7, 9, 11
NEVER = 0xFFFF_FFFF


def client(
    name: bytes, *, interval: int = NEVER, ends: int = 0, user: bytes = b"", version: int = 6, padding: int = 4
) -> tuple[int, bytes]:
    """A session, since version 5; ``padding``: 4, or 0 where a 32-bit machine wrote it."""
    head = struct.pack("<q", ends) + struct.pack(">IHH", interval, 7, len(name))
    if version >= 6:
        head += struct.pack(">HH", 1883, len(user)) + bytes(padding)
    return CLIENT, head + name + user


def client_message(
    name: bytes,
    number: int,
    qos: int = 1,
    state: int = QUEUED,
    *,
    packet_id: int = 0,
    direction: int = OUT,
    retain: bool = False,
    properties: bytes = b"",
) -> tuple[int, bytes]:
    """A message of a session, since version 5."""
    head = struct.pack("<Q", number) + struct.pack(">HHBBBB", packet_id, len(name), qos, state, retain << 4, direction)
    return CLIENT_MESSAGE, head + name + properties


def subscription(name: bytes, topic: bytes, qos: int = 1, options: int = 0, identifier: int = 0) -> tuple[int, bytes]:
    """As since version 5."""
    head = struct.pack(">IHHBB", identifier, len(name), len(topic), qos, options)
    return SUBSCRIPTION, head + bytes(2) + name + topic


def old_client(name: bytes) -> tuple[int, bytes]:
    """As in version 3 and 4."""
    return CLIENT, _text(name) + struct.pack(">H", 7) + bytes(8)


def old_client_message(name: bytes, number: int, qos: int, state: int, packet_id: int = 0) -> tuple[int, bytes]:
    """As in version 3 and 4: retain, direction, state and whether it is a duplicate behind the QoS."""
    return CLIENT_MESSAGE, _text(name) + struct.pack("<Q", number) + struct.pack(
        ">HBBBBB", packet_id, qos, 0, OUT, state, 0
    )


def old_subscription(name: bytes, topic: bytes, qos: int = 1) -> tuple[int, bytes]:
    """As in version 3 and 4."""
    return SUBSCRIPTION, _text(name) + _text(topic) + bytes((qos,))


def _text(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data
