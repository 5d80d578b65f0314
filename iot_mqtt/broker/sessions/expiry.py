"""Sessions whose client stays away end when their interval is over."""

from __future__ import annotations

from dataclasses import dataclass

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.attempts import Attempts
from iot_mqtt.broker.sessions.ending import Ending
from iot_mqtt.broker.turn import Turn
from iot_mqtt.errors import ReasonCode
from iot_mqtt.pipeline import TimingWheel
from iot_mqtt.ports.endings import SESSION_EXPIRED


@dataclass(frozen=True, slots=True, eq=False)
class Expiry:
    """Ends them."""

    ending: Ending
    attempts: Attempts
    wheel: TimingWheel
    turn: Turn

    def end_after(self, session: KeptSession, seconds: float) -> None:
        """End the session unless it is connected again by then."""
        session.expiry_timer = self.wheel.schedule(max(0.0, seconds), lambda: self._expire(session))

    def end(self, session: Session) -> None:
        """Its time is over."""
        self.ending.end(session, ReasonCode.SUCCESS)

    def _expire(self, session: KeptSession) -> None:
        session.expiry_timer = None
        if session.connection is None and not session.ended:
            self.attempts.ended(session.client_id, session.username, SESSION_EXPIRED)
            self.end(session)
            self.turn.plan()
