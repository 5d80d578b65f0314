"""Subscriptions of sessions: in the session, in the routes, in the store, and as claims on the log.

There are three kinds, told apart by the filter that they are kept under: plain ones, shared ones (``$share/``),
which belong to a group, and replays (``$replay/``), which have a cursor of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iot_mqtt.broker.kept_session import KeptSession, is_durable
from iot_mqtt.broker.publishing.retained_reading import stop_reading
from iot_mqtt.broker.readers.replay import twin
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.records import SessionRecords
from iot_mqtt.broker.sessions.replays import Replays
from iot_mqtt.broker.sessions.route_turns import RouteTurns, effort_of, goes_in_turns
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.limits import NoRoom
from iot_mqtt.topics import Routes, parse_replay, parse_shared
from iot_mqtt.values import Subscription


@dataclass(frozen=True, slots=True, eq=False)
class Subscriptions:
    """Adds and removes them, everywhere at once."""

    sessions: Sessions
    routes: Routes[Session]
    groups: SharedGroups
    records: SessionRecords
    replays: Replays
    turns: RouteTurns

    @property
    def count(self) -> int:
        """Of all sessions of this node, and of no other one."""
        return self.routes.subscription_count - self.routes.foreign_count

    def require_room(self, settings: MqttSettings) -> None:
        """``Refused`` unless a session of this node may have another one: those of other nodes do not count."""
        if self.count >= settings.max_subscriptions:
            raise Refused(NoRoom.NODE, ReasonCode.QUOTA_EXCEEDED)
        if self.routes.subscription_size - self.routes.foreign_size >= settings.max_subscription_bytes:
            raise Refused(NoRoom.NODE_BYTES, ReasonCode.QUOTA_EXCEEDED)

    def known(self, session: Session, filter: str) -> Subscription | None:
        """What a new subscription of this filter replaces [MQTT-3.8.4-3]."""
        return session.subscriptions.get(filter) or session.subscriptions.get(twin(filter))

    def add(self, session: Session, subscription: Subscription, begin: int | float = 0) -> None:
        """Add one, or replace the one that the client knows by the same filter; ``begin``: where a replay does."""
        filter = subscription.filter
        replay = parse_replay(filter)
        known = session.subscriptions.get(filter)
        begins = False
        if replay is not None:
            self.replays.add(session, subscription, replay[1], begin)
        elif known == subscription:
            return
        elif parse_shared(filter) is not None:
            session.subscribed(subscription)
            self.routes.subscribe(session, subscription)
            self.groups.joined(session, filter)
        else:
            begins = self._add_plain(session, subscription, known)
        if is_durable(session) and not begins:
            self.records.subscribed(session, subscription)
        if known is None:
            self.sessions.others.added(session, filter)
        self.remove(session, twin(filter))

    def _add_plain(self, session: Session, subscription: Subscription, known: Subscription | None) -> bool:
        """True: where it begins in the logs of other nodes has to be looked up."""
        filter = subscription.filter
        for cursor in session.plain_cursors():
            if cursor.crowded:
                raise Refused("too many subscriptions were changed", ReasonCode.QUOTA_EXCEEDED)
        begins = (
            is_durable(session)
            and (known is None or filter in (session.beginning or ()))
            and self.sessions.others.begin(session, subscription)
        )
        own = session.cursor if isinstance(session, KeptSession) else None
        for cursor in session.plain_cursors():
            if not begins or cursor is own:
                cursor.subscribed(filter, cursor.front, known)
        session.subscribed(subscription)
        self.routes.subscribe(session, subscription)
        return begins

    def remove(self, session: Session, filter: str) -> bool:
        """Remove one; False if there is none. What is under way for it is still completed [MQTT-3.10.4-3]."""
        subscription = session.unsubscribed(filter)
        if subscription is None:
            return False
        self.sessions.others.removed(session, filter)
        if not self.replays.remove(session, filter, Drop.UNSUBSCRIBED):
            self.routes.unsubscribe(session, filter)
            if parse_shared(filter) is not None:
                self.groups.left(session, filter)
            else:
                for cursor in session.plain_cursors():
                    cursor.unsubscribed(subscription, cursor.front)
        stop_reading(session, filter)
        if isinstance(session, KeptSession) and session.beginning:
            session.beginning.pop(filter, None)
        if is_durable(session):
            self.records.unsubscribed(session, filter)
        return True

    def drop_all(self, session: Session) -> None:
        """The session has ended; its records are removed by whoever ends it. Nothing comes to it any more."""
        self.groups.member_gone(session, ended=True)
        self.replays.remove_all(session)
        if goes_in_turns(session):
            self._leave_in_turns(session, list(session.subscriptions))
            return
        self._leave_routes(session)
        for filter in session.subscriptions:
            if parse_shared(filter) is not None:
                self.groups.left(session, filter)

    def let_go(self, session: Session) -> None:
        """The session goes on at another node, with all its records."""
        self.replays.let_go(session)
        if goes_in_turns(session):
            # A group that has no other member here is handed over with the session.
            self.routes.drop(session, [name for name in session.subscriptions if parse_shared(name) is not None])
            self._leave_in_turns(session, [name for name in session.subscriptions if parse_shared(name) is None])
        else:
            self._leave_routes(session)
        self.groups.moved(session)

    def _leave_routes(self, session: Session) -> None:
        self.routes.drop(session, [name for name in session.subscriptions if parse_replay(name) is None])

    def _leave_in_turns(self, session: Session, filters: Sequence[str]) -> None:
        self.routes.leave(session)
        self.turns.begin(self._leaving(session, filters), len(filters))

    def _leaving(self, session: Session, filters: Sequence[str]) -> Iterator[int]:
        others = self.sessions.others
        for filter in filters:
            others.removed(session, filter)
            if parse_replay(filter) is None:
                self.routes.remove_of(session, filter)
                if parse_shared(filter) is not None:
                    self.groups.left(session, filter)
            yield effort_of(filter)
        self.routes.left(session)
        others.gone(session)
