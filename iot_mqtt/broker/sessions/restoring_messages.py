"""The messages that sessions have: queued, under way, and QoS 2 exchanges that are not over."""

from __future__ import annotations

from dataclasses import dataclass

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.sending import repeating
from iot_mqtt.broker.sessions.restoring import Load
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.store import Store, StoredDelivery, StoredFlight
from iot_mqtt.session import RELEASED, Delivery, Flight, Segment
from iot_mqtt.topics import parse_shared


@dataclass(frozen=True, slots=True, eq=False)
class MessageRestoring:
    """Each session's, in its order."""

    sessions: Sessions
    groups: SharedGroups
    store: Store
    counters: Counters

    def join_groups(self, load: Load) -> None:
        """Sessions that come while the node serves are members from now on."""
        for session in load.sessions:
            for filter in session.subscriptions:
                if parse_shared(filter) is not None:
                    self.groups.joined(session, filter)

    async def outbound(self, load: Load) -> None:
        """Queued and in-flight messages, and exchanges waiting for PUBCOMP."""
        source, store = load.source, self.store
        numbered: dict[tuple[str, int], int] = {}
        async for client_id, packet_id, sequence in source.dups():
            if self.sessions.get_kept(client_id) is not None:
                numbered[client_id, sequence] = packet_id
            elif load.wanted(client_id):
                store.remove_dup(client_id, packet_id)
        async for client_id, stored in source.deliveries():
            session = self.sessions.get_kept(client_id)
            if session is not None:
                _restore_delivery(session, stored, numbered.pop((client_id, stored.sequence), 0))
            elif load.wanted(client_id):
                store.remove_delivery(client_id, stored.sequence)
        for (client_id, _), packet_id in numbered.items():
            store.remove_dup(client_id, packet_id)
        await self._segments(load)
        released = [entry async for entry in source.pubrels()]
        for client_id, packet_id, order in sorted(released, key=lambda entry: entry[2]):
            session = self.sessions.get_kept(client_id)
            if session is not None:
                session.sequence = max(session.sequence, order)
                session.outbound.restore(packet_id, RELEASED)
            elif load.wanted(client_id):
                store.remove_pubrel(client_id, packet_id)
        for session in load.sessions:
            self._count(session)
            repeating.begin(session)

    def _count(self, session: KeptSession) -> None:
        """What waits for it, by whether who had it before has said how much that is."""
        waiting, counters = session.waiting, self.counters
        counters.messages_restored += waiting
        if session.counted is None:
            counters.messages_found += waiting
        else:
            counters.messages_taken_over += waiting

    async def _segments(self, load: Load) -> None:
        async for client_id, number, flights in load.source.segments():
            session = self.sessions.get_kept(client_id)
            if session is None:
                if load.wanted(client_id):
                    self.store.remove_segment(client_id, number)
                continue
            session.sequence = max(session.sequence, number)
            segment = Segment(number)
            segment.stored = True
            for stored in flights:
                self._restore_flight(session, segment, stored)

    def _restore_flight(self, session: KeptSession, segment: Segment, stored: StoredFlight) -> None:
        """Messages under way when the node stopped; the pieces are what was not acknowledged."""
        for offset, ids in stored.pieces:
            flight = Flight(
                session,
                stored.reference.part(offset, offset + len(ids)),
                ids,
                stored.qos,
                retain=stored.retain,
                identifiers=stored.identifiers,
            )
            # Whether they had left nobody knows.
            flight.sent = len(ids)
            flight.segment = segment
            segment.flights.append(flight)
            for packet_id in ids:
                # Nothing is under way of what has arrived: that alone is remembered.
                if packet_id:
                    session.outbound.restore(packet_id, flight)
            if stored.origin.startswith("$replay/"):
                flight.origin = (session.replays or {}).get(stored.origin)
            elif stored.origin:
                self.groups.restore_flight(stored.origin, flight, over=not ids[0])

    async def received(self, load: Load) -> None:
        """QoS 2 packet ids of the clients that they have not released."""
        async for client_id, packet_id in load.source.received():
            session = self.sessions.get_kept(client_id)
            if session is not None:
                session.inbound.inherit(packet_id)
            elif load.wanted(client_id):
                self.store.remove_received(client_id, packet_id)


def _restore_delivery(session: KeptSession, stored: StoredDelivery, numbered: int) -> None:
    delivery = Delivery(
        stored.message,
        stored.qos,
        retain=stored.retain,
        identifiers=stored.identifiers,
        sequence=stored.sequence,
    )
    session.sequence = max(session.sequence, stored.sequence)
    packet_id = numbered or stored.packet_id
    if packet_id:
        delivery.dup_stored = bool(numbered)
        session.outbound.restore(packet_id, delivery)
    else:
        session.queue.append(delivery)
