"""UNSUBSCRIBE: the filters that the client no longer wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iot_mqtt.codec import properties as props
from iot_mqtt.codec import wire
from iot_mqtt.codec.kinds import PacketType, Role
from iot_mqtt.codec.properties import NO_PROPERTIES, Properties
from iot_mqtt.errors import ProtocolViolation
from iot_mqtt.values import ProtocolVersion


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """At least one filter, compared character by character with those subscribed."""

    type: ClassVar[PacketType] = PacketType.UNSUBSCRIBE

    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


def read(reader: wire.Reader, _head: int, version: ProtocolVersion, _role: Role) -> Unsubscribe:
    """::

    | a2 | length | packet id | properties (v5) | filter | filter | …
    """
    packet_id = reader.packet_id()
    properties = NO_PROPERTIES
    if version is ProtocolVersion.V5:
        properties = props.read(reader.take(reader.varint()), PacketType.UNSUBSCRIBE)
    if not reader.left:
        raise ProtocolViolation("UNSUBSCRIBE without a filter")  # [MQTT-3.10.3-2]
    filters = []
    while reader.left:
        filters.append(wire.name(reader.binary(), "filter"))  # [MQTT-3.10.3-1]
    return Unsubscribe(packet_id, tuple(filters), properties)


def write(packet: Unsubscribe, version: ProtocolVersion) -> bytes:
    """The whole packet."""
    parts = [wire.packet_id(packet.packet_id)]
    if version is ProtocolVersion.V5:
        parts.append(props.block(packet.properties))
    parts += map(wire.string, packet.filters)
    return wire.packet(0xA2, b"".join(parts))
