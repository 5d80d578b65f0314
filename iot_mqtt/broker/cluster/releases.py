"""A client whose session is here has connected to another node, which gets the session.

release ─▶ close its connection ─▶ commit everything ─▶ forget it in memory
"""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.broker.cluster.departed import Departed
from iot_mqtt.broker.cluster.interest import OwnInterest
from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.kept_session import KeptSession, is_durable
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.shared_groups import Leadership, writer_at_home
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.endings import WENT_ELSEWHERE


class Releases:
    """Of the sessions whose home is this node."""

    def __init__(
        self,
        sessions: Sessions,
        interest: OwnInterest,
        groups: Leadership,
        departed: Departed,
        hand_over: Callable[[KeptSession], None],
        end: Callable[[Session, ReasonCode, str], None],
    ) -> None:
        self._sessions = sessions
        self._interest = interest
        self._groups = groups
        self._departed = departed
        self._hand_over = hand_over
        self._end = end

    def release(self, client_id: str, done: Callable[[bool], None]) -> None:
        """See ``ports.cluster.Node``."""
        departed = self._departed
        writer = writer_at_home(client_id)
        if writer is not None:
            self._groups.release(writer, done)
            return
        if client_id in departed.claimed:
            done(False)  # noqa: FBT003 - the signature of the port
            return
        departed.releasing.add(client_id)
        session = self._sessions.get(client_id)
        if session is not None and session.connection is not None:
            # [MQTT-3.1.4-3] the newcomer wins, wherever it is.
            session.connection.disconnect(ReasonCode.SESSION_TAKEN_OVER, "the client has connected to another node")
            session = self._sessions.get(client_id)
        if session is not None and is_durable(session):
            departed.left(client_id)
            self._interest.moved_away(session)
            self._hand_over(session)
        elif session is not None:
            # It is kept nowhere: it ends with its home.
            self._end(session, ReasonCode.SESSION_TAKEN_OVER, WENT_ELSEWHERE)
        departed.releasing.discard(client_id)
        drive(departed.settled(), lambda _: done(True), lambda _: done(False))  # noqa: FBT003 - the port says so
