"""DISCONNECT: a farewell that cancels the will, or (v5, 0x04) keeps it."""

from __future__ import annotations

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.sessions.wills import Wills
from iot_mqtt.codec import Disconnect
from iot_mqtt.errors import ProtocolViolation, ReasonCode
from iot_mqtt.ports.counters import Counters


class DisconnectHandler:
    """Changes the expiry if asked to, drops the will if so meant, and closes."""

    __slots__ = ("_sessions", "_wills", "_counters")

    def __init__(self, sessions: Sessions, wills: Wills, counters: Counters) -> None:
        self._sessions = sessions
        self._wills = wills
        self._counters = counters

    def serve(self, connection: Connection, packet: Disconnect) -> None:
        """DISCONNECT came."""
        session = connection.session
        assert session is not None
        self._counters.packets_received["DISCONNECT"] += 1
        interval = packet.properties.session_expiry_interval
        if interval is not None:
            if interval and not session.expiry_interval:  # [MQTT-3.14.2-2]
                raise ProtocolViolation("a session that was to end with its connection can't be kept now")
            self._sessions.set_expiry(session, interval, connection.allowance.session_expiry)
        if packet.reason is ReasonCode.SUCCESS:
            self._wills.cancel(session)  # [MQTT-3.14.4-3]
        connection.leave_quietly(packet.reason)
