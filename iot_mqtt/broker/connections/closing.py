"""The one place where an error becomes bytes: CONNACK before a session is open, DISCONNECT after.

MQTT 3.x has no DISCONNECT from the server and six CONNACK codes; what those can't say is said by closing.
"""

from __future__ import annotations

from iot_mqtt.codec import Connack, Disconnect, Packet, PacketType, Properties, Role
from iot_mqtt.codec.reasons import ALLOWED
from iot_mqtt.errors import MqttError, ReasonCode
from iot_mqtt.values import ProtocolVersion

#: CONNACK reasons that a 3.x client can be told; the codec maps them to the return codes of its version.
TELLABLE_TO_3X = frozenset(
    {
        ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
        ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
        ReasonCode.SERVER_UNAVAILABLE,
        ReasonCode.SERVER_BUSY,
        ReasonCode.QUOTA_EXCEEDED,
        ReasonCode.CONNECTION_RATE_EXCEEDED,
        ReasonCode.SERVER_SHUTTING_DOWN,
        ReasonCode.USE_ANOTHER_SERVER,
        ReasonCode.SERVER_MOVED,
        ReasonCode.SESSION_TAKEN_OVER,
        ReasonCode.BAD_USER_NAME_OR_PASSWORD,
        ReasonCode.NOT_AUTHORIZED,
        ReasonCode.BANNED,
    }
)

#: Reasons CONNACK may carry, MQTT 5 table 3-1; others become "unspecified", but for those that have another name there.
CONNACK_REASONS = frozenset(ALLOWED[PacketType.CONNACK, Role.CLIENT].values())
_IN_CONNACK = {
    ReasonCode.SERVER_SHUTTING_DOWN: ReasonCode.SERVER_UNAVAILABLE,
    # Another connection came with its client id before it was told that it is in.
    ReasonCode.SESSION_TAKEN_OVER: ReasonCode.SERVER_UNAVAILABLE,
}

#: Reasons DISCONNECT may carry from a server, MQTT 5 table 3-13; others become "unspecified".
DISCONNECT_REASONS = frozenset(
    {
        ReasonCode.SUCCESS,
        ReasonCode.UNSPECIFIED_ERROR,
        ReasonCode.MALFORMED_PACKET,
        ReasonCode.PROTOCOL_ERROR,
        ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
        ReasonCode.NOT_AUTHORIZED,
        ReasonCode.SERVER_BUSY,
        ReasonCode.SERVER_SHUTTING_DOWN,
        ReasonCode.KEEP_ALIVE_TIMEOUT,
        ReasonCode.SESSION_TAKEN_OVER,
        ReasonCode.TOPIC_FILTER_INVALID,
        ReasonCode.TOPIC_NAME_INVALID,
        ReasonCode.RECEIVE_MAXIMUM_EXCEEDED,
        ReasonCode.TOPIC_ALIAS_INVALID,
        ReasonCode.PACKET_TOO_LARGE,
        ReasonCode.MESSAGE_RATE_TOO_HIGH,
        ReasonCode.QUOTA_EXCEEDED,
        ReasonCode.ADMINISTRATIVE_ACTION,
        ReasonCode.PAYLOAD_FORMAT_INVALID,
        ReasonCode.RETAIN_NOT_SUPPORTED,
        ReasonCode.QOS_NOT_SUPPORTED,
        ReasonCode.USE_ANOTHER_SERVER,
        ReasonCode.SERVER_MOVED,
        ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
        ReasonCode.CONNECTION_RATE_EXCEEDED,
        ReasonCode.MAXIMUM_CONNECT_TIME,
        ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,
        ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED,
    }
)

#: Reasons that come with a Server Reference [MQTT-4.13.1].
REFERRING = frozenset({ReasonCode.USE_ANOTHER_SERVER, ReasonCode.SERVER_MOVED})


def farewell(
    error: MqttError, version: ProtocolVersion | None, *, connected: bool, connecting: bool, reference: str = ""
) -> Packet | None:
    """The packet to send before closing, or None where the version has no words for it.

    ``connecting`` is true once a CONNECT is being served: what came before it gets no answer at all, except
    a CONNECT whose protocol level we don't speak.
    """
    if connected:
        if version is not ProtocolVersion.V5:
            return None
        reason = error.reason if error.reason in DISCONNECT_REASONS else ReasonCode.UNSPECIFIED_ERROR
        return Disconnect(reason=reason, properties=_properties(error, reference))
    if error.reason is ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:
        return Connack(session_present=False, reason=error.reason)
    reason = _IN_CONNACK.get(error.reason, error.reason)
    if version is ProtocolVersion.V5:
        reason = reason if reason in CONNACK_REASONS else ReasonCode.UNSPECIFIED_ERROR
        return Connack(session_present=False, reason=reason, properties=_properties(error, reference))
    if connecting and reason in TELLABLE_TO_3X:
        return Connack(session_present=False, reason=reason)
    return None


def _properties(error: MqttError, reference: str) -> Properties:
    return Properties(
        reason_string=error.detail or None,
        server_reference=reference if reference and error.reason in REFERRING else None,
    )
