"""AUTH: the rounds of an enhanced-authentication exchange, at CONNECT and later [MQTT5 4.12]."""

from __future__ import annotations

from iot_mqtt.broker.connections.access import Access
from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.codec import Auth
from iot_mqtt.errors import ProtocolViolation, ReasonCode
from iot_mqtt.ports.counters import Counters


class AuthHandler:
    """Continues the exchange under way, or begins a re-authentication."""

    __slots__ = ("_access", "_counters")

    def __init__(self, access: Access, counters: Counters) -> None:
        self._access = access
        self._counters = counters

    def serve(self, connection: Connection, packet: Auth) -> None:
        """AUTH came."""
        self._counters.packets_received["AUTH"] += 1
        connect = connection.connect
        if connect is None or connect.properties.authentication_method is None:
            raise ProtocolViolation("AUTH without an authentication method")  # [MQTT-4.12.0-6]
        if packet.properties.authentication_method != connect.properties.authentication_method:
            # [MQTT-4.12.1-1] [MQTT-4.12.0-5] the method never changes.
            raise ProtocolViolation("another authentication method", ReasonCode.PROTOCOL_ERROR)
        if packet.reason is ReasonCode.REAUTHENTICATE:
            if connection.session is None or connection.exchange is not None:
                raise ProtocolViolation("re-authentication in the middle of an exchange")
            self._access.begin_exchange(connection, packet.properties.authentication_data)
        elif packet.reason is ReasonCode.CONTINUE_AUTHENTICATION and connection.exchange is not None:
            self._access.continue_exchange(connection, packet.properties.authentication_data)
        else:
            raise ProtocolViolation("AUTH that continues nothing")
