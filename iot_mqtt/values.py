"""The words everything else is written in: versions, QoS, messages, subscriptions, wills.

Values only. Nothing here reads a clock, knows a socket or holds a session, so every package may import it.
Topics travel as UTF-8 ``bytes``, the way the wire has them, because that is what the hot path compares;
filters, client ids and user names are ``str``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from iot_mqtt.errors import ReasonCode

__all__ = [
    "NOBODY",
    "UNKNOWN_CODEC",
    "CodecId",
    "Message",
    "Origin",
    "OwnedMessage",
    "ProtocolVersion",
    "ReasonCode",
    "Subscription",
    "Will",
    "retained_by",
]

#: A session expiry interval of this many seconds never ends [MQTT5 3.1.2.11.2].
NEVER = 0xFFFF_FFFF


class ProtocolVersion(IntEnum):
    """The protocol level byte of CONNECT."""

    V31 = 3
    V311 = 4
    V5 = 5


class CodecId(NamedTuple):
    """Which codec has made a reading."""

    #: Its name and version: ``gateway/1``.
    name: str
    #: The version of its schema, as JSON has it: ``3``.
    schema: str


#: Of readings in the log of an earlier version, which noted only that a codec had made them.
UNKNOWN_CODEC: Final = CodecId("", "")


class Origin(NamedTuple):
    """Who answers for what was published, and whom it is for. The connection that it came on tells the one, the rules
    of the uplink the other; never the message itself.
    """

    #: The verified user; "" if nobody vouched for the client.
    user: str = ""
    #: Of a reading: the codec that made it, for the gateway that published it and the device of its topic.
    codec: CodecId | None = None
    #: The data platform gets it, and no subscriber.
    only_up: bool = False


#: Of what no user and no codec answers for.
NOBODY: Final = Origin()


class Message:
    """One application message, as it is queued, retained and stored.

    ``properties`` is the raw v5 property block (without its length) that is passed on to receivers:
    payload format, content type, response topic, correlation data and user properties in their order.
    Topic alias, message expiry and subscription identifiers are never in it: they belong to one hop.
    ``expires_at`` is wall-clock seconds, or None. Treat instances as frozen: they are shared by every
    session that waits for the message.
    """

    __slots__ = ("topic", "payload", "qos", "retain", "properties", "expires_at", "publisher", "size")

    def __init__(
        self,
        topic: bytes,
        payload: bytes,
        qos: int = 0,
        *,
        retain: bool = False,
        properties: bytes = b"",
        expires_at: float | None = None,
        publisher: str = "",
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.properties = properties
        self.expires_at = expires_at
        self.publisher = publisher
        #: Bytes of content, for the limits of queues and quotas.
        self.size = len(topic) + len(payload) + len(properties)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in Message.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        # Payloads stay out of logs and tracebacks.
        return f"<Message {self.topic!r} qos={self.qos} retain={self.retain} {len(self.payload)} bytes>"


def seconds_left(expires_at: float, wall: float) -> int:
    """The Message Expiry Interval of what is passed on at ``wall``: what was received less the time that it waited, in
    whole seconds [MQTT-3.3.2-6]. A part of the last second is one: 0 would end at once what is still good.
    """
    left = expires_at - wall
    return int(left) if left >= 1.0 else int(left > 0.0)


class OwnedMessage(Message):
    """A retained message of which it is known who retained it: it counts for that user ("": for anonymous clients)."""

    __slots__ = ("user",)

    def __init__(self, message: Message, user: str) -> None:
        super().__init__(
            message.topic,
            message.payload,
            message.qos,
            retain=message.retain,
            properties=message.properties,
            expires_at=message.expires_at,
            publisher=message.publisher,
        )
        self.user = user

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) is True and isinstance(other, OwnedMessage) and other.user == self.user

    __hash__ = None


def retained_by(message: Message | None) -> str | None:
    """Who a retained message counts for; None: nobody."""
    return message.user if isinstance(message, OwnedMessage) else None


@dataclass(frozen=True, slots=True)
class Subscription:
    """One filter of one session with its options; ``filter`` includes ``$share/<group>/`` where shared."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int | None = None


class Standing(NamedTuple):
    """What rights may depend on besides user and client id, as it was when a client was let in, and by which link."""

    groups: frozenset[str] = frozenset()
    address: str = ""
    brought_rules: tuple[str, ...] = ()
    link: str = ""


#: Nothing is known.
NO_STANDING: Final = Standing()


@dataclass(frozen=True, slots=True)
class Will:
    """The message that a session leaves behind, with its delay in seconds."""

    message: Message
    delay: int = 0
    #: Message expiry interval; counted from the moment the will is published, not from CONNECT.
    expiry: int | None = None
    #: Of the client that left it.
    standing: Standing = NO_STANDING
