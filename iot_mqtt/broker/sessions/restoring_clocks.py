"""What goes on by the clock: expiry intervals, and the wills of connections that the stop cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.ending import Expiry
from iot_mqtt.broker.sessions.recorded_deadlines import RecordedDeadlines
from iot_mqtt.broker.sessions.records import SessionRecords
from iot_mqtt.broker.sessions.restoring import Load
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.sessions.wills import Wills
from iot_mqtt.ports.clock import Clock
from iot_mqtt.values import NEVER

#: How a session is ended that has nothing but a will: at once, or in a later turn.
End = Callable[[Callable[[], None]], None]


@dataclass(frozen=True, slots=True, eq=False)
class ClockRestoring:
    """Of sessions that were restored."""

    sessions: Sessions
    records: SessionRecords
    expiry: Expiry
    wills: Wills
    deadlines: RecordedDeadlines
    clock: Clock

    def start(self, load: Load, ended: str) -> None:
        """Whoever was connected when the node stopped is disconnected since now at the latest; ``ended``: by what."""
        for session in load.sessions:
            left_at, interval = session.disconnected_at, session.expiry_interval
            if left_at is None:
                session.disconnected_at = self.clock.wall()
                session.last_disconnect = ended
                self.records.save(session)
            if interval < NEVER:
                due_at = inf if left_at is None else left_at + interval
                session.expiry_timer = self.deadlines.add(due_at, interval, partial(self.expiry.expire, session))

    async def publish_wills(self, load: Load, end: End) -> None:
        """Wills are due, at once or after their delay. Those whose session ended with the connection are published by
        ending one in its place, delay or not.
        """
        async for client_id, stored in load.source.wills():
            if not load.wanted(client_id):
                continue
            session = self.sessions.get_kept(client_id)
            if session is None:
                ended = self.sessions.create(Session, client_id, version=4, created_at=self.clock.wall())
                ended.will = stored.will
                self.sessions.own(ended, stored.owner)
                end(partial(self.expiry.end, ended))
                continue
            session.will = stored.will
            due_at = inf if stored.due_at is None else stored.due_at
            session.will_timer = self.deadlines.add(due_at, stored.will.delay, partial(self.wills.delay_over, session))
