"""The end of a session, as one list."""

from __future__ import annotations

from dataclasses import dataclass

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.publishing.accompanying import Accompaniment
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.keeping import Keeping
from iot_mqtt.broker.sessions.passing_on import PassingOn
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.sessions.subscriptions import Subscriptions
from iot_mqtt.broker.sessions.wills import Wills
from iot_mqtt.errors import ReasonCode


@dataclass(frozen=True, slots=True, eq=False)
class Ending:
    """Ends sessions, for whatever reason."""

    sessions: Sessions
    subscriptions: Subscriptions
    keeping: Keeping
    wills: Wills
    passing_on: PassingOn
    accompaniment: Accompaniment

    def end(self, session: Session, reason: ReasonCode) -> None:
        """Forget everything of a session; its will goes out now at the latest [MQTT-3.1.3-9]."""
        if session.ended:
            return
        session.ended = True
        self.sessions.others.changed(session)
        if session.connection is not None:
            session.connection.disconnect(reason)
            session.connection = None
        if isinstance(session, KeptSession) and session.expiry_timer is not None:
            session.expiry_timer.cancel()
        self.subscriptions.drop_all(session)
        self.sessions.remove(session)
        self.keeping.ended(session)
        self.wills.session_ended(session)
        self.passing_on.empty(session)
        self.accompaniment.by.session_ended(session.client_id)
        session.close_readers()
