"""DISCONNECT: the last packet; in MQTT 5 both ends may send it and say why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iot_mqtt.codec import properties as props
from iot_mqtt.codec import reasons, wire
from iot_mqtt.codec.kinds import PacketType, Role
from iot_mqtt.codec.properties import NO_PROPERTIES, Properties
from iot_mqtt.errors import ProtocolViolation, ReasonCode
from iot_mqtt.values import ProtocolVersion


@dataclass(frozen=True, slots=True)
class Disconnect:
    """A normal end unless the reason says otherwise; MQTT 3 has neither reason nor properties."""

    type: ClassVar[PacketType] = PacketType.DISCONNECT

    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


def read(reader: wire.Reader, _head: int, version: ProtocolVersion, role: Role) -> Disconnect:
    """::

    | e0 | length | reason (v5) | properties (v5) |
                    missing: 0    missing: none
    """
    if version is not ProtocolVersion.V5 or not reader.left:
        return Disconnect()
    reason = reasons.reason(PacketType.DISCONNECT, role, reader.byte())
    properties = NO_PROPERTIES
    if reader.left:
        properties = props.read(reader.take(reader.varint()), PacketType.DISCONNECT)
    if role is Role.CLIENT and properties.session_expiry_interval is not None:
        raise ProtocolViolation("a server sent a session expiry interval")  # [MQTT-3.14.2-2]
    return Disconnect(reason, properties)


def write(packet: Disconnect, version: ProtocolVersion) -> bytes:
    """The shortest form that says it. An MQTT 3 server has no DISCONNECT to send: it just closes."""
    if version is not ProtocolVersion.V5:
        return b"\xe0\0"
    if packet.properties != NO_PROPERTIES:
        return wire.packet(0xE0, bytes((packet.reason,)) + props.block(packet.properties))
    return bytes((0xE0, 1, packet.reason)) if packet.reason else b"\xe0\0"
