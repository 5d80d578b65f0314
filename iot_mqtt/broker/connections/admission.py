"""A client that is who it says: may it have the name and the will that its CONNECT asks for?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from iot_mqtt.broker.connections.bouncer import Bouncer
from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.limiting import Limiting
from iot_mqtt.broker.connections.opening import Opening
from iot_mqtt.broker.connections.welcome import Welcome
from iot_mqtt.broker.sessions.owners import Owners
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import ConnectWill
from iot_mqtt.codec.properties import passed_on
from iot_mqtt.errors import MqttError, ProtocolViolation, ReasonCode, Refused
from iot_mqtt.ports.access import Permissions, Principal, form_of
from iot_mqtt.ports.counters import Counters
from iot_mqtt.topics import RESERVED, is_notice_of_a_bridge, is_reserved, validate_topic
from iot_mqtt.values import Message, Will


class WillRequests:
    """The will of a CONNECT as a message; it must be allowed and offered like any publish."""

    __slots__ = ("_settings", "_counters")

    def __init__(self, settings: MqttSettings, counters: Counters) -> None:
        self._settings = settings
        self._counters = counters

    def read(self, will: ConnectWill, principal: Principal, permissions: Permissions, *, five: bool) -> Will | None:
        """The will that is asked for, or an error, for MQTT 5 with the reason that says what would be allowed. None:
        it is never published, which is no reason to refuse the client.
        """
        topic = will.topic.decode()
        try:
            validate_topic(topic, max_levels=self._settings.max_topic_levels)
        except MqttError as error:
            raise error.naming("will topic", topic) from None
        if will.qos > self._settings.max_qos:  # [MQTT-3.2.2-12]
            raise ProtocolViolation(f"QoS {will.qos} is not offered here", ReasonCode.QOS_NOT_SUPPORTED)
        if will.retain and not self._settings.retain_available:  # [MQTT-3.2.2-13]
            raise ProtocolViolation("retain is not offered here", ReasonCode.RETAIN_NOT_SUPPORTED)
        if is_reserved(will.topic):
            self._deny(principal, will, topic)
            if is_notice_of_a_bridge(will.topic):
                return None
            raise Refused(f"the will's topic: {RESERVED}", ReasonCode.NOT_AUTHORIZED)
        if not permissions.unrestricted:
            reason = _denied(permissions.forms(topic), will.qos, retain=will.retain)
            if reason is not None:
                self._deny(principal, will, topic)
                raise Refused(
                    "not allowed to publish the will's topic in this form",
                    reason if five else ReasonCode.NOT_AUTHORIZED,
                )
        return _will(will, principal)

    def _deny(self, principal: Principal, will: ConnectWill, topic: str) -> None:
        self._counters.denied["will"] += 1
        retained = ", retained" if will.retain else ""
        self._counters.recent.note(principal.client_id, "denied_will", topic, detail=f"QoS {will.qos}{retained}")


def _denied(forms: int, qos: int, *, retain: bool) -> ReasonCode | None:
    """Why a will is not allowed, in the words that CONNACK has for it: it may be less that would be."""
    if forms & form_of(qos << 1 | retain):
        return None
    if retain and forms & form_of(qos << 1):
        return ReasonCode.RETAIN_NOT_SUPPORTED
    if any(forms & form_of(less << 1 | retain) for less in range(qos)):
        return ReasonCode.QOS_NOT_SUPPORTED
    return ReasonCode.NOT_AUTHORIZED


def _will(will: ConnectWill, principal: Principal) -> Will:
    message = Message(
        will.topic,
        will.payload,
        will.qos,
        retain=will.retain,
        properties=passed_on(will.properties),
    )
    return Will(
        message,
        delay=will.properties.will_delay_interval or 0,
        expiry=will.properties.message_expiry_interval,
        standing=principal.standing,
    )


#: Has a client's session come here from the node that has it, and calls what opens it then.
Claim = Callable[[Connection, str, Callable[[], None]], None]


class Admission:
    """Checks a client's name and its will, and opens its session once no other node has it.

    ``new_client_id`` makes an id for a client that brought none [MQTT-3.1.3-6].
    """

    __slots__ = ("claim", "_bouncer", "_owners", "_limiting", "_wills", "_welcome", "_opening", "_new_client_id")

    def __init__(
        self,
        bouncer: Bouncer,
        owners: Owners,
        limiting: Limiting,
        wills: WillRequests,
        welcome: Welcome,
        opening: Opening,
        new_client_id: Callable[[], str],
    ) -> None:
        self._bouncer = bouncer
        self._owners = owners
        self._limiting = limiting
        self._wills = wills
        self._welcome = welcome
        self._opening = opening
        #: None: there is no other node.
        self.claim: Claim | None = None
        self._new_client_id = new_client_id

    def admit(self, connection: Connection, principal: Principal, permissions: Permissions, data: bytes | None) -> None:
        """The client is ``principal``; ``data`` is what its authentication has for it."""
        connect = connection.connect
        assert connect is not None
        # Once more: now it is known who it is, and asking may have taken a while.
        self._bouncer.check(connection, principal.owner)
        connection.principal, connection.permissions = principal, permissions
        if principal.expires_at is not None:
            connection.watch_proof()
            if connection.closed:
                return
        client_id = connect.client_id
        if client_id and not permissions.unrestricted:
            self._owners.check_name(connection, client_id)
        will = (
            None
            if connect.will is None
            else self._wills.read(connect.will, principal, permissions, five=connection.five)
        )
        assigned = None if client_id else self._new_client_id()
        self._limiting.begin(connection, principal, assigned or client_id)
        if connection.max_packet_size:
            self._welcome.check(connection, assigned, data)
        if self.claim is None or (assigned and not self._welcome.outlives(connection, connect)):
            self._opening.open(connection, will, assigned, data)
        else:
            opened = partial(self._opening.open, connection, will, assigned, data)
            self.claim(connection, assigned or client_id, opened)
