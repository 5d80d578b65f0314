"""What goes on by the clock: expiry intervals, and the wills of connections that the stop cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.ending import Expiry
from iot_mqtt.broker.sessions.records import SessionRecords
from iot_mqtt.broker.sessions.restoring import Load
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.sessions.wills import Wills
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.endings import NODE_RESTARTED
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
    clock: Clock

    def start(self, load: Load) -> None:
        """Whoever was connected when the node stopped is disconnected since now at the latest."""
        now = self.clock.wall()
        for session in load.sessions:
            if session.disconnected_at is None:
                session.disconnected_at = now
                session.last_disconnect = NODE_RESTARTED
                self.records.save(session)
            if session.expiry_interval < NEVER:
                self.expiry.end_after(session, session.disconnected_at + session.expiry_interval - now)

    async def publish_wills(self, load: Load, end: End) -> None:
        """Wills are due, at once or after their delay. Those whose session ended with the connection are published by
        ending one in its place, delay or not.
        """
        now = self.clock.wall()
        async for client_id, stored in load.source.wills():
            if not load.wanted(client_id):
                continue
            session = self.sessions.get_kept(client_id)
            if session is None:
                ended = self.sessions.create(Session, client_id, version=4, created_at=now)
                ended.will = stored.will
                self.sessions.own(ended, stored.owner)
                end(partial(self.expiry.end, ended))
                continue
            session.will = stored.will
            due_at = stored.due_at if stored.due_at is not None else now + stored.will.delay
            self.wills.publish_after(session, due_at - now)
