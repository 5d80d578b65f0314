"""Just enough MQTT 3.1.1 and 5.0 bytes for the tests, written apart from ``iot_mqtt.codec`` on purpose.

A mistake that the broker's codec makes in both directions would be invisible to a client built on it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(8, 16)

DUP = 0x08
SESSION_EXPIRY, RECEIVE_MAXIMUM = 0x11, 0x21
_WIDTH = {0x01: 1, 0x02: 4, 0x11: 4, 0x13: 2, 0x17: 1, 0x18: 4, 0x19: 1, 0x21: 2, 0x22: 2, 0x23: 2}
_WIDTH |= {0x24: 1, 0x25: 1, 0x27: 4, 0x28: 1, 0x29: 1, 0x2A: 1}
_STRINGS = {0x03, 0x08, 0x09, 0x12, 0x15, 0x16, 0x1A, 0x1C, 0x1F}


def variable(value: int) -> bytes:
    """A variable byte integer."""
    out = bytearray()
    while True:
        value, low = divmod(value, 128)
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def text(value: str | bytes) -> bytes:
    """A length-prefixed string."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(raw)) + raw


def packet(first: int, body: bytes = b"") -> bytes:
    """A fixed header and what follows it."""
    return bytes((first,)) + variable(len(body)) + body


def connect(
    client_id: str,
    *,
    version: int = 4,
    clean: bool = True,
    keep_alive: int = 0,
    properties: bytes = b"",
    will: tuple[str, bytes, int, bool] | None = None,
    user: str | None = None,
    password: bytes | None = None,
    will_delay: int = 0,
) -> bytes:
    """CONNECT; ``will`` is topic, payload, QoS, retain, ``will_delay`` its seconds (version 5)."""
    flags = 0x02 if clean else 0
    payload = text(client_id)
    if will is not None:
        topic, message, qos, retain = will
        flags |= 0x04 | qos << 3 | (0x20 if retain else 0)
        if version == 5:
            payload += b"\x05\x18" + struct.pack(">I", will_delay) if will_delay else b"\x00"
        payload += text(topic) + text(message)
    if user is not None:
        flags |= 0x80
        payload += text(user)
    if password is not None:
        flags |= 0x40
        payload += text(password)
    body = text(b"MQIsdp" if version == 3 else b"MQTT") + bytes((version, flags)) + struct.pack(">H", keep_alive)
    if version == 5:
        body += variable(len(properties)) + properties
    return packet(0x10, body + payload)


def publish(
    topic: str,
    payload: bytes,
    *,
    qos: int = 0,
    packet_id: int = 0,
    retain: bool = False,
    version: int = 4,
    properties: bytes = b"",
) -> bytes:
    """PUBLISH; ``properties`` are for version 5."""
    body = text(topic) + (struct.pack(">H", packet_id) if qos else b"")
    if version == 5:
        body += variable(len(properties)) + properties
    return packet(0x30 | qos << 1 | retain, body + payload)


def subscribe(packet_id: int, filters: list[tuple[str, int]], *, version: int = 4) -> bytes:
    """SUBSCRIBE; the number beside each filter is its options byte."""
    body = struct.pack(">H", packet_id) + (b"\x00" if version == 5 else b"")
    return packet(0x82, body + b"".join(text(name) + bytes((options,)) for name, options in filters))


def unsubscribe(packet_id: int, filters: list[str], *, version: int = 4) -> bytes:
    """UNSUBSCRIBE."""
    body = struct.pack(">H", packet_id) + (b"\0" if version == 5 else b"")
    return packet(0xA2, body + b"".join(text(one) for one in filters))


def ack(kind: int, packet_id: int) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP in its short form, the same in both versions."""
    return bytes((kind << 4 | (0x02 if kind == PUBREL else 0), 2, packet_id >> 8, packet_id & 0xFF))


def as_duplicate(frame: bytes) -> bytes:
    """The same PUBLISH with DUP set."""
    return bytes((frame[0] | DUP,)) + frame[1:]


@dataclass(frozen=True, slots=True)
class Received:
    """One packet as it came: type, flags, and everything after the fixed header."""

    kind: int
    flags: int
    body: bytes

    @property
    def packet_id(self) -> int:
        return int.from_bytes(self.body[:2], "big")

    def reason(self) -> int:
        """Reason code of an acknowledgement or DISCONNECT (0 where it is left out), or of CONNACK."""
        if self.kind == CONNACK:
            return self.body[1]
        at = 0 if self.kind == DISCONNECT else 2
        return self.body[at] if len(self.body) > at else 0


@dataclass(frozen=True, slots=True)
class Publication:
    """A PUBLISH taken apart."""

    topic: str
    payload: bytes
    qos: int
    packet_id: int
    dup: bool
    retain: bool


def publication(received: Received, version: int) -> Publication:
    """Take a received PUBLISH apart; properties are skipped."""
    body = received.body
    end = 2 + int.from_bytes(body[:2], "big")
    topic, qos, packet_id = body[2:end].decode(), received.flags >> 1 & 3, 0
    if qos:
        packet_id = int.from_bytes(body[end : end + 2], "big")
        end += 2
    if version == 5:
        length, end = read_variable(body, end)
        end += length
    return Publication(topic, body[end:], qos, packet_id, bool(received.flags & DUP), bool(received.flags & 1))


def read_variable(data: bytes, at: int) -> tuple[int, int]:
    """A variable byte integer at ``at``; returns it and where it ends. IndexError: not all there."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def connack_properties(body: bytes) -> dict[int, int | bytes]:
    """Numbers and strings of a v5 CONNACK by identifier; user properties are skipped."""
    found: dict[int, int | bytes] = {}
    length, at = read_variable(body, 2)
    end = at + length
    while at < end:
        identifier = body[at]
        at += 1
        if width := _WIDTH.get(identifier):
            found[identifier] = int.from_bytes(body[at : at + width], "big")
            at += width
        elif identifier in _STRINGS:
            size = int.from_bytes(body[at : at + 2], "big")
            found[identifier] = body[at + 2 : at + 2 + size]
            at += 2 + size
        else:  # a user property: two strings
            for _ in range(2):
                at += 2 + int.from_bytes(body[at : at + 2], "big")
    return found


class Splitter:
    """Bytes in, packets out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Received]:
        """The packets that are complete now."""
        data = self._rest + data if self._rest else data
        at, out = 0, []
        while at < len(data):
            try:
                length, start = read_variable(data, at + 1)
            except IndexError:
                break
            if start + length > len(data):
                break
            out.append(Received(data[at] >> 4, data[at] & 15, data[start : start + length]))
            at = start + length
        self._rest = data[at:]
        return out
