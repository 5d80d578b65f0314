"""PUBACK, PUBREC, PUBREL and PUBCOMP: four types, one shape."""

from __future__ import annotations

from dataclasses import dataclass

from iot_mqtt.codec import properties as props
from iot_mqtt.codec import reasons, wire
from iot_mqtt.codec.kinds import ACKNOWLEDGEMENTS, PacketType, Role
from iot_mqtt.codec.properties import NO_PROPERTIES, Properties
from iot_mqtt.errors import ReasonCode
from iot_mqtt.values import ProtocolVersion


@dataclass(frozen=True, slots=True)
class Ack:
    """One acknowledgement; MQTT 3 has neither reason nor properties."""

    type: PacketType
    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


def read(reader: wire.Reader, head: int, version: ProtocolVersion, role: Role) -> Ack:
    """One acknowledgement of any form; the short ones in a row are the scan's.

    ::

        | type, flags | remaining length | packet id | reason (v5) | properties (v5) |
          40 50 62 70                      2           missing: 0    missing: none
    """
    kind = PacketType(head >> 4)
    packet_id = reader.packet_id()
    if version is not ProtocolVersion.V5 or not reader.left:
        return Ack(kind, packet_id)
    reason = reasons.reason(kind, role, reader.byte())
    properties = NO_PROPERTIES
    if reader.left:
        properties = props.read(reader.take(reader.varint()), kind)
    return Ack(kind, packet_id, reason, properties)


def first_byte(type: PacketType) -> int:
    """PUBREL alone has flags: 0010 [MQTT-3.6.1-1]."""
    if type not in ACKNOWLEDGEMENTS:
        raise ValueError(f"{type.name} is no acknowledgement")
    return type << 4 | (2 if type is PacketType.PUBREL else 0)


def write(packet: Ack, version: ProtocolVersion) -> bytes:
    """The shortest form that says it."""
    body = wire.packet_id(packet.packet_id)
    if version is ProtocolVersion.V5:
        if packet.properties != NO_PROPERTIES:
            body += bytes((packet.reason,)) + props.block(packet.properties)
        elif packet.reason:
            body += bytes((packet.reason,))
    return wire.packet(first_byte(packet.type), body)
