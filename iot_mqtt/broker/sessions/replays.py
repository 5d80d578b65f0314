"""Replays of sessions: their cursors in the routing table, from SUBSCRIBE on until they are given up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from iot_mqtt.broker.log_cursor import Replay
from iot_mqtt.broker.readers.reading import Reading
from iot_mqtt.broker.readers.replay import ReplayCursor
from iot_mqtt.broker.session import Session
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import Log
from iot_mqtt.topics import Routes
from iot_mqtt.values import Subscription


@dataclass(frozen=True, slots=True, eq=False)
class Replays:
    """Gives a replay its cursor, and takes it away."""

    reading: Reading
    log: Log
    routes: Routes[Session]

    def add(self, session: Session, subscription: Subscription, plain: str, begin: int | float) -> None:
        """A client has asked for one, or asks for the same once more; ``Refused`` where it is one too many."""
        if subscription.filter not in session.subscriptions:
            self.reading.replay_turns.admit(session)
        self.remove(session, subscription.filter, Drop.UNSUBSCRIBED)
        session.subscribed(subscription)
        self.enter(session, subscription, plain, self.log.end).begin(begin)

    def enter(self, session: Session, subscription: Subscription, plain: str, position: int) -> ReplayCursor:
        """Give a replay its cursor, and what is published from now on."""
        cursor = ReplayCursor(self.reading, session, self.log, subscription, plain, position)
        if session.replays is None:
            session.replays = {}
        session.replays[subscription.filter] = cursor
        self.routes.subscribe(cast(Session, cursor), replace(subscription, filter=plain))
        return cursor

    def remove(self, session: Session, filter: str, reason: Drop) -> bool:
        """Give one up, with what it is owed counted; False if there is none."""
        cursor = session.replays.pop(filter, None) if session.replays else None
        if cursor is None:
            return False
        cursor.closed = True
        self._let_go(cursor)
        if cursor.backlog:
            session.drop(self.reading.counters, reason, cursor.backlog)
        return True

    def remove_all(self, session: Session) -> None:
        """The session has ended."""
        for filter in list(session.replays or ()):
            self.remove(session, filter, Drop.SESSION_ENDED)

    def wait(self, session: Session) -> None:
        """Nobody is there to read for."""
        for cursor in (session.replays or {}).values():
            self.reading.replay_turns.over(cursor)

    def let_go(self, session: Session) -> None:
        """The session goes on at another node, with all its replays."""
        for cursor in (session.replays or {}).values():
            self._let_go(cursor)

    def _let_go(self, cursor: Replay) -> None:
        self.reading.replay_turns.over(cursor)
        self.routes.unsubscribe(cast(Session, cursor), cursor.plain)
