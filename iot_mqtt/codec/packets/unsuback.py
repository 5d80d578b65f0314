"""UNSUBACK: in MQTT 5 one reason for each filter, in MQTT 3 only the packet id."""

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
class Unsuback:
    """The reasons are empty in MQTT 3."""

    type: ClassVar[PacketType] = PacketType.UNSUBACK

    packet_id: int
    reasons: tuple[int, ...] = ()
    properties: Properties = NO_PROPERTIES


def read(reader: wire.Reader, _head: int, version: ProtocolVersion, role: Role) -> Unsuback:
    """::

    | b0 | length | packet id | properties (v5) | reason (v5) | reason | …
    """
    packet_id = reader.packet_id()
    if version is not ProtocolVersion.V5:
        return Unsuback(packet_id)
    properties = props.read(reader.take(reader.varint()), PacketType.UNSUBACK)
    found = tuple(reader.rest())
    if not found:
        raise ProtocolViolation("UNSUBACK without a reason")
    for number in found:
        reasons.reason(PacketType.UNSUBACK, role, number)
    return Unsuback(packet_id, found, properties)


def write(packet: Unsuback, version: ProtocolVersion) -> bytes:
    """The whole packet."""
    body = wire.packet_id(packet.packet_id)
    if version is ProtocolVersion.V5:
        body += props.block(packet.properties) + bytes(packet.reasons)
    return wire.packet(0xB0, body)
