"""A session goes on at another node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.publishing.accompanying import Accompaniment
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.sessions.subscriptions import Subscriptions
from iot_mqtt.broker.turn import Turn
from iot_mqtt.ports.counters import Counters


class Progress(Protocol):
    """What is kept of a session's way through the log."""

    def write_down(self, session: KeptSession) -> None:
        """All that has changed of it, now."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Moving:
    """Hands sessions over."""

    sessions: Sessions
    subscriptions: Subscriptions
    progress: Progress
    accompaniment: Accompaniment
    counters: Counters
    turn: Turn

    def hand_over(self, session: KeptSession) -> None:
        """Forget a session in memory, and leave every record: another node goes on with it (``Arriving``).

        Its connection is gone. What has changed of it is staged with the next batch: the other node may begin once
        the store is settled.
        """
        session.ended = True
        owed = sum(cursor.owed for cursor in session.cursors())
        self.counters.messages_handed_over += session.waiting + owed
        for timer in (session.expiry_timer, session.will_timer):
            if timer is not None:
                timer.cancel()
        session.expiry_timer = session.will_timer = None
        # What it remembers of groups elsewhere is forgotten with it.
        self.progress.write_down(session)
        self.subscriptions.let_go(session)
        for cursor in session.cursors():
            cursor.closed = True
        session.readers = None
        self.sessions.remove(session)
        self.accompaniment.by.session_left(session.client_id)
        self.turn.plan()
