"""What a client is sent, in the form that it takes: by its version, its Maximum Packet Size and its topic aliases.

Bytes gather in ``_out`` and leave as one write at the end of the turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from iot_mqtt.broker.allowance import Allowance
from iot_mqtt.broker.connections.fitting import fitting
from iot_mqtt.broker.publication import Publication, hop_properties
from iot_mqtt.broker.session import ClientConnection
from iot_mqtt.broker.turn import Turn
from iot_mqtt.codec import Packet, PacketType, encode_acks, encode_publish
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.store import Store
from iot_mqtt.session import Delivery, Piece
from iot_mqtt.values import ProtocolVersion, seconds_left

#: Bytes that gather for one client before they are written without waiting for the end of the turn.
EAGER_BYTES = 256 * 1024
#: Bytes that an alias adds at most: the property, and a longer length of the properties and of the packet.
ALIAS_COST = 5
#: Bytes of the longest topic that gets one: each connection keeps those that it was told.
LONGEST_ALIASED = 4096


@dataclass(frozen=True, slots=True)
class Output:
    """What all connections of a node need to write."""

    turn: Turn
    store: Store
    counters: Counters
    clock: Clock


_PUBREL: Final = PacketType.PUBREL
_SUCCESS: Final = ReasonCode.SUCCESS


class ClientWriter(ClientConnection):
    """The half of a connection that writes."""

    __slots__ = ("output", "version", "_out", "_out_bytes")

    def __init__(self, output: Output, allowance: Allowance) -> None:
        super().__init__(allowance)
        self.output = output
        self.version: ProtocolVersion | None = None
        #: Most connections have nothing to write, and an empty list costs 72 bytes.
        self._out: list[bytes] | None = None
        self._out_bytes = 0

    def send(self, data: bytes) -> None:
        """Add bytes to this turn's write."""
        if self._out:
            self._out.append(data)
        else:
            self._out = [data]
            self.output.turn.mark_dirty(self)
        self._out_bytes += len(data)
        if self._out_bytes > EAGER_BYTES:
            self.write_out()

    def write_out(self) -> None:
        """Write what gathered; once per turn."""
        out = self._out
        if not out:
            return
        self._out = None
        self._out_bytes = 0
        ctx = self.ctx
        if ctx is not None:
            recorded = ctx.channel.recorded
            if recorded is not None:
                recorded.sent(out)
            ctx.send(out)

    # Packets.

    def send_packet(self, packet: Packet) -> None:
        """Add a packet to this turn's write; an error when it is larger than the client takes."""
        data = self.written_to_fit(packet)
        self.output.counters.others_sent[packet.type.name] += 1
        self.send(data)

    def written_to_fit(self, packet: Packet) -> bytes:
        """A packet that the client waits for; without it there is no way on but to close [MQTT-3.1.2-24]."""
        assert self.version is not None
        data = fitting(packet, self.version, self.max_packet_size)
        if data is None:
            raise Refused(f"{packet.type.name} is larger than the client takes", ReasonCode.PACKET_TOO_LARGE)
        return data

    def written(self, type: PacketType, ids: list[int], reason: ReasonCode) -> bytes:
        """Acknowledgements, counted."""
        assert self.version is not None
        self.output.counters.others_sent[type._name_] += len(ids)  # a tenth of what ``name`` costs
        return encode_acks(type, ids, self.version, reason)

    def send_pubrel(self, ids: list[int]) -> None:
        """PUBREL for exchanges whose PUBREC is safely noted."""
        self.send(self.written(_PUBREL, ids, _SUCCESS))

    # The session's messages.

    def aliases(self, count: int) -> bool:
        """Whether so many messages are sent with an alias for their topic: one by itself, to a client that takes them.
        What goes in bulk is written once for all who get it.
        """
        return count == 1 and self.outbound_aliases is not None

    def send_qos0(self, publication: Publication, retain: bool, identifiers: tuple[int, ...]) -> None:
        """A run in a form of its own."""
        if self.max_packet_size or self.aliases(publication.count):
            self._send_one_by_one(publication, retain, identifiers)
            return
        self.send(publication.at_qos0(self.five, retain, identifiers))
        self._count_delivered(publication.count)

    def _send_one_by_one(self, publication: Publication, retain: bool, identifiers: tuple[int, ...]) -> None:
        """For clients with a Maximum Packet Size or with topic aliases."""
        sent, waited_until = 0, publication.waited_until
        wall = publication.wall if waited_until is None else waited_until
        for message in publication.messages:
            if self._send_at(wall, Delivery(message, 0, retain=retain, identifiers=identifiers)):
                sent += 1
        if publication.count > sent and self.session is not None:
            count = publication.count - sent
            self.session.drop(self.output.counters, Drop.TOO_LARGE, count, publication.topic, publication.publisher)
        self._count_delivered(sent)

    def _count_delivered(self, count: int) -> None:
        self.output.counters.messages_delivered += count
        if self.session is not None:
            self.session.delivered += count

    def send_now(self, publication: Publication, qos: int, retain: bool, identifiers: tuple[int, ...]) -> int:
        """As much of a QoS 1 or 2 run as window and outbox take, for a session that keeps nothing."""
        session = self.session
        if session is None or not self.writable or session.sending or self.max_packet_size:
            return 0
        if self.aliases(publication.count):
            return 0
        outbound = session.outbound
        count = min(publication.count, outbound.room)
        if count <= 0:
            return 0
        ids = outbound.reserve(count)
        outbound.mark(ids, qos)
        self.send(publication.with_ids(self.five, qos, retain, identifiers, ids))
        return count

    def send_delivery(self, delivery: Delivery) -> bool:
        """One message; False when it is larger than the client takes."""
        return self._send_at(self.output.clock.wall(), delivery)

    def _send_at(self, wall: float, delivery: Delivery) -> bool:
        """One that has waited until then."""
        message = delivery.message
        topic = message.topic
        properties = b""
        if self.five:
            expiry = None if message.expires_at is None else seconds_left(message.expires_at, wall)
            properties = hop_properties(message.properties, expiry=expiry, identifiers=delivery.identifiers)
        data = self._publish(topic, delivery, properties)
        if self.max_packet_size and len(data) > self.max_packet_size:
            return False
        if self.outbound_aliases is not None:
            data = self._aliased(data, delivery, properties)
        self.send(data)
        return True

    def send_piece(self, piece: Piece, *, dup: bool) -> list[int]:
        """Messages of a flight; returns the packet ids of those that are larger than the client takes."""
        flight, start = piece.flight, piece.offset - piece.base
        publication: Publication = piece.publication
        wall = self.output.clock.wall() if publication.run.raw_properties else None
        if not self.max_packet_size and not self.aliases(len(piece)):
            self.send(
                publication.with_ids(
                    self.five, flight.qos, flight.retain, flight.identifiers, piece.ids, start, dup=dup, wall=wall
                )
            )
            return []
        too_large = []
        for packet_id, message in zip(piece.ids, publication.messages[start : start + len(piece)], strict=True):
            delivery = Delivery(message, flight.qos, retain=flight.retain, identifiers=flight.identifiers)
            delivery.packet_id, delivery.sent = packet_id, dup
            if not self.send_delivery(delivery):
                too_large.append(packet_id)
        return too_large

    def _aliased(self, data: bytes, delivery: Delivery, properties: bytes) -> bytes:
        """The same packet with an alias for its topic, unless that is long, or makes it too large for the client."""
        aliases, topic, limit = self.outbound_aliases, delivery.message.topic, self.max_packet_size
        assert aliases is not None
        if len(topic) > LONGEST_ALIASED:
            return data
        if limit and len(data) + ALIAS_COST > limit and not aliases.knows(topic):
            return data
        alias, known = aliases.assign(topic)
        aliased = self._publish(b"" if known else topic, delivery, hop_properties(properties, alias=alias))
        return data if limit and len(aliased) > limit else aliased

    def _publish(self, topic: bytes, delivery: Delivery, properties: bytes) -> bytes:
        return encode_publish(
            topic,
            delivery.message.payload,
            five=self.five,
            qos=delivery.qos,
            retain=delivery.retain,
            dup=delivery.sent and delivery.qos > 0,
            packet_id=delivery.packet_id,
            properties=properties,
        )
