"""PUBLISH as a value, for clients, tests and errors; the broker's hot path sees ``PublishRun`` instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iot_mqtt import native
from iot_mqtt.codec import properties as props
from iot_mqtt.codec import wire
from iot_mqtt.codec.kinds import PacketType, Role
from iot_mqtt.codec.properties import NO_PROPERTIES, Properties
from iot_mqtt.errors import Malformed, ProtocolViolation
from iot_mqtt.values import ProtocolVersion


@dataclass(frozen=True, slots=True)
class Publish:
    """One application message on one connection; ``packet_id`` is 0 at QoS 0."""

    type: ClassVar[PacketType] = PacketType.PUBLISH

    topic: bytes
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES


def read(reader: wire.Reader, head: int, version: ProtocolVersion, role: Role) -> Publish:
    """Says what is wrong with a packet that the scan would not take.

    ::

        | 3 dup qos retain | remaining length | topic | packet id (QoS > 0) | properties (v5) | payload |
    """
    qos = head >> 1 & 3
    if qos == 3:
        raise Malformed("both QoS bits are set")  # [MQTT-3.3.1-4]
    if head & 8 and not qos:
        raise Malformed("DUP at QoS 0")  # [MQTT-3.3.1-2]
    topic = reader.binary()
    packet_id = reader.packet_id() if qos else 0
    properties = NO_PROPERTIES
    if version is ProtocolVersion.V5:
        properties = props.read_publish(reader.take(reader.varint()), role is Role.SERVER)
    if topic:
        wire.check_topic(topic)
    elif version is not ProtocolVersion.V5:
        wire.check_topic(topic)  # [MQTT-4.7.3-1]
    elif properties.topic_alias is None:
        raise ProtocolViolation("neither a topic nor an alias")  # [MQTT5 3.3.2.1]
    return Publish(topic, reader.rest(), qos, head & 1 == 1, head & 8 == 8, packet_id, properties)


def write(packet: Publish, version: ProtocolVersion) -> bytes:
    """The whole packet."""
    if packet.qos:
        wire.packet_id(packet.packet_id)
    head = 0x30 | packet.dup << 3 | packet.qos << 1 | packet.retain
    block = props.block(packet.properties) if version is ProtocolVersion.V5 else b""
    return native.publish(head, packet.topic, packet.packet_id, block, packet.payload)
