"""Sessions get connections, and lose them: opened, taken over, resumed, left behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.session import ClientConnection, Session
from iot_mqtt.broker.sessions.ending import Ending, Expiry
from iot_mqtt.broker.sessions.keeping import Keeping
from iot_mqtt.broker.sessions.owners import adopt, owner_of
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.sessions.wills import Wills
from iot_mqtt.codec import Connect
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.endings import CLEAN_START, WITH_CONNECTION

_SUCCESS: Final = ReasonCode.SUCCESS


@dataclass(frozen=True, slots=True, eq=False)
class Attaching:
    """Of the sessions of this node."""

    sessions: Sessions
    ending: Ending
    keeping: Keeping
    wills: Wills
    expiry: Expiry
    clock: Clock

    def open(
        self, connection: ClientConnection, connect: Connect, client_id: str, *, anew: bool = False
    ) -> tuple[Session, bool]:
        """The session that this CONNECT gets, and whether it was there before; ``anew``: it is to begin with nothing,
        whatever the client asked for.
        """
        session = self.sessions.get(client_id)
        if session is not None:
            session = self._taken_over(session, anew=anew or connect.clean_start)
        present = session is not None
        if session is None:
            kept = self.sessions.interval(connect, connection.allowance.session_expiry) > 0 or _is_owed_all(connection)
            kind = KeptSession if kept else Session
            version = int(connect.version)
            session = self.sessions.create(kind, client_id, version=version, created_at=connection.connected_at)
        self._attach(session, connection, connect)
        return session, present

    def _taken_over(self, session: Session, *, anew: bool) -> Session | None:
        """The session that is there, without its connection; None if it had to end."""
        self.sessions.opening = session.client_id
        try:
            if session.connection is not None:
                # [MQTT-3.1.4-3] the newcomer wins.
                session.connection.disconnect(ReasonCode.SESSION_TAKEN_OVER, "another connection has this client id")
            # Closing has ended it, if it was to end with its connection.
            if (anew or not isinstance(session, KeptSession)) and not session.ended:  # [MQTT-3.1.2-4]
                self.ending.end(session, _SUCCESS, CLEAN_START)
        finally:
            self.sessions.opening = None
        return self.sessions.get(session.client_id)

    def _attach(self, session: Session, connection: ClientConnection, connect: Connect) -> None:
        session.connection = connection
        adopt(self.sessions, session, owner_of(connection))
        session.version = int(connect.version)
        if isinstance(session, KeptSession):
            session.disconnected_at = None
            session.epoch += 1
            if session.expiry_timer is not None:
                session.expiry_timer.cancel()
                session.expiry_timer = None
            session.expiry_interval = self.sessions.interval(connect, connection.allowance.session_expiry)
            session.application = connection.allowance.application
            durable = connection.durable_sessions and session.expiry_interval > 0
            self.keeping.attached(session, durable=durable or _is_owed_all(connection))
        self.sessions.others.changed(session)

    def detach(self, session: Session, connection: ClientConnection, reason: str) -> None:
        """The connection is gone: keep the session for its interval, or end it."""
        if session.connection is not connection:
            return
        session.connection = None
        session.sending = None
        session.unsent = 0
        if isinstance(session, KeptSession):
            session.last_disconnect = reason
            session.disconnected_at = self.clock.wall()
        if not isinstance(session, KeptSession) or session.expiry_interval == 0:  # [MQTT-3.1.2-23]
            self.ending.end(session, _SUCCESS, WITH_CONNECTION)
            return
        self.sessions.others.changed(session)
        self.wills.connection_lost(session)
        self.keeping.left(session)
        if not session.never_expires:
            self.expiry.end_after(session, session.expiry_interval)


def _is_owed_all(connection: ClientConnection) -> bool:
    """Whether the client is to get everything while it is connected: it reads it in the log where it is behind, also
    with a session that ends with its connection.
    """
    return connection.allowance.application and connection.durable_sessions
