"""A gateway's connection: packets are values in both directions, for there is no wire between it and its stage.

::

    Connection         bytes  ─▶ transport          read again by the client
    GatewayConnection  values ─▶ ``DeviceStage``    which is the client

Its messages go one by one, each as a ``Publish``: a gateway gets commands, and few of them. Acknowledgements of one
kind that follow each other are one run. The flight recorder keeps bytes, so they are written for it, and for nobody
else.
"""

from __future__ import annotations

from functools import partial

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.publication import hop_properties
from iot_mqtt.codec import NO_PROPERTIES, AckRun, Packet, PacketType, Publish, encode, encode_acks, read_publish
from iot_mqtt.errors import ReasonCode
from iot_mqtt.pipeline import Batch
from iot_mqtt.session import Delivery
from iot_mqtt.values import ProtocolVersion

#: What a packet counts as beside its topic and payload, and a run of acknowledgements, in the bytes of a turn.
PACKET_SIZE = 32


class GatewayConnection(Connection):
    """Writes no bytes. Its client speaks version 5, and takes packets of any size."""

    __slots__ = ()

    @property
    def takes_bytes(self) -> bool:
        return False

    def as_bytes(self, out: Batch) -> list[bytes]:
        return [_written(item) for item in out]

    # Packets.

    def send_packet(self, packet: Packet) -> None:
        self.output.counters.packets_sent[packet.type.name] += 1
        self._put(packet)

    def send_written(self, packet: Packet, data: bytes) -> None:
        self._put(packet)

    def send_last(self, packet: Packet) -> None:
        self.send_packet(packet)

    def send_acks(self, type: PacketType, ids: list[int], reason: ReasonCode = ReasonCode.SUCCESS) -> None:
        self.output.counters.packets_sent[type._name_] += len(ids)
        last = self._out[-1] if self._out else None
        if isinstance(last, AckRun) and last.type is type and last.reason is reason:
            last.ids.extend(ids)
        else:
            self.add(AckRun(type, list(ids), reason, NO_PROPERTIES), PACKET_SIZE)

    def reply(self, packet: Packet, *, once_committed: bool = False) -> None:
        store = self.output.store
        self.output.counters.packets_sent[packet.type.name] += 1
        ticket = store.latest if once_committed else 0
        if self.answers is None and ticket <= store.committed:
            self._put(packet)
        else:
            self.call_behind(partial(self._put, packet), ticket)

    def _put(self, packet: Packet) -> None:
        self.add(packet, PACKET_SIZE)

    # The session's messages.

    def one_by_one(self, count: int) -> bool:
        return True

    def send_delivery(self, delivery: Delivery) -> bool:
        message, qos = delivery.message, delivery.qos
        block = hop_properties(message.properties, expiry=self.expiry_left(message), identifiers=delivery.identifiers)
        properties = read_publish(block, from_client=False) if block else NO_PROPERTIES
        dup = qos > 0 and delivery.sent
        packet = Publish(message.topic, message.payload, qos, delivery.retain, dup, delivery.packet_id, properties)
        self.add(packet, PACKET_SIZE + len(message.topic) + len(message.payload))
        return True


def _written(item: Packet | AckRun) -> bytes:
    if isinstance(item, AckRun):
        return encode_acks(item.type, item.ids, ProtocolVersion.V5, item.reason)
    return encode(item, ProtocolVersion.V5)
