"""MQTT packets as bytes, written from the specification and from nothing else in this repository.

The suite must be able to disagree with the broker, so it shares no code with the broker's codec. Builders
do what they are told, including what the specification forbids; the parser is strict, because what it reads
comes from the broker under test: reserved bits, lengths, UTF-8, properties and reason codes are all checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

V31, V311, V5 = 3, 4, 5

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = 8, 9, 10, 11, 12, 13, 14, 15

NAMES = {
    1: "CONNECT", 2: "CONNACK", 3: "PUBLISH", 4: "PUBACK", 5: "PUBREC", 6: "PUBREL", 7: "PUBCOMP", 8: "SUBSCRIBE",
    9: "SUBACK", 10: "UNSUBSCRIBE", 11: "UNSUBACK", 12: "PINGREQ", 13: "PINGRESP", 14: "DISCONNECT", 15: "AUTH",
}  # fmt: skip

#: id: (name, kind, packets that may carry it from a server). Table 2-4 of MQTT 5.0, seen from a client.
PROPERTIES: dict[int, tuple[str, str, frozenset[int]]] = {
    0x01: ("payload_format_indicator", "byte", frozenset({PUBLISH})),
    0x02: ("message_expiry_interval", "four", frozenset({PUBLISH})),
    0x03: ("content_type", "text", frozenset({PUBLISH})),
    0x08: ("response_topic", "text", frozenset({PUBLISH})),
    0x09: ("correlation_data", "data", frozenset({PUBLISH})),
    0x0B: ("subscription_identifier", "varint", frozenset({PUBLISH})),
    0x11: ("session_expiry_interval", "four", frozenset({CONNACK})),
    0x12: ("assigned_client_identifier", "text", frozenset({CONNACK})),
    0x13: ("server_keep_alive", "two", frozenset({CONNACK})),
    0x15: ("authentication_method", "text", frozenset({CONNACK, AUTH})),
    0x16: ("authentication_data", "data", frozenset({CONNACK, AUTH})),
    0x17: ("request_problem_information", "byte", frozenset()),
    0x18: ("will_delay_interval", "four", frozenset()),
    0x19: ("request_response_information", "byte", frozenset()),
    0x1A: ("response_information", "text", frozenset({CONNACK})),
    0x1C: ("server_reference", "text", frozenset({CONNACK, DISCONNECT})),
    0x1F: (
        "reason_string",
        "text",
        frozenset({CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, DISCONNECT, AUTH}),
    ),
    0x21: ("receive_maximum", "two", frozenset({CONNACK})),
    0x22: ("topic_alias_maximum", "two", frozenset({CONNACK})),
    0x23: ("topic_alias", "two", frozenset({PUBLISH})),
    0x24: ("maximum_qos", "byte", frozenset({CONNACK})),
    0x25: ("retain_available", "byte", frozenset({CONNACK})),
    0x26: (
        "user_property",
        "pair",
        frozenset({CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, DISCONNECT, AUTH}),
    ),
    0x27: ("maximum_packet_size", "four", frozenset({CONNACK})),
    0x28: ("wildcard_subscription_available", "byte", frozenset({CONNACK})),
    0x29: ("subscription_identifier_available", "byte", frozenset({CONNACK})),
    0x2A: ("shared_subscription_available", "byte", frozenset({CONNACK})),
}
_IDS = {name: (number, kind) for number, (name, kind, _) in PROPERTIES.items()}
_REPEATABLE = {"user_property", "subscription_identifier"}

#: Reason codes that a server may use, by packet (MQTT 5.0, the tables of each packet).
REASONS: dict[int, frozenset[int]] = {
    CONNACK: frozenset({
        0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C,
        0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F,
    }),
    PUBACK: frozenset({0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}),
    PUBREC: frozenset({0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}),
    PUBREL: frozenset({0x00, 0x92}),
    PUBCOMP: frozenset({0x00, 0x92}),
    SUBACK: frozenset({0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}),
    UNSUBACK: frozenset({0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}),
    DISCONNECT: frozenset({
        0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98,
        0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2,
    }),
    AUTH: frozenset({0x00, 0x18}),
}  # fmt: skip


class NotMqtt(AssertionError):
    """The broker sent bytes that the specification forbids it to send."""


def varint(number: int) -> bytes:
    """A Variable Byte Integer in its shortest form."""
    out = bytearray()
    while True:
        number, low = divmod(number, 128)
        out.append(low | (0x80 if number else 0))
        if not number:
            return bytes(out)


def two(number: int) -> bytes:
    """A Two Byte Integer."""
    return number.to_bytes(2, "big")


def data(value: bytes) -> bytes:
    """Binary Data: two bytes of length, then the bytes."""
    return two(len(value)) + value


def text(value: str | bytes) -> bytes:
    """A UTF-8 Encoded String; given as bytes it is sent as it is, right or wrong."""
    return data(value.encode() if isinstance(value, str) else value)


def properties(**values: Any) -> bytes:
    """A property block with its length; a list value repeats the property, `user_property` takes pairs."""
    block = bytearray()
    for name, value in values.items():
        if value is None:
            continue
        number, kind = _IDS[name]
        for item in value if isinstance(value, list) else [value]:
            block.append(number)
            block += _write_property(kind, item)
    return varint(len(block)) + bytes(block)


def _write_property(kind: str, item: Any) -> bytes:
    if kind == "byte":
        return bytes([item])
    if kind == "two":
        return two(item)
    if kind == "four":
        return int(item).to_bytes(4, "big")
    if kind == "varint":
        return varint(item)
    if kind == "text":
        return text(item)
    if kind == "data":
        return data(item)
    return text(item[0]) + text(item[1])


def frame(kind: int, flags: int, body: bytes) -> bytes:
    """Fixed header and body: ``| type flags | remaining length | body |``."""
    return bytes([kind << 4 | flags]) + varint(len(body)) + body


@dataclass(frozen=True, slots=True)
class Will:
    """The will of a CONNECT."""

    topic: str
    payload: bytes = b"gone"
    qos: int = 0
    retain: bool = False
    properties: dict[str, Any] = field(default_factory=dict)


def connect(
    version: int,
    client_id: str | bytes,
    *,
    clean: bool = True,
    keep_alive: int = 60,
    will: Will | None = None,
    username: str | None = None,
    password: bytes | None = None,
    **props: Any,
) -> bytes:
    """CONNECT in the given protocol version."""
    name = "MQIsdp" if version == V31 else "MQTT"
    flags = 0x02 if clean else 0
    payload = text(client_id)
    if will is not None:
        flags |= 0x04 | will.qos << 3 | (0x20 if will.retain else 0)
        payload += (properties(**will.properties) if version == V5 else b"") + text(will.topic) + data(will.payload)
    if username is not None:
        flags |= 0x80
        payload += text(username)
    if password is not None:
        flags |= 0x40
        payload += data(password)
    block = properties(**props) if version == V5 else b""
    return frame(CONNECT, 0, text(name) + bytes([version, flags]) + two(keep_alive) + block + payload)


def publish(
    version: int,
    topic: str | bytes,
    payload: bytes = b"",
    *,
    qos: int = 0,
    retain: bool = False,
    dup: bool = False,
    packet_id: int = 0,
    **props: Any,
) -> bytes:
    """PUBLISH."""
    body = text(topic) + (two(packet_id) if qos else b"") + (properties(**props) if version == V5 else b"") + payload
    return frame(PUBLISH, (8 if dup else 0) | qos << 1 | (1 if retain else 0), body)


def ack(kind: int, packet_id: int, reason: int = 0, **props: Any) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP; the short form when there is nothing more to say."""
    body = two(packet_id)
    if reason or props:
        body += bytes([reason])
    if props:
        body += properties(**props)
    return frame(kind, 2 if kind == PUBREL else 0, body)


def subscribe(version: int, packet_id: int, filters: list[tuple[str, int]], **props: Any) -> bytes:
    """SUBSCRIBE with (filter, options byte) pairs."""
    block = properties(**props) if version == V5 else b""
    pairs = b"".join(text(name) + bytes([options]) for name, options in filters)
    return frame(SUBSCRIBE, 2, two(packet_id) + block + pairs)


def unsubscribe(version: int, packet_id: int, filters: list[str], **props: Any) -> bytes:
    """UNSUBSCRIBE."""
    block = properties(**props) if version == V5 else b""
    return frame(UNSUBSCRIBE, 2, two(packet_id) + block + b"".join(text(name) for name in filters))


def disconnect(version: int, reason: int = 0, **props: Any) -> bytes:
    """DISCONNECT; reason and properties only in version 5."""
    if version != V5 or (not reason and not props):
        return frame(DISCONNECT, 0, b"")
    return frame(DISCONNECT, 0, bytes([reason]) + (properties(**props) if props else b""))


def auth(reason: int, **props: Any) -> bytes:
    """AUTH."""
    return frame(AUTH, 0, bytes([reason]) + properties(**props))


@dataclass(slots=True)
class Packet:
    """A packet that the broker sent, taken apart."""

    kind: int
    raw: bytes
    flags: int = 0
    packet_id: int = 0
    reason: int = 0
    reasons: tuple[int, ...] = ()
    session_present: bool = False
    topic: str = ""
    payload: bytes = b""
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def qos(self) -> int:
        """QoS of a PUBLISH."""
        return self.flags >> 1 & 3

    @property
    def retain(self) -> bool:
        """RETAIN of a PUBLISH."""
        return bool(self.flags & 1)

    @property
    def dup(self) -> bool:
        """DUP of a PUBLISH."""
        return bool(self.flags & 8)

    @property
    def user_properties(self) -> list[tuple[str, str]]:
        """User properties in the order received."""
        return list(self.properties.get("user_property", []))

    @property
    def identifiers(self) -> list[int]:
        """Subscription identifiers, sorted: their order says nothing."""
        return sorted(self.properties.get("subscription_identifier", []))

    def __str__(self) -> str:
        name = NAMES[self.kind]
        if self.kind == PUBLISH:
            flags = f"qos={self.qos} retain={int(self.retain)} dup={int(self.dup)}"
            return f"{name} {self.topic!r} {flags} {self.payload[:40]!r}"
        if self.kind in (SUBACK, UNSUBACK):
            return f"{name} {self.packet_id} {' '.join(f'0x{code:02X}' for code in self.reasons)}"
        if self.kind == PINGRESP:
            return name
        return f"{name} 0x{self.reason:02X}" + (f" id {self.packet_id}" if self.packet_id else "")


class Reader:
    """Reads the fields of one packet in order; anything missing or left over is the broker's mistake."""

    def __init__(self, raw: bytes, body: bytes) -> None:
        self.raw = raw
        self.body = body
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        self.require(self.at + count <= len(self.body), "ends in the middle of a field")
        piece = self.body[self.at : self.at + count]
        self.at += count
        return piece

    def rest(self) -> bytes:
        """Whatever is left."""
        return self.take(len(self.body) - self.at)

    def number(self, count: int) -> int:
        """A big-endian integer of ``count`` bytes."""
        return int.from_bytes(self.take(count), "big")

    def text(self) -> str:
        """A UTF-8 Encoded String [MQTT-1.5.4-1] [MQTT-1.5.4-2]."""
        try:
            value = self.take(self.number(2)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotMqtt(f"bad UTF-8 from the broker in {self.raw.hex(' ')}") from error
        self.require("\0" not in value, "has U+0000 in a string")
        return value

    def varint(self) -> int:
        """A Variable Byte Integer, which must be the shortest form [MQTT-1.5.5-1]."""
        value = 0
        for place in range(4):
            byte = self.number(1)
            value |= (byte & 0x7F) << 7 * place
            if not byte & 0x80:
                self.require(byte != 0 or place == 0, "has a length that is longer than need be")
                return value
        raise NotMqtt(f"variable byte integer over four bytes in {self.raw.hex(' ')}")

    def require(self, condition: bool, complaint: str) -> None:
        """Fail with the packet's bytes unless the condition holds."""
        if not condition:
            raise NotMqtt(f"packet from the broker {complaint}: {self.raw[:64].hex(' ')}")

    def properties(self, kind: int) -> dict[str, Any]:
        """A property block: known, allowed in this packet, each once unless it may repeat."""
        end = self.varint() + self.at
        found: dict[str, Any] = {}
        while self.at < end:
            number = self.varint()
            self.require(number in PROPERTIES, f"has unknown property 0x{number:02X}")
            name, shape, allowed = PROPERTIES[number]
            self.require(kind in allowed, f"has property {name}, which {NAMES[kind]} may not carry")
            value = self._property(shape)
            if name in _REPEATABLE:
                found.setdefault(name, []).append(value)
            else:
                self.require(name not in found, f"repeats property {name}")
                found[name] = value
        self.require(self.at == end, "has a wrong property length")
        return found

    def _property(self, shape: str) -> Any:
        if shape == "text":
            return self.text()
        if shape == "data":
            return self.take(self.number(2))
        if shape == "pair":
            return (self.text(), self.text())
        if shape == "varint":
            return self.varint()
        return self.number({"byte": 1, "two": 2, "four": 4}[shape])


def parse(version: int, raw: bytes, header: int, body: bytes) -> Packet:
    """Take one packet from a server apart and check it against the specification."""
    kind, flags = header >> 4, header & 15
    reader = Reader(raw, body)
    reader.require(kind in (2, 3, 4, 5, 6, 7, 9, 11, 13, 14, 15), "is of a type no server sends")
    reader.require(kind == PUBLISH or flags == (2 if kind == PUBREL else 0), "has wrong reserved flags")
    reader.require(version == V5 or kind not in (DISCONNECT, AUTH), "does not exist for a server before MQTT 5")
    packet = Packet(kind, raw, flags)
    _PARSERS[kind](version, packet, reader)
    reader.require(reader.at == len(body), "has bytes left over")
    return packet


def _parse_connack(version: int, packet: Packet, reader: Reader) -> None:
    acknowledge = reader.number(1)
    reader.require(acknowledge & 0xFE == 0, "has reserved acknowledge flags set")
    packet.session_present = bool(acknowledge)
    packet.reason = reader.number(1)
    known = REASONS[CONNACK] if version == V5 else range(6)
    if reader.at < len(reader.body) or version == V5:
        reader.require(version == V5, "is longer than two bytes before MQTT 5")
        packet.properties = reader.properties(CONNACK)
    reader.require(packet.reason in known, f"has unknown reason 0x{packet.reason:02X}")
    reader.require(not (packet.reason and packet.session_present), "refuses with session present")


def _parse_publish(version: int, packet: Packet, reader: Reader) -> None:
    reader.require(packet.qos != 3, "has QoS 3")
    reader.require(packet.qos > 0 or not packet.dup, "has DUP at QoS 0")
    packet.topic = reader.text()
    if packet.qos:
        packet.packet_id = reader.number(2)
        reader.require(packet.packet_id != 0, "has packet id 0")
    if version == V5:
        packet.properties = reader.properties(PUBLISH)
        reader.require(packet.properties.get("topic_alias") != 0, "has topic alias 0")
        reader.require(0 not in packet.identifiers, "has subscription identifier 0")
    reader.require("+" not in packet.topic and "#" not in packet.topic, "has a wildcard in its topic")
    packet.payload = reader.rest()


def _parse_ack(version: int, packet: Packet, reader: Reader) -> None:
    packet.packet_id = reader.number(2)
    if version == V5 and reader.at < len(reader.body):
        packet.reason = reader.number(1)
        reader.require(packet.reason in REASONS[packet.kind], f"has unknown reason 0x{packet.reason:02X}")
        if reader.at < len(reader.body):
            packet.properties = reader.properties(packet.kind)


def _parse_reasons(version: int, packet: Packet, reader: Reader) -> None:
    packet.packet_id = reader.number(2)
    if version == V5:
        packet.properties = reader.properties(packet.kind)
    if packet.kind == UNSUBACK and version != V5:
        return
    packet.reasons = tuple(reader.rest())
    known = REASONS[packet.kind] if version == V5 else {0, 1, 2, 0x80}
    reader.require(all(code in known for code in packet.reasons), "has a reserved reason code")


def _parse_reason(version: int, packet: Packet, reader: Reader) -> None:
    if reader.body:
        packet.reason = reader.number(1)
        reader.require(packet.reason in REASONS[packet.kind], f"has unknown reason 0x{packet.reason:02X}")
    if reader.at < len(reader.body):
        packet.properties = reader.properties(packet.kind)


def _parse_nothing(version: int, packet: Packet, reader: Reader) -> None:
    return


_PARSERS = {
    CONNACK: _parse_connack,
    PUBLISH: _parse_publish,
    PUBACK: _parse_ack,
    PUBREC: _parse_ack,
    PUBREL: _parse_ack,
    PUBCOMP: _parse_ack,
    SUBACK: _parse_reasons,
    UNSUBACK: _parse_reasons,
    PINGRESP: _parse_nothing,
    DISCONNECT: _parse_reason,
    AUTH: _parse_reason,
}
