"""SUBSCRIBE: one verdict per filter, kept before SUBACK, retained messages after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iot_mqtt.broker.retention import RetainedReader
from iot_mqtt.codec import Request, Suback, Subscribe
from iot_mqtt.errors import ProtocolViolation, ReasonCode, Refused
from iot_mqtt.ports.access import Action
from iot_mqtt.topics import parse_shared, validate_filter
from iot_mqtt.values import Subscription

if TYPE_CHECKING:
    from iot_mqtt.broker.connection import Connection
    from iot_mqtt.broker.session import Session


def on_subscribe(connection: Connection, packet: Subscribe) -> None:
    """Serve every filter in its order and answer with as many reasons [MQTT-3.8.4-6]."""
    broker, session = connection.broker, connection.session
    assert session is not None
    broker.counters.packets_received["SUBSCRIBE"] += 1
    settings = broker.settings
    if len(packet.filters) > settings.max_filters_per_subscribe:
        raise ProtocolViolation("too many filters in one SUBSCRIBE", ReasonCode.QUOTA_EXCEEDED)
    identifier = _identifier(connection, packet)
    reasons: list[int] = []
    readers: list[RetainedReader] = []
    for request in packet.filters:
        try:
            subscription, is_new = _subscribe(connection, session, request, identifier)
        except Refused as refusal:
            reasons.append(refusal.reason if connection.five else ReasonCode.UNSPECIFIED_ERROR)
            continue
        reasons.append(subscription.qos)
        if _wants_retained(subscription, is_new):
            readers.append(RetainedReader(subscription))
    data = Suback(packet_id=packet.packet_id, reasons=tuple(reasons))
    connection.reply(data, broker.store.latest if session.durable else 0)
    if readers:
        broker.retention.read_for(session, readers)


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
    connection: Connection, session: Session, request: Request, identifier: int | None
) -> tuple[Subscription, bool]:
    """Check and add one filter; ``Refused`` becomes its reason in SUBACK, any other error ends the connection."""
    broker = connection.broker
    settings = broker.settings
    inner = _checked(connection, request)
    assert connection.permissions is not None
    if not connection.permissions.unrestricted and not connection.permissions.allows(Action.SUBSCRIBE, inner):
        broker.counters.denied["subscribe"] += 1
        session.count_denied("subscribe")
        raise Refused("not allowed to subscribe to that", ReasonCode.NOT_AUTHORIZED)
    subscription = Subscription(
        filter=request.filter,
        qos=min(request.qos, settings.max_qos),
        no_local=request.no_local,
        retain_as_published=request.retain_as_published,
        retain_handling=request.retain_handling,
        identifier=identifier,
    )
    known = session.subscriptions.get(request.filter)
    if known is None and len(session.subscriptions) >= settings.max_subscriptions_per_client:
        raise Refused("too many subscriptions", ReasonCode.QUOTA_EXCEEDED)
    if known != subscription:  # [MQTT-3.8.4-3] the same filter again replaces
        session.subscriptions[request.filter] = subscription
        broker.routes.subscribe(session, subscription)
        if session.durable:
            broker.store.save_subscription(session.client_id, subscription)
    return subscription, known is None


def _checked(connection: Connection, request: Request) -> str:
    """The filter that topics are held against, checked against syntax and against what is offered."""
    settings = connection.broker.settings
    validate_filter(request.filter, max_levels=settings.max_topic_levels)
    shared = parse_shared(request.filter)
    inner = request.filter
    if shared is not None:
        if not settings.shared_available:
            raise Refused("shared subscriptions are not offered here", ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED)
        inner = shared[1]
    if not settings.wildcard_available and ("+" in inner or "#" in inner):
        raise Refused("wildcards are not offered here", ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED)
    return inner


def _wants_retained(subscription: Subscription, is_new: bool) -> bool:
    """Retain handling 0: always, 1: for a new subscription, 2: never; never for shared ones [MQTT-3.8.4-4]."""
    if parse_shared(subscription.filter) is not None:
        return False
    return subscription.retain_handling == 0 or (subscription.retain_handling == 1 and is_new)
