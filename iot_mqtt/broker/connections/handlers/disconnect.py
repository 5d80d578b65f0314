"""DISCONNECT: a farewell that cancels the will, or (v5, 0x04) keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iot_mqtt.codec import Disconnect
from iot_mqtt.errors import ProtocolViolation, ReasonCode

if TYPE_CHECKING:
    from iot_mqtt.broker.connections.connection import Connection


def on_disconnect(connection: Connection, packet: Disconnect) -> None:
    """Change the expiry if asked to, drop the will if so meant, and close."""
    broker, session = connection.broker, connection.session
    assert session is not None
    broker.counters.packets_received["DISCONNECT"] += 1
    interval = packet.properties.session_expiry_interval
    if interval is not None:
        if interval and not session.expiry_interval:  # [MQTT-3.14.2-2]
            raise ProtocolViolation("a session that was to end with its connection can't be kept now")
        broker.sessions.set_expiry(session, interval)
    if packet.reason is ReasonCode.SUCCESS:
        broker.wills.cancel(session)  # [MQTT-3.14.4-3]
    broker.client_left(connection, packet.reason)
