"""What the store kept, back in memory: everything before any listener accepts, or one session when its client comes.

Order matters: a session first, then what hangs on it. Records without their session are left-overs of a session that
ended while its node was killed: they are removed.

At the start of a node the store is read straight through. On a node that serves already a session must appear whole,
because what is published meanwhile is for it: its records are gathered first and then restored in one go.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.driving import breath
from iot_mqtt.broker.readers.cursors import SessionCursor, is_plain
from iot_mqtt.broker.readers.elsewhere import Unfollowed, follow_all
from iot_mqtt.broker.sending import repeating
from iot_mqtt.broker.sending.repeating import Doubt
from iot_mqtt.broker.sessions.gathering import Records, Source, Wanted, gather
from iot_mqtt.broker.shared_groups import home_of
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.endings import NODE_RESTARTED
from iot_mqtt.ports.store import StoredDelivery, StoredFlight, StoredReplay, StoredSession
from iot_mqtt.session import RELEASED, Delivery, Flight, Segment
from iot_mqtt.topics import parse_replay, parse_shared
from iot_mqtt.values import NEVER, Subscription

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.session import Session

log = logging.getLogger(__name__)

#: Sessions restored before others get their turn.
SESSIONS_A_TURN = 20

__all__ = ["load", "load_session"]


async def load(broker: Broker, wanted: Wanted | None = None) -> None:
    """Fill sessions, routes, retained messages and wills from the store.

    ``wanted``: the other clients are somebody else's, and nothing of theirs is touched. Called again, it adds the
    sessions of the clients that are wanted now, those that are in memory excepted.
    """
    if broker.loaded:
        await _adopt(broker, wanted or _everybody)
        return
    broker.take_part()
    loading = _Loading(broker, broker.store, wanted or _everybody)
    await loading.sessions()
    owned = wanted is None or broker.clustering is None or wanted(home_of(broker.log.writer))
    if owned:
        await broker.groups.load(keep=wanted is not None and broker.clustering is None)
    await loading.outbound()
    broker.groups.settle(owned=owned)
    await loading.received()
    async for message, version in broker.store.retained():
        broker.retention.restore(message, version)
    broker.retention.index.settle()
    loading.start_clocks()
    await loading.wills()
    broker.turn.plan()
    log.info("state loaded", extra={"sessions": len(broker.sessions), "retained": broker.retention.index.count})


async def load_session(broker: Broker, client_id: str, *, inherited: bool = False) -> Session | None:
    """One session with everything that is kept for it; None if there is none. What it left without a session (a will,
    records of an end that was cut short) is dealt with all the same.
    """
    if broker.sessions.get(client_id) is None:
        gathered = await gather(broker.store, client_id, client_id.__eq__)
        if broker.sessions.get(client_id) is None and client_id in gathered:
            await _restore(broker, gathered[client_id], inherited=inherited)
    return broker.sessions.get(client_id)


async def _adopt(broker: Broker, wanted: Wanted) -> None:
    here = broker.sessions
    gathered = await gather(broker.store, None, lambda client_id: here.get(client_id) is None and wanted(client_id))
    for count, (client_id, records) in enumerate(gathered.items(), 1):
        # It may have come by itself meanwhile.
        if here.get(client_id) is None:
            await _restore(broker, records, inherited=True)
        if count % SESSIONS_A_TURN == 0:
            await breath(broker.turn.call_soon)
    broker.census.begin()
    log.info("sessions adopted", extra={"sessions": len(gathered)})


def _everybody(_: str) -> bool:
    return True


async def _restore(broker: Broker, records: Records, *, inherited: bool) -> None:
    """One session from records that are at hand: nothing is waited for, so nobody sees half of it."""
    loading = _Loading(broker, records, _everybody)
    await loading.sessions()
    for session in loading.loaded:
        for filter in session.subscriptions:
            if parse_shared(filter) is not None:
                broker.groups.joined(session, filter)
    await loading.outbound()
    await loading.received()
    loading.start_clocks()
    await loading.wills()
    for session in loading.loaded:
        broker.accompaniment.by.session_came(session.client_id, inherited=inherited)
    broker.turn.plan()


class _Loading:
    """Restores what a source has; the steps in the order in which they stand."""

    def __init__(self, broker: Broker, source: Source, wanted: Wanted) -> None:
        self._broker = broker
        self._source = source
        self._wanted = wanted
        self.loaded: list[Session] = []
        self._replays: dict[tuple[str, str], StoredReplay] = {}

    async def sessions(self) -> None:
        """Sessions with their subscriptions, and how far they have read the logs."""
        async for stored in self._source.sessions():
            if self._wanted(stored.client_id):
                self._restore(stored)
        await self._progress()
        await self._subscriptions()
        for session in self.loaded:
            self._broker.sessions.loading.discard(session)
            follow_all(self._broker.reading, session, self._broker.logs.others.values())

    def _restore(self, stored: StoredSession) -> None:
        broker = self._broker
        session = broker.sessions.create(stored.client_id, version=stored.version, created_at=stored.created_at)
        session.durable = True
        session.expiry_interval = stored.expiry_interval
        session.disconnected_at = stored.disconnected_at
        session.username, session.owner = stored.username, stored.owner
        session.epoch = stored.epoch
        session.cursor = SessionCursor(broker.reading, session, broker.log, 0, live=False)
        broker.sessions.loading.add(session)
        self.loaded.append(session)

    async def _progress(self) -> None:
        broker = self._broker
        async for client_id, progress in self._source.progress():
            session = broker.sessions.get(client_id)
            if session is None or session.cursor is None:
                if self._wanted(client_id):
                    broker.store.remove_progress(client_id)
                continue
            for place in progress.places():
                if place.writer == broker.log.writer:
                    session.cursor.position = place.position
                    session.cursor.past = list(place.past) or None
                    if place.position >= broker.log.end:
                        session.cursor.backlog = 0
                elif place.position or place.past:
                    _unfollowed(session)[place.writer] = Unfollowed(place.position, place.past)
            session.last_id_kept = progress.last_id
            if progress.last_id is not None:
                session.in_doubt = True
                session.cursor.doubt = Doubt(broker.log.end)
            self._replays.update(((client_id, replay.filter), replay) for replay in progress.replays)

    async def _subscriptions(self) -> None:
        broker = self._broker
        own = broker.log.writer
        async for client_id, subscription, since in self._source.subscriptions():
            session = broker.sessions.get(client_id)
            filter = subscription.filter
            if session is None:
                if self._wanted(client_id):
                    broker.store.remove_subscription(client_id, filter)
                continue
            session.subscriptions[filter] = subscription
            if parse_replay(filter) is not None:
                self._replay(session, subscription, since)
                continue
            broker.routes.subscribe(session, subscription)
            if session.cursor is not None and is_plain(filter):
                session.cursor.since[filter] = since.get(own, 0)
                for writer, position in since.items():
                    if writer != own:
                        _unfollowed(session).setdefault(writer, Unfollowed()).since[filter] = position

    def _replay(self, session: Session, subscription: Subscription, since: Mapping[int, int]) -> None:
        broker, filter = self._broker, subscription.filter
        own = broker.log.writer
        stored = self._replays.get((session.client_id, filter))
        if stored is None:
            stored = StoredReplay(filter, since.get(own, 0), None, own)
        replay = parse_replay(filter)
        assert replay is not None
        # A place in another node's log is of no use here: it goes on with what is published from now on.
        position = stored.position if stored.writer == own else broker.log.end
        cursor = broker.subscriptions.enter_replay(session, subscription, replay[1], position)
        if stored.sought is not None:
            cursor.begin(stored.sought)

    async def outbound(self) -> None:
        """Queued and in-flight messages, each session's in its order, and exchanges waiting for PUBCOMP."""
        broker, source = self._broker, self._source
        numbered: dict[tuple[str, int], int] = {}
        async for client_id, packet_id, sequence in source.dups():
            if broker.sessions.get(client_id) is not None:
                numbered[client_id, sequence] = packet_id
            elif self._wanted(client_id):
                broker.store.remove_dup(client_id, packet_id)
        async for client_id, stored in source.deliveries():
            session = broker.sessions.get(client_id)
            if session is not None:
                _restore_delivery(session, stored, numbered.pop((client_id, stored.sequence), 0))
            elif self._wanted(client_id):
                broker.store.remove_delivery(client_id, stored.sequence)
        for (client_id, _), packet_id in numbered.items():
            broker.store.remove_dup(client_id, packet_id)
        await self._segments()
        released = [entry async for entry in source.pubrels()]
        for client_id, packet_id, order in sorted(released, key=lambda entry: entry[2]):
            session = broker.sessions.get(client_id)
            if session is not None:
                session.sequence = max(session.sequence, order)
                session.outbound.restore(packet_id, RELEASED)
            elif self._wanted(client_id):
                broker.store.remove_pubrel(client_id, packet_id)
        for session in self.loaded:
            broker.counters.messages_restored += session.waiting
            repeating.begin(session)

    async def _segments(self) -> None:
        broker = self._broker
        async for client_id, number, flights in self._source.segments():
            session = broker.sessions.get(client_id)
            if session is None:
                if self._wanted(client_id):
                    broker.store.remove_segment(client_id, number)
                continue
            session.sequence = max(session.sequence, number)
            segment = Segment(number)
            segment.stored = True
            for stored in flights:
                _restore_flight(broker, session, segment, stored)

    async def received(self) -> None:
        """QoS 2 packet ids of the clients that they have not released."""
        broker = self._broker
        async for client_id, packet_id in self._source.received():
            session = broker.sessions.get(client_id)
            if session is not None:
                session.inbound.fresh((packet_id,))
            elif self._wanted(client_id):
                broker.store.remove_received(client_id, packet_id)

    def start_clocks(self) -> None:
        """Whoever was connected when the node stopped is disconnected since now at the latest."""
        broker = self._broker
        now = broker.clock.wall()
        for session in self.loaded:
            if session.disconnected_at is None:
                session.disconnected_at = now
                session.last_disconnect = NODE_RESTARTED
                broker.store.save_session(session.stored())
            if session.expiry_interval < NEVER:
                broker.sessions.expire_after(session, session.disconnected_at + session.expiry_interval - now)

    async def wills(self) -> None:
        """Wills of connections that the stop cut are due, at once or after their delay."""
        broker = self._broker
        now = broker.clock.wall()
        async for client_id, stored in self._source.wills():
            if not self._wanted(client_id):
                continue
            session = broker.sessions.get(client_id)
            if session is None:
                # Its session ended with the connection: published once the node runs, delay or not.
                session = broker.sessions.create(client_id, version=4, created_at=now)
                session.will, session.owner = stored.will, stored.owner
                end = partial(broker.sessions.end, session, ReasonCode.SUCCESS)
                if isinstance(self._source, Records):
                    # It does: the client may be about to open a session of its own.
                    end()
                else:
                    broker.turn.call_soon(end)
                continue
            session.will = stored.will
            due_at = stored.due_at if stored.due_at is not None else now + stored.will.delay
            broker.wills.publish_after(session, due_at - now)


def _unfollowed(session: Session) -> dict[int, Unfollowed]:
    if session.unfollowed is None:
        session.unfollowed = {}
    return session.unfollowed


def _restore_flight(broker: Broker, session: Session, segment: Segment, stored: StoredFlight) -> None:
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
            broker.groups.restore_flight(stored.origin, flight, over=not ids[0])


def _restore_delivery(session: Session, stored: StoredDelivery, numbered: int) -> None:
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
