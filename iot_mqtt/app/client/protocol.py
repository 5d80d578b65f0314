"""One MQTT connection of a client, without a socket: bytes in, events out, bytes to send.

QoS 1 and 2 in both directions. What arrives is acknowledged by ``accept``, when whoever reads has done with it what he
wanted: a message that was not printed comes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from iot_mqtt.codec import (
    MAX_PACKET_SIZE,
    NO_PROPERTIES,
    PINGREQ,
    Ack,
    AckRun,
    Connack,
    Connect,
    Decoder,
    Disconnect,
    Item,
    Packet,
    PacketType,
    Pingresp,
    Properties,
    Publish,
    PublishRun,
    Request,
    Role,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    encode,
)
from iot_mqtt.errors import MqttError, ReasonCode
from iot_mqtt.values import ProtocolVersion

_PUBACK, _PUBREC = PacketType.PUBACK, PacketType.PUBREC
_PUBREL, _PUBCOMP = PacketType.PUBREL, PacketType.PUBCOMP
_IDS: Final = 0xFFFF
#: Messages on their way, unless somebody says otherwise; a broker may allow fewer.
MAX_INFLIGHT: Final = 100


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message; ``Protocol.accept`` wants it back."""

    message: Publish


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a message that was sent with QoS 1 or 2."""

    packet_id: int
    reason: ReasonCode
    said: str | None


@dataclass(frozen=True, slots=True)
class Ended:
    """The connection is over: the broker's reason, or what the broker did wrong."""

    reason: ReasonCode
    said: str | None = None
    server: str | None = None
    #: Whether this side ends it, because of bytes that MQTT does not allow.
    ours: bool = False


Event = Connack | Suback | Unsuback | Arrived | Settled | Ended


class Protocol:
    """What both sides have said. ``feed`` and the methods that send put bytes into ``out``, for who writes them."""

    def __init__(self, connect: Connect, *, max_inflight: int = MAX_INFLIGHT) -> None:
        self.version = connect.version
        self.five = connect.version is ProtocolVersion.V5
        #: To be sent; whoever has sent some takes them off the front.
        self.out = bytearray()
        #: Of CONNACK.
        self.limits = NO_PROPERTIES
        #: Since the last PINGREQ nothing has come.
        self.pinged = False
        asked = connect.properties
        self._decoder = Decoder(
            asked.maximum_packet_size or MAX_PACKET_SIZE,
            role=Role.CLIENT,
            version=connect.version,
            topic_alias_maximum=asked.topic_alias_maximum,
        )
        self._window = max_inflight
        self._last_id = 0
        #: Packet ids that wait for an answer, and the answer that ends the wait.
        self._waiting: dict[int, PacketType] = {}
        #: QoS 2 messages that are here, and whose PUBREL is not.
        self._received: set[int] = set()
        self._aliased: set[int] = set()
        self._send(connect)

    # What is sent.

    @property
    def room(self) -> int:
        """Messages of QoS 1 and 2 that may be sent now."""
        return self._window - len(self._waiting)

    @property
    def unsettled(self) -> int:
        """Messages, subscriptions and the like that wait for an answer."""
        return len(self._waiting)

    @property
    def unreleased(self) -> int:
        """QoS 2 messages that arrived and whose exchange is not at its end."""
        return len(self._received)

    def publish(self, message: Publish) -> int:
        """Send; the packet id, or 0 at QoS 0. An alias stands for its topic from the second time on."""
        alias = message.properties.topic_alias
        if alias is not None:
            if alias in self._aliased:
                message = replace(message, topic=b"")
            self._aliased.add(alias)
        if message.qos:
            message = replace(message, packet_id=self._next_id(_PUBACK if message.qos == 1 else _PUBREC))
        self._send(message)
        return message.packet_id

    def subscribe(self, filters: tuple[Request, ...], properties: Properties = NO_PROPERTIES) -> int:
        number = self._next_id(PacketType.SUBACK)
        self._send(Subscribe(number, filters, properties))
        return number

    def unsubscribe(self, filters: tuple[str, ...]) -> int:
        number = self._next_id(PacketType.UNSUBACK)
        self._send(Unsubscribe(number, filters))
        return number

    def accept(self, message: Publish) -> None:
        """Acknowledge what arrived."""
        if message.qos:
            self._send(Ack(_PUBACK if message.qos == 1 else _PUBREC, message.packet_id))

    def ping(self) -> None:
        self.pinged = True
        self._send(PINGREQ)

    def disconnect(self, reason: ReasonCode = ReasonCode.SUCCESS, properties: Properties = NO_PROPERTIES) -> None:
        self._send(Disconnect(reason, properties))

    # What comes.

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that these bytes make; all of them have to be taken."""
        self.pinged = False
        for item in self._decoder.feed(data):
            yield from self._event(item)

    def _event(self, item: Item) -> Iterable[Event]:
        if isinstance(item, PublishRun):
            return map(Arrived, filter(self._is_new, item.packets()))
        if isinstance(item, AckRun):
            return filter(None, map(self._answered, item.packets()))
        if isinstance(item, MqttError):
            if self.five:
                self.disconnect(item.reason)
            return (Ended(item.reason, f"the broker sent what MQTT does not allow: {item}", ours=True),)
        if isinstance(item, Connack):
            self._greeted(item)
        elif isinstance(item, Suback | Unsuback):
            self._waiting.pop(item.packet_id, None)
        elif isinstance(item, Disconnect):
            return (Ended(item.reason, item.properties.reason_string, item.properties.server_reference),)
        elif isinstance(item, Pingresp):
            return ()
        return (item,) if isinstance(item, Connack | Suback | Unsuback) else ()

    def _greeted(self, connack: Connack) -> None:
        self.limits = connack.properties
        self._window = min(self._window, self.limits.receive_maximum or self._window)

    def _is_new(self, message: Publish) -> bool:
        """QoS 2 may bring a message again, which then is only acknowledged again."""
        if message.qos != 2:
            return True
        if message.packet_id in self._received:
            self.accept(message)
            return False
        self._received.add(message.packet_id)
        return True

    def _answered(self, ack: Ack) -> Settled | None:
        number, said = ack.packet_id, ack.properties.reason_string
        if ack.type is _PUBREL:
            known = number in self._received
            self._received.discard(number)
            reason = ReasonCode.SUCCESS if known else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
            self._send(Ack(_PUBCOMP, number, reason if self.five else ReasonCode.SUCCESS))
            return None
        if self._waiting.get(number) is not ack.type:
            return None
        if ack.type is _PUBREC and ack.reason < 0x80:
            self._waiting[number] = _PUBCOMP
            self._send(Ack(_PUBREL, number))
            return None
        del self._waiting[number]
        return Settled(number, ack.reason, said)

    def _next_id(self, answer: PacketType) -> int:
        while True:
            self._last_id = self._last_id % _IDS + 1
            if self._last_id not in self._waiting:
                self._waiting[self._last_id] = answer
                return self._last_id

    def _send(self, packet: Packet) -> None:
        self.out += encode(packet, self.version)
