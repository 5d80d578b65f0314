"""What the store kept, back in memory before any listener accepts.

Order matters: sessions first, then what hangs on them; routes are complete when this returns. Records
without their session are left-overs of a session that ended while the node was killed: they are removed.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.cursors import SessionCursor, is_plain
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.store import StoredDelivery, StoredFlight, StoredReplay, StoredSession
from iot_mqtt.session import RELEASED, Delivery, Flight, Segment
from iot_mqtt.topics import Routes, parse_replay
from iot_mqtt.values import NEVER

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.session import Session
    from iot_mqtt.broker.sessions import Sessions

log = logging.getLogger(__name__)

__all__ = ["load"]


async def load(broker: Broker) -> None:
    """Fill sessions, routes, retained messages and wills from the store."""
    # Behind the log, which is open: pages first, then who has taken what of them. Any first part of a batch is safe.
    broker.store.stagers += (broker.progress, broker.groups, broker.budget)
    await _load_sessions(broker)
    await _load_subscriptions(broker, await _load_progress(broker))
    await _load_groups(broker)
    await _load_outbound(broker)
    broker.groups.settle()
    await _load_received(broker)
    async for message in broker.store.retained():
        broker.retention.restore(message)
    broker.retention.index.settle()
    _start_clocks(broker)
    await _load_wills(broker)
    broker.plan_turn()
    log.info("state loaded", extra={"sessions": len(broker.sessions), "retained": broker.retention.index.count})


async def _load_sessions(broker: Broker) -> None:
    async for stored in broker.store.sessions():
        _restore(broker.sessions, stored)


def _restore(sessions: Sessions, stored: StoredSession) -> None:
    session = sessions.create(stored.client_id, version=stored.version, created_at=stored.created_at)
    session.durable = True
    session.expiry_interval = stored.expiry_interval
    session.disconnected_at = stored.disconnected_at
    session.username = stored.username
    session.epoch = stored.epoch
    session.cursor = SessionCursor(session, 0, live=False)


async def _load_progress(broker: Broker) -> dict[tuple[str, str], StoredReplay]:
    """How far each session has read; returns how far their replays have, by client id and filter."""
    replays: dict[tuple[str, str], StoredReplay] = {}
    async for client_id, progress in broker.store.progress():
        session = broker.sessions.get(client_id)
        if session is None or session.cursor is None:
            broker.store.remove_progress(client_id)
            continue
        cursor = session.cursor
        cursor.position = progress.position
        cursor.past = list(progress.past) or None
        if progress.position >= broker.log.end:
            cursor.backlog = 0
        replays.update(((client_id, replay.filter), replay) for replay in progress.replays)
    return replays


async def _load_subscriptions(broker: Broker, replays: dict[tuple[str, str], StoredReplay]) -> None:
    routes: Routes[Session] = broker.routes
    async for client_id, subscription, since in broker.store.subscriptions():
        session = broker.sessions.get(client_id)
        if session is None:
            broker.store.remove_subscription(client_id, subscription.filter)
            continue
        filter = subscription.filter
        session.subscriptions[filter] = subscription
        replay = parse_replay(filter)
        if replay is not None:
            stored = replays.get((client_id, filter), StoredReplay(filter, since))
            cursor = broker.subscriptions.enter_replay(session, subscription, replay[1], stored.position)
            if stored.sought is not None:
                cursor.begin(broker, stored.sought)
            continue
        routes.subscribe(session, subscription)
        if session.cursor is not None and is_plain(filter):
            session.cursor.since[filter] = since


async def _load_outbound(broker: Broker) -> None:
    """Queued and in-flight messages, each session's in its order, and exchanges waiting for PUBCOMP."""
    numbered: dict[tuple[str, int], int] = {}
    async for client_id, packet_id, sequence in broker.store.dups():
        if broker.sessions.get(client_id) is None:
            broker.store.remove_dup(client_id, packet_id)
        else:
            numbered[client_id, sequence] = packet_id
    async for client_id, stored in broker.store.deliveries():
        session = broker.sessions.get(client_id)
        if session is None:
            broker.store.remove_delivery(client_id, stored.sequence)
            continue
        _restore_delivery(session, stored, numbered.pop((client_id, stored.sequence), 0))
    for (client_id, _), packet_id in numbered.items():
        broker.store.remove_dup(client_id, packet_id)
    await _load_segments(broker)
    released = [entry async for entry in broker.store.pubrels()]
    for client_id, packet_id, order in sorted(released, key=lambda entry: entry[2]):
        session = broker.sessions.get(client_id)
        if session is None:
            broker.store.remove_pubrel(client_id, packet_id)
            continue
        session.sequence = max(session.sequence, order)
        session.outbound.restore(packet_id, RELEASED)


async def _load_segments(broker: Broker) -> None:
    async for client_id, number, flights in broker.store.segments():
        session = broker.sessions.get(client_id)
        if session is None:
            broker.store.remove_segment(client_id, number)
            continue
        session.sequence = max(session.sequence, number)
        segment = Segment(number)
        segment.stored = True
        for stored in flights:
            _restore_flight(broker, session, segment, stored)


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
            session.outbound.restore(packet_id, flight)
        if stored.origin.startswith("$replay/"):
            flight.origin = (session.replays or {}).get(stored.origin)
        elif stored.origin:
            broker.groups.restore_flight(stored.origin, flight)


async def _load_groups(broker: Broker) -> None:
    """Groups with what none of their members had confirmed."""
    async for filter, stored in broker.store.groups():
        if not broker.groups.restore(filter, stored):
            broker.store.remove_group(filter)
    async for filter, number, references in broker.store.group_segments():
        if not broker.groups.restore_share(filter, number, references):
            broker.store.remove_group_segment(filter, number)


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


async def _load_received(broker: Broker) -> None:
    async for client_id, packet_id in broker.store.received():
        session = broker.sessions.get(client_id)
        if session is None:
            broker.store.remove_received(client_id, packet_id)
        else:
            session.inbound.received.add(packet_id)


def _start_clocks(broker: Broker) -> None:
    """Whoever was connected when the node stopped is disconnected since now at the latest."""
    now = broker.clock.wall()
    for session in list(broker.sessions):
        if session.disconnected_at is None:
            session.disconnected_at = now
            session.last_disconnect = "node_restarted"
            broker.store.save_session(session.stored())
        if session.expiry_interval < NEVER:
            broker.sessions.expire_after(session, session.disconnected_at + session.expiry_interval - now)


async def _load_wills(broker: Broker) -> None:
    """Wills of connections that the stop cut are due, at once or after their delay."""
    now = broker.clock.wall()
    async for client_id, stored in broker.store.wills():
        session = broker.sessions.get(client_id)
        if session is None:
            # Its session ended with the connection: published once the node runs, delay or not.
            session = broker.sessions.create(client_id, version=4, created_at=now)
            session.will = stored.will
            broker.call_soon(partial(broker.sessions.end, session, ReasonCode.SUCCESS))
            continue
        session.will = stored.will
        due_at = stored.due_at if stored.due_at is not None else now + stored.will.delay
        broker.wills.publish_after(session, due_at - now)
