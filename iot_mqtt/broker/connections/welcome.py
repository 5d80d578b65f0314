"""CONNACK: what a client is told of its session, and what goes on then."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.limiting import ABSENT_RECEIVE_MAXIMUM
from iot_mqtt.broker.sending.outflow import Outflow
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import NO_PROPERTIES, Connack, Connect, Properties, encode
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.counters import Counters
from iot_mqtt.values import ProtocolVersion

#: Of QoS 2, a client may have begun so many quotas' worth and not ended.
MOST_QUOTAS: Final = 4


class Welcome:
    """Nearly every CONNACK of a version is the same; those are written once, at start."""

    __slots__ = ("_settings", "_sessions", "_outflow", "_counters", "_announcement", "_usual")

    def __init__(self, settings: MqttSettings, sessions: Sessions, outflow: Outflow, counters: Counters) -> None:
        self._settings = settings
        self._sessions = sessions
        self._outflow = outflow
        self._counters = counters
        self._announcement = announcement_of(settings)
        self._usual = usual_connacks(self._announcement)

    def check(self, connection: Connection, assigned: str | None, data: bytes | None) -> None:
        """Raise unless the client can be told of its session; before anything is done for it."""
        connection.written_to_fit(self._particular(connection, assigned, data, present=False))

    def outlives(self, connection: Connection, connect: Connect) -> bool:
        """Whether the session of this CONNECT may outlive its connection."""
        return self._sessions.interval(connect, connection.allowance.session_expiry) > 0

    def welcome(
        self, connection: Connection, session: Session, present: bool, assigned: str | None, data: bytes | None
    ) -> None:
        """Its window and its keep-alive, CONNACK, then what waits for the client, then what it sent meanwhile."""
        connect, settings = connection.connect, self._settings
        assert connect is not None
        window = connect.properties.receive_maximum or ABSENT_RECEIVE_MAXIMUM
        allowance = connection.allowance
        session.outbound.limit = min(window, allowance.max_inflight)
        session.inbound.unacknowledged = 0
        # Exchanges of before are not of this connection's quota; who never ends any gets no more with each connection.
        open_before, quota = session.inbound.count, allowance.receive_maximum
        session.inbound.maximum = max(open_before, min(open_before + quota, MOST_QUOTAS * quota))
        # A client of 3.x cannot be told of another one than its own.
        connection.watch_keep_alive((settings.server_keep_alive if connection.five else 0) or connect.keep_alive)
        connection.writable = connection.ctx is not None and connection.ctx.channel.writable
        if connection.five and (connection.max_packet_size or self._has_particulars(connection, assigned, data)):
            connection.send_packet(self._particular(connection, assigned, data, present=present))
        else:
            assert connection.version is not None
            self._counters.others_sent["CONNACK"] += 1
            connection.send(self._usual[connection.version, present])
        connection.connecting = False
        self._counters.connects_accepted += 1
        if present:
            self._outflow.resume(session)
        if connection.flow is not None:
            # What came together with CONNECT is counted like the rest: it is held, and comes in the next turn.
            connection.hold([])
            connection.output.turn.call_soon(connection.proceed)
            return
        connection.proceed()

    def _has_particulars(self, connection: Connection, assigned: str | None, data: bytes | None) -> bool:
        connect = connection.connect
        usual = connection.allowance.receive_maximum == self._settings.receive_maximum
        if usual and assigned is None and connect is not None and connect.properties is NO_PROPERTIES:
            return self._settings.server_keep_alive > 0
        return any(value is not None for value in self._told(connection, assigned, data).values())

    def _particular(
        self, connection: Connection, assigned: str | None, data: bytes | None, *, present: bool
    ) -> Connack:
        told = self._told(connection, assigned, data)
        properties = replace(self._announcement, **told)  # type: ignore[arg-type]
        return Connack(session_present=present, reason=ReasonCode.SUCCESS, properties=properties)

    def _told(self, connection: Connection, assigned: str | None, data: bytes | None) -> dict[str, object]:
        """What this v5 client is told beside what all are told."""
        settings, connect = self._settings, connection.connect
        assert connect is not None
        properties = connect.properties
        asked = properties.session_expiry_interval or 0
        allowance = connection.allowance
        granted = self._sessions.interval(connect, allowance.session_expiry)
        told: dict[str, object] = {
            "session_expiry_interval": granted if asked != granted else None,
            "assigned_client_identifier": assigned,  # [MQTT-3.1.3-7]
            "server_keep_alive": settings.server_keep_alive or None,  # [MQTT-3.1.2-21]
            "response_information": (settings.response_information or None)
            if properties.request_response_information
            else None,
            "authentication_method": properties.authentication_method,
            "authentication_data": data,
        }
        if allowance.receive_maximum != settings.receive_maximum:
            told["receive_maximum"] = allowance.receive_maximum
        return told


def announcement_of(settings: MqttSettings) -> Properties:
    """CONNACK properties that say what is offered; defaults of the specification are left unsaid."""

    def unless(value: int, default: int) -> int | None:
        return None if value == default else value

    def unless_offered(offered: bool) -> bool | None:
        return None if offered else False

    return Properties(
        receive_maximum=unless(settings.receive_maximum, 65_535),
        maximum_qos=unless(settings.max_qos, 2),
        retain_available=unless_offered(settings.retain_available),
        maximum_packet_size=settings.max_packet_size,
        topic_alias_maximum=unless(settings.topic_alias_maximum, 0),
        wildcard_subscription_available=unless_offered(settings.wildcard_available),
        subscription_identifier_available=unless_offered(settings.subscription_identifiers_available),
        shared_subscription_available=unless_offered(settings.shared_available),
    )


def usual_connacks(announcement: Properties) -> dict[tuple[ProtocolVersion, bool], bytes]:
    """(version, session present?) → the CONNACK of a client that is told nothing of its own."""
    return {
        (version, present): encode(
            Connack(
                session_present=present,
                reason=ReasonCode.SUCCESS,
                properties=announcement if version is ProtocolVersion.V5 else NO_PROPERTIES,
            ),
            version,
        )
        for version in ProtocolVersion
        for present in (False, True)
    }
