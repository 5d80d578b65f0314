"""Subscriptions of sessions: in the session, in the routes, in the store, and as claims on the log.

There are three kinds, told apart by the filter that they are kept under: plain ones, shared ones (``$share/``),
which belong to a group, and replays (``$replay/``), which have a cursor of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from iot_mqtt.broker.publishing.retained_reading import stop_reading
from iot_mqtt.broker.readers.replay import ReplayCursor, twin
from iot_mqtt.broker.session import Session
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.counters import Drop
from iot_mqtt.topics import parse_replay, parse_shared
from iot_mqtt.values import Subscription

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker


class Subscriptions:
    """Adds and removes them, everywhere at once."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def known(self, session: Session, filter: str) -> Subscription | None:
        """What a new subscription of this filter replaces [MQTT-3.8.4-3]."""
        return session.subscriptions.get(filter) or session.subscriptions.get(twin(filter))

    def add(self, session: Session, subscription: Subscription, begin: int | float = 0) -> None:
        """Add one, or replace the one that the client knows by the same filter; ``begin``: where a replay does."""
        broker, filter = self._broker, subscription.filter
        end = broker.log.end
        replay = parse_replay(filter)
        known = session.subscriptions.get(filter)
        begins = False
        if replay is not None:
            if known is None:
                broker.replay_turns.admit(session)
            self._remove_replay(session, filter, Drop.UNSUBSCRIBED)
            session.subscriptions[filter] = subscription
            self.enter_replay(session, subscription, replay[1], position=end).begin(begin)
        elif known == subscription:
            return
        elif parse_shared(filter) is not None:
            session.subscriptions[filter] = subscription
            broker.routes.subscribe(session, subscription)
            broker.groups.joined(session, filter)
        else:
            for cursor in session.plain_cursors():
                if cursor.crowded:
                    raise Refused("too many subscriptions were changed", ReasonCode.QUOTA_EXCEEDED)
            begins = self._begins(session, filter, known)
            for cursor in session.plain_cursors():
                if not begins or cursor is session.cursor:
                    cursor.subscribed(filter, cursor.log.end, known)
            session.subscriptions[filter] = subscription
            broker.routes.subscribe(session, subscription)
        if begins and broker.clustering is not None:
            broker.clustering.sessions.begin(session, subscription)
        elif session.durable:
            since = session.since(filter) or {broker.log.writer: end}
            broker.store.save_subscription(session.client_id, subscription, since)
            broker.progress.moved(session)
        if known is None and broker.clustering is not None:
            broker.clustering.sessions.added(session, filter)
        self.remove(session, twin(filter))

    def _begins(self, session: Session, filter: str, known: Subscription | None) -> bool:
        """Whether the filter has no claim on other nodes' logs yet, and is to get one."""
        if not session.durable or self._broker.clustering is None:
            return False
        return known is None or (session.beginning is not None and filter in session.beginning)

    def enter_replay(self, session: Session, subscription: Subscription, plain: str, position: int) -> ReplayCursor:
        """Give a replay its cursor, and what is published from now on."""
        cursor = ReplayCursor(self._broker.reading, session, self._broker.log, subscription, plain, position)
        if session.replays is None:
            session.replays = {}
        session.replays[subscription.filter] = cursor
        self._broker.routes.subscribe(cast(Session, cursor), replace(subscription, filter=plain))
        return cursor

    def remove(self, session: Session, filter: str) -> bool:
        """Remove one; False if there is none. What is under way for it is still completed [MQTT-3.10.4-3]."""
        broker = self._broker
        subscription = session.subscriptions.pop(filter, None)
        if subscription is None:
            return False
        if broker.clustering is not None:
            broker.clustering.sessions.removed(session, filter)
        if session.replays is not None and filter in session.replays:
            self._remove_replay(session, filter, Drop.UNSUBSCRIBED)
        else:
            broker.routes.unsubscribe(session, filter)
            if parse_shared(filter) is not None:
                broker.groups.left(session, filter)
            else:
                for cursor in session.plain_cursors():
                    cursor.unsubscribed(subscription, cursor.log.end)
        stop_reading(session, filter)
        if session.beginning:
            session.beginning.pop(filter, None)
        if session.durable:
            broker.store.remove_subscription(session.client_id, filter)
            broker.progress.moved(session)
        return True

    def _remove_replay(self, session: Session, filter: str, reason: Drop) -> None:
        cursor = session.replays.pop(filter, None) if session.replays else None
        if cursor is not None:
            cursor.closed = True
            self._broker.replay_turns.over(cursor)
            self._broker.routes.unsubscribe(cast(Session, cursor), cursor.plain)
            if cursor.backlog:
                session.drop(self._broker.counters, reason, cursor.backlog)

    def drop_all(self, session: Session) -> None:
        """The session has ended; its records are removed by whoever ends it."""
        for filter in list(session.replays or ()):
            self._remove_replay(session, filter, Drop.SESSION_ENDED)
        self._broker.routes.drop(session, [name for name in session.subscriptions if parse_replay(name) is None])
        for filter in session.subscriptions:
            if parse_shared(filter) is not None:
                self._broker.groups.left(session, filter)

    def let_go(self, session: Session) -> None:
        """The session goes on at another node, with all its records."""
        for replay in (session.replays or {}).values():
            self._broker.replay_turns.over(replay)
            self._broker.routes.unsubscribe(cast(Session, replay), replay.plain)
        self._broker.routes.drop(session, [name for name in session.subscriptions if parse_replay(name) is None])
        self._broker.groups.moved(session)
