"""AUTH: one step of an enhanced authentication; MQTT 5 only."""

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
class Auth:
    """Method and data are among the properties."""

    type: ClassVar[PacketType] = PacketType.AUTH

    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES

    def __repr__(self) -> str:
        # The data is a secret.
        return f"<Auth {self.reason.name} method={self.properties.authentication_method!r}>"


def read(reader: wire.Reader, _head: int, _version: ProtocolVersion, role: Role) -> Auth:
    """::

    | f0 | length | reason | properties |
                    both missing: success
    """
    reason = reasons.reason(PacketType.AUTH, role, reader.byte() if reader.left else 0)
    properties = NO_PROPERTIES
    if reader.left:
        properties = props.read(reader.take(reader.varint()), PacketType.AUTH)
    if reason and properties.authentication_method is None:
        raise ProtocolViolation("AUTH without a method")  # [MQTT5 3.15.2.2.2]
    return Auth(reason, properties)


def write(packet: Auth, version: ProtocolVersion) -> bytes:
    """The whole packet."""
    if version is not ProtocolVersion.V5:
        raise ValueError("MQTT 3 has no AUTH")
    if packet.properties == NO_PROPERTIES and not packet.reason:
        return b"\xf0\0"
    return wire.packet(0xF0, bytes((packet.reason,)) + props.block(packet.properties))
