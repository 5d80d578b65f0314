"""Sessions: opened, taken over, left behind, resumed, ended."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.publication import publication_of
from iot_mqtt.broker.readers.cursors import SessionCursor, is_plain
from iot_mqtt.broker.readers.elsewhere import follow
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.owners import adopt, owner_of
from iot_mqtt.codec import Connect
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.endings import SESSION_EXPIRED
from iot_mqtt.session import SENT_QOS1, SENT_QOS2, Delivery, Flight, Outbound
from iot_mqtt.topics import SharedGroup, parse_shared
from iot_mqtt.values import ProtocolVersion

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.connections.connection import Connection
    from iot_mqtt.ports.log import Followed


class Sessions:
    """Every session of this node by client id."""

    __slots__ = ("_broker", "_by_id", "loading", "opening")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._by_id: dict[str, Session] = {}
        #: The client whose session is being opened: one that ends meanwhile is followed by another at once.
        self.opening: str | None = None
        #: Of which it is not known yet how far they have read.
        self.loading: set[Session] = set()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._by_id.values())

    def get(self, client_id: str) -> Session | None:
        """The session of a client, if it has one."""
        return self._by_id.get(client_id)

    def create(self, client_id: str, *, version: int, created_at: float) -> Session:
        """A new, empty session."""
        settings = self._broker.settings
        session = Session(
            client_id,
            version=version,
            created_at=created_at,
            limits=(settings.max_queued_messages, settings.max_queued_bytes),
            receive_maximum=settings.receive_maximum,
        )
        self._by_id[client_id] = session
        return session

    def open(
        self, connection: Connection, connect: Connect, client_id: str, *, anew: bool = False
    ) -> tuple[Session, bool]:
        """The session that this CONNECT gets, and whether it was there before; ``anew``: it is to begin with nothing,
        whatever the client asked for.
        """
        session = self._by_id.get(client_id)
        if session is not None:
            session = self._taken_over(session, anew=anew or connect.clean_start)
        present = session is not None
        if session is None:
            session = self.create(client_id, version=int(connect.version), created_at=connection.connected_at)
        self._attach(session, connection, connect)
        return session, present

    def _taken_over(self, session: Session, *, anew: bool) -> Session | None:
        """The session that is there, without its connection; None if it had to end."""
        self.opening = session.client_id
        try:
            if session.connection is not None:
                # [MQTT-3.1.4-3] the newcomer wins.
                session.connection.disconnect(ReasonCode.SESSION_TAKEN_OVER, "another connection has this client id")
            # Closing may have ended it, when it was to end with its connection.
            if anew and not session.ended:  # [MQTT-3.1.2-4]
                self.end(session, ReasonCode.SUCCESS)
        finally:
            self.opening = None
        return self._by_id.get(session.client_id)

    def _attach(self, session: Session, connection: Connection, connect: Connect) -> None:
        broker = self._broker
        session.connection = connection
        adopt(session, owner_of(connection))
        session.version = int(connect.version)
        session.username = connect.username
        session.disconnected_at = None
        session.epoch += 1
        if session.expiry_timer is not None:
            session.expiry_timer.cancel()
            session.expiry_timer = None
        session.expiry_interval = self.interval(connect)
        was_durable = session.durable
        session.durable = session.expiry_interval > 0 and connection.durable_sessions
        if session.durable:
            broker.store.save_session(session.stored())
            if not was_durable:
                self._keep(session)
        elif was_durable:
            # It was kept and is now to end with this connection; a crash must not bring it back.
            self._forget(session)
        broker.changed(session)

    def _keep(self, session: Session) -> None:
        """It becomes durable: from now on it reads the log, and what it has is stored."""
        broker, end = self._broker, self._broker.log.end
        if session.cursor is None:
            session.cursor = SessionCursor(broker.reading, session, broker.log, end, live=True)
        for writer, reader in broker.logs.others.items():
            if session.elsewhere is None or writer not in session.elsewhere:
                cursor = follow(broker.reading, session, reader, reader.end)
                broker.turn.call_soon(cursor.read_on)
        for subscription in session.subscriptions.values():
            filter = subscription.filter
            if is_plain(filter):
                session.cursor.since.setdefault(filter, end)
            elif parse_shared(filter) is not None:
                broker.groups.joined(session, filter)
            since = session.since(filter) or {broker.log.writer: end}
            broker.store.save_subscription(session.client_id, subscription, since)
        for entry in (*session.outbound.entries.values(), *session.queue):
            if isinstance(entry, Delivery) and not entry.sequence:
                broker.outflow.store(session, entry)
        broker.progress.moved(session)

    def interval(self, connect: Connect) -> int:
        """The expiry interval that this CONNECT gets, within what is granted here."""
        longest = self._broker.settings.session_expiry_interval
        if connect.version is ProtocolVersion.V5:
            return min(connect.properties.session_expiry_interval or 0, longest)
        return 0 if connect.clean_start else longest

    def set_expiry(self, session: Session, interval: int) -> None:
        """DISCONNECT changed the expiry interval."""
        session.expiry_interval = min(interval, self._broker.settings.session_expiry_interval)

    def detach(self, session: Session, connection: Connection, reason: str) -> None:
        """The connection is gone: keep the session for its interval, or end it."""
        if session.connection is not connection:
            return
        broker = self._broker
        session.connection = None
        session.sending = None
        session.unsent = 0
        session.last_disconnect = reason
        session.disconnected_at = broker.clock.wall()
        broker.changed(session)
        if session.expiry_interval == 0:  # [MQTT-3.1.2-23]
            self.end(session, ReasonCode.SUCCESS)
            return
        broker.wills.connection_lost(session)
        self._fall_behind(session)
        broker.groups.member_gone(session, ended=False)
        if session.durable:
            broker.store.save_session(session.stored())
            broker.progress.moved(session)
        if not session.never_expires:
            self.expire_after(session, session.expiry_interval)

    def _fall_behind(self, session: Session) -> None:
        """Nobody is there to take messages; what comes now is read later."""
        for cursor in session.cursors():
            if cursor.live:
                cursor.fall_behind(cursor.log.end, 0)
        for replay in (session.replays or {}).values():
            self._broker.replay_turns.over(replay)
        if session.cursor is not None and session.cursor.backlog is None:
            self._broker.census.begin()

    def expire_after(self, session: Session, seconds: float) -> None:
        """End the session unless it is connected again by then."""
        session.expiry_timer = self._broker.wheel.schedule(max(0.0, seconds), lambda: self._expire(session))

    def _expire(self, session: Session) -> None:
        session.expiry_timer = None
        if session.connection is None and not session.ended:
            self._broker.attempts.ended(session.client_id, session.username, SESSION_EXPIRED)
            self.end(session, ReasonCode.SUCCESS)
            self._broker.turn.plan()

    def end(self, session: Session, reason: ReasonCode) -> None:
        """Forget everything of a session; its will goes out now at the latest [MQTT-3.1.3-9]."""
        if session.ended:
            return
        session.ended = True
        broker = self._broker
        broker.changed(session)
        if session.connection is not None:
            session.connection.disconnect(reason)
            session.connection = None
        if session.expiry_timer is not None:
            session.expiry_timer.cancel()
        broker.groups.member_gone(session, ended=True)
        broker.subscriptions.drop_all(session)
        if self._by_id.get(session.client_id) is session:
            del self._by_id[session.client_id]
        if session.durable:
            self._forget(session)
        broker.wills.session_ended(session)
        broker.groups.forget(session)
        self._pass_on(session)
        broker.accompaniment.by.session_ended(session.client_id)
        for cursor in session.cursors():
            cursor.closed = True
        session.cursor = session.elsewhere = session.unfollowed = session.beginning = None
        session.replays = None

    def hand_over(self, session: Session) -> None:
        """Forget a session in memory, and leave every record: another node goes on with it (``load_session``).

        Its connection is gone. What has changed of it is staged with the next batch: the other node may begin once
        the store is settled.
        """
        broker = self._broker
        session.ended = True
        owed = sum(cursor.owed for cursor in session.cursors())
        broker.counters.messages_handed_over += session.waiting + owed
        for timer in (session.expiry_timer, session.will_timer):
            if timer is not None:
                timer.cancel()
        session.expiry_timer = session.will_timer = None
        # What it remembers of groups elsewhere is forgotten with it.
        broker.progress.write_down(session)
        broker.subscriptions.let_go(session)
        for cursor in session.cursors():
            cursor.closed = True
        session.readers = None
        if self._by_id.get(session.client_id) is session:
            del self._by_id[session.client_id]
        broker.accompaniment.by.session_left(session.client_id)
        broker.turn.plan()

    def follow(self, reader: Followed) -> None:
        """The log of another node can be read from now on: every durable session does."""
        broker = self._broker
        for session in self._by_id.values():
            if session.cursor is not None and session.durable and session not in self.loading:
                follow(broker.reading, session, reader)
        broker.turn.call_soon(partial(broker.elsewhere.read_on, reader.writer))

    def _forget(self, session: Session) -> None:
        """Remove every record, one by one: the store keeps no index of them."""
        store, client_id = self._broker.store, session.client_id
        store.remove_session(client_id)
        for filter in session.subscriptions:
            store.remove_subscription(client_id, filter)
        self._broker.progress.forget(session)
        session.unfollowed = None
        for packet_id, entry in session.outbound.entries.items():
            if isinstance(entry, Delivery):
                self._broker.outflow.forget(session, entry)
                entry.sequence = 0
            elif not isinstance(entry, Flight):
                store.remove_pubrel(client_id, packet_id)
        for delivery in session.queue:
            self._broker.outflow.forget(session, delivery)
            delivery.sequence = 0
        for packet_id in session.inbound.received:
            store.remove_received(client_id, packet_id)

    def _pass_on(self, session: Session) -> None:
        """What it had from shared subscriptions goes to other members; the rest is dropped and counted."""
        broker = self._broker
        if not (session.outbound or session.queue or session.cursor or session.elsewhere or session.replays):
            session.outbound.limit = 0
            return
        now = broker.clock.wall()
        entries = session.outbound.entries.values()
        left = [entry for entry in entries if isinstance(entry, Delivery)]
        # Sent, kept by nobody, and not confirmed.
        lost = sum(1 for entry in entries if entry is SENT_QOS1 or entry is SENT_QOS2 or isinstance(entry, Flight))
        lost += sum(cursor.owed for cursor in session.cursors())
        left.extend(session.queue.take_all())
        session.outbound = Outbound(0)
        for delivery in left:
            origin = delivery.origin
            # [MQTT-4.8.2-5] a QoS 2 exchange that began with one member is never continued with another.
            if isinstance(origin, SharedGroup) and not (delivery.qos == 2 and delivery.sent) and origin:
                if delivery.expired(now):
                    broker.counters.dropped[Drop.EXPIRED] += 1
                else:
                    broker.publishing.fan_out.redispatch(publication_of(delivery.message, now), origin)
            else:
                lost += 1
        if lost:
            broker.counters.dropped[Drop.SESSION_ENDED] += lost
