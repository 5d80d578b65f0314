"""SUBSCRIBE: one verdict per filter, kept before SUBACK, retained messages after it.

Retained messages are for those who want to know how things are; a replay says how they came to be so, and gets none.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from iot_mqtt.broker.readers.cursors import is_plain
from iot_mqtt.broker.readers.replay import PROPERTY, beginning, by_property
from iot_mqtt.codec import Request, Suback, Subscribe
from iot_mqtt.errors import ProtocolViolation, ReasonCode, Refused
from iot_mqtt.ports.access import Action
from iot_mqtt.topics import parse_replay, parse_shared, validate_filter
from iot_mqtt.values import Subscription

if TYPE_CHECKING:
    from iot_mqtt.broker.connections.connection import Connection
    from iot_mqtt.broker.session import Session


class _Asked(NamedTuple):
    """A request, understood."""

    #: What the subscription is kept under.
    filter: str
    #: What topics, and rights, are held against.
    inner: str
    #: Where a replay begins.
    begin: int | float | None


def on_subscribe(connection: Connection, packet: Subscribe) -> None:
    """Serve every filter in its order and answer with as many reasons [MQTT-3.8.4-6]."""
    broker, session = connection.broker, connection.session
    assert session is not None
    broker.counters.packets_received["SUBSCRIBE"] += 1
    settings = broker.settings
    if len(packet.filters) > settings.max_filters_per_subscribe:
        raise ProtocolViolation("too many filters in one SUBSCRIBE", ReasonCode.QUOTA_EXCEEDED)
    identifier = _identifier(connection, packet)
    if connection.max_packet_size:
        # Before anything is done that could not be answered.
        connection.written_to_fit(Suback(packet_id=packet.packet_id, reasons=(0,) * len(packet.filters)))
    reasons: list[int] = []
    wanted: list[Subscription] = []
    for request in packet.filters:
        try:
            asked = _understood(connection, request, packet)
            subscription, is_new = _subscribe(connection, session, request, asked, identifier)
        except Refused as refusal:
            reasons.append(refusal.reason if connection.five else ReasonCode.UNSPECIFIED_ERROR)
            continue
        reasons.append(subscription.qos)
        if _wants_retained(subscription, is_new):
            wanted.append(subscription)
    broker.accompaniment.by.client_came(connection)
    answer = Suback(packet_id=packet.packet_id, reasons=tuple(reasons))
    # SUBACK says that it is in force wherever something is published. What was kept is read then: a message that
    # another node keeps before it knows of the subscription is not forwarded.
    broker.sessions.others.when_in_force(session, partial(_answer, connection, answer, wanted))


def _answer(connection: Connection, answer: Suback, wanted: list[Subscription]) -> None:
    broker, session = connection.broker, connection.session
    if session is not None and not connection.closed:
        connection.reply(answer, broker.store.latest if session.durable else 0)
        # Meanwhile it may have been replaced, or given up.
        known = broker.subscriptions.known
        wanted = [one for one in wanted if known(session, one.filter) == one]
        if wanted:
            broker.retained_reading.read_for(session, wanted)


def _identifier(connection: Connection, packet: Subscribe) -> int | None:
    identifiers = packet.properties.subscription_identifiers
    if not identifiers:
        return None
    if not connection.broker.settings.subscription_identifiers_available:
        raise ProtocolViolation(
            "subscription identifiers are not offered here", ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED
        )
    return identifiers[0]


def _subscribe(
    connection: Connection, session: Session, request: Request, asked: _Asked, identifier: int | None
) -> tuple[Subscription, bool]:
    """Add one filter; ``Refused`` becomes its reason in SUBACK, any other error ends the connection."""
    broker = connection.broker
    settings = broker.settings
    _require(connection, session, Action.SUBSCRIBE, asked.inner)
    if asked.begin is not None:
        _require(connection, session, Action.REPLAY, asked.inner)
    subscription = Subscription(
        filter=asked.filter,
        qos=min(request.qos, settings.max_qos),
        no_local=request.no_local,
        retain_as_published=request.retain_as_published,
        retain_handling=request.retain_handling,
        identifier=identifier,
    )
    known = broker.subscriptions.known(session, asked.filter)
    if known is None and len(session.subscriptions) >= settings.max_subscriptions_per_client:
        raise Refused("too many subscriptions", ReasonCode.QUOTA_EXCEEDED)
    broker.subscriptions.add(session, subscription, asked.begin or 0)
    return subscription, known is None


def _require(connection: Connection, session: Session, action: Action, inner: str) -> None:
    permissions = connection.permissions
    assert permissions is not None
    if not permissions.unrestricted and not permissions.allows(action, inner):
        connection.broker.counters.denied[action.value] += 1
        session.count_denied(action.value)
        raise Refused(f"not allowed to {action.value} that", ReasonCode.NOT_AUTHORIZED)


def _understood(connection: Connection, request: Request, packet: Subscribe) -> _Asked:
    """Check a request against syntax and against what is offered."""
    settings = connection.broker.settings
    filter = inner = request.filter
    validate_filter(filter, max_levels=settings.max_topic_levels)
    shared, replay = parse_shared(filter), parse_replay(filter)
    begin: int | float | None = None
    now = connection.broker.clock.wall()
    if shared is not None:
        if not settings.shared_available:
            raise Refused("shared subscriptions are not offered here", ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED)
        inner = shared[1]
    if replay is not None:
        begin, inner = beginning(replay[0], now), replay[1]
    else:
        begins = [value for name, value in packet.properties.user_properties if name == PROPERTY]
        if begins:
            filter, begin = by_property(filter), beginning(begins[-1], now)
    if not settings.wildcard_available and ("+" in inner or "#" in inner):
        raise Refused("wildcards are not offered here", ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED)
    return _Asked(filter, inner, begin)


def _wants_retained(subscription: Subscription, is_new: bool) -> bool:
    """Retain handling 0: always, 1: for a new subscription, 2: never; only plain ones [MQTT-3.8.4-4]."""
    if not is_plain(subscription.filter):
        return False
    return subscription.retain_handling == 0 or (subscription.retain_handling == 1 and is_new)
