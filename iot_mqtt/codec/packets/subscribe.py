"""SUBSCRIBE: filters, each with its options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from iot_mqtt.codec import properties as props
from iot_mqtt.codec import wire
from iot_mqtt.codec.kinds import PacketType, Role
from iot_mqtt.codec.properties import NO_PROPERTIES, Properties
from iot_mqtt.errors import Malformed, MqttError, ProtocolViolation
from iot_mqtt.values import ProtocolVersion


class Request(NamedTuple):
    """One filter as asked for; whether it is a good filter is for the broker to say, in SUBACK."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


@dataclass(frozen=True, slots=True)
class Subscribe:
    """At least one request, answered one by one in SUBACK."""

    type: ClassVar[PacketType] = PacketType.SUBSCRIBE

    packet_id: int
    filters: tuple[Request, ...]
    properties: Properties = NO_PROPERTIES


def read(reader: wire.Reader, _head: int, version: ProtocolVersion, _role: Role) -> Subscribe:
    """::

    | 82 | length | packet id | properties (v5) | filter | options | filter | options | …
    """
    packet_id = reader.packet_id()
    properties = NO_PROPERTIES
    five = version is ProtocolVersion.V5
    if five:
        properties = props.read(reader.take(reader.varint()), PacketType.SUBSCRIBE)
    if not reader.left:
        raise ProtocolViolation("SUBSCRIBE without a filter")  # [MQTT-3.8.3-2] [MQTT-3.8.3-3] (3.1.1)
    filters = []
    while reader.left:
        name = wire.name(reader.binary(), "filter")  # [MQTT-3.8.3-1]
        options = reader.byte()
        try:
            filters.append(_request_5(name, options) if five else _request_3(name, options))
        except MqttError as error:
            raise error.naming("filter", name) from None
    return Subscribe(packet_id, tuple(filters), properties)


def _request_3(name: str, options: int) -> Request:
    if options > 2:
        raise Malformed(f"subscription options 0x{options:02x}")  # [MQTT-3-8.3-4]
    return Request(name, options)


def _request_5(name: str, options: int) -> Request:
    if options < 3:
        return Request(name, options)
    if options & 0xC0:
        raise Malformed("reserved subscription options are set")  # [MQTT-3.8.3-5]
    if options & 3 == 3:
        raise ProtocolViolation("a subscription of QoS 3")  # [MQTT5 3.8.3.1]
    if options & 0x30 == 0x30:
        raise ProtocolViolation("retain handling 3")  # [MQTT5 3.8.3.1]
    no_local = options & 4 == 4
    if no_local and name.startswith("$share/"):
        raise ProtocolViolation("no local on a shared subscription")  # [MQTT-3.8.3-4]
    return Request(name, options & 3, no_local, options & 8 == 8, options >> 4)


def write(packet: Subscribe, version: ProtocolVersion) -> bytes:
    """The whole packet."""
    five = version is ProtocolVersion.V5
    parts = [wire.packet_id(packet.packet_id)]
    if five:
        parts.append(props.block(packet.properties))
    for request in packet.filters:
        options = request.qos
        if five:
            options |= request.no_local << 2 | request.retain_as_published << 3 | request.retain_handling << 4
        parts += (wire.string(request.filter), bytes((options,)))
    return wire.packet(0x82, b"".join(parts))
