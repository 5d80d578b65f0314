"""Reason codes and the errors that carry them: what is raised, sent and logged is one thing.

``Malformed``, ``ProtocolViolation`` and ``Refused`` are the peer's fault and end in a CONNACK, an
acknowledgement or a DISCONNECT; one place (``broker.closing``) turns them into bytes. ``Unavailable`` is
ours: the peer is told to come back.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self

#: Characters of a client id, user name, topic or filter that the log and errors show.
LONGEST_NAME: Final = 128


def shortened(name: str) -> str:
    """A name that a client chose, as the log takes it."""
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


class ReasonCode(IntEnum):
    """Every reason code of MQTT 5.0, section 2.4."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


class MqttError(Exception):
    """An error with the reason code that the peer gets to see."""

    default = ReasonCode.UNSPECIFIED_ERROR

    def __init__(self, detail: str, reason: ReasonCode | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.reason = self.default if reason is None else reason

    def naming(self, what: str, name: str) -> Self:
        """The same error, which says what topic or filter it is about: a packet may have thousands."""
        return type(self)(f"{what} {shortened(name)!r}: {self.detail}", self.reason)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.reason.name}: {self.detail}>"


class Malformed(MqttError):
    """Bytes that no version of the specification allows."""

    default = ReasonCode.MALFORMED_PACKET


class ProtocolViolation(MqttError):
    """A well-formed packet that may not come here, now or like this."""

    default = ReasonCode.PROTOCOL_ERROR


class Refused(MqttError):
    """A correct request that this broker will not serve: rights, limits, quotas."""

    default = ReasonCode.NOT_AUTHORIZED


class Unavailable(MqttError):
    """Our own trouble (store away, shutting down): not the peer's fault, and it may try again."""

    default = ReasonCode.SERVER_UNAVAILABLE


class Corrupt(Unavailable):
    """What was stored is damaged: to try again changes nothing."""
