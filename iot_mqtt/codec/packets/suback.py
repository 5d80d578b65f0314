"""SUBACK: one reason for each requested filter, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iot_mqtt.codec import properties as props
from iot_mqtt.codec import reasons, wire
from iot_mqtt.codec.kinds import PacketType, Role
from iot_mqtt.codec.properties import NO_PROPERTIES, Properties
from iot_mqtt.errors import ProtocolViolation
from iot_mqtt.values import ProtocolVersion


@dataclass(frozen=True, slots=True)
class Suback:
    """Granted QoS, or why not. In MQTT 3 every refusal is 0x80."""

    type: ClassVar[PacketType] = PacketType.SUBACK

    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NO_PROPERTIES


def read(reader: wire.Reader, _head: int, version: ProtocolVersion, role: Role) -> Suback:
    """::

    | 90 | length | packet id | properties (v5) | reason | reason | …
    """
    packet_id = reader.packet_id()
    properties = NO_PROPERTIES
    five = version is ProtocolVersion.V5
    if five:
        properties = props.read(reader.take(reader.varint()), PacketType.SUBACK)
    found = tuple(reader.rest())
    if not found:
        raise ProtocolViolation("SUBACK without a reason")
    for number in found:
        if not five and number not in (0, 1, 2, 0x80):
            raise ProtocolViolation(f"SUBACK with return code 0x{number:02x}")  # [MQTT-3.9.3-2] (3.1.1)
        reasons.reason(PacketType.SUBACK, role, number)
    return Suback(packet_id, found, properties)


def write(packet: Suback, version: ProtocolVersion) -> bytes:
    """The whole packet."""
    head = wire.packet_id(packet.packet_id)
    if version is ProtocolVersion.V5:
        return wire.packet(0x90, head + props.block(packet.properties) + bytes(packet.reasons))
    return wire.packet(0x90, head + bytes(min(number, 0x80) for number in packet.reasons))
