"""CONNACK: the server's answer to CONNECT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iot_mqtt.codec import properties as props
from iot_mqtt.codec import reasons, wire
from iot_mqtt.codec.kinds import PacketType, Role
from iot_mqtt.codec.properties import NO_PROPERTIES, Properties
from iot_mqtt.errors import Malformed, ProtocolViolation, ReasonCode
from iot_mqtt.values import ProtocolVersion


@dataclass(frozen=True, slots=True)
class Connack:
    """Accepted, or why not. MQTT 3 says it with a return code."""

    type: ClassVar[PacketType] = PacketType.CONNACK

    session_present: bool = False
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


def read(reader: wire.Reader, _head: int, version: ProtocolVersion, role: Role) -> Connack:
    """::

    | 20 | length | 0000000 session present | reason or return code | properties (v5) |
    """
    flags = reader.byte()
    if flags > 1:
        raise Malformed("reserved CONNACK flags are set")  # [MQTT-3.2.2-1]
    number = reader.byte()
    properties = NO_PROPERTIES
    if version is ProtocolVersion.V5:
        reason = reasons.reason(PacketType.CONNACK, role, number)
        properties = props.read(reader.take(reader.varint()), PacketType.CONNACK)
    else:
        reason = reasons.from_return_code(number)
    if flags and reason:
        raise ProtocolViolation("session present in a refusal")  # [MQTT-3.2.2-6] [MQTT-3.2.2-4] (3.1.1)
    return Connack(flags == 1, reason, properties)


def write(packet: Connack, version: ProtocolVersion) -> bytes:
    """The whole packet; nothing at all where MQTT 3 has no return code for the reason.

    The connection is then closed without a CONNACK [MQTT-3.2.2-6] (3.1.1).
    """
    present = packet.session_present and packet.reason == ReasonCode.SUCCESS
    if version is ProtocolVersion.V5:
        return wire.packet(0x20, bytes((present, packet.reason)) + props.block(packet.properties))
    code = reasons.return_code(packet.reason)
    if code is None:
        return b""
    # In MQTT 3.1 the first byte is reserved: it knows no session present.
    return bytes((0x20, 2, present and version is ProtocolVersion.V311, code))
