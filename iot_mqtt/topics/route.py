"""A route: that one receiver gets a topic, and with which options.

Overlapping subscriptions of one receiver become one route, so that it gets one copy [MQTT-3.3.4-2].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from iot_mqtt.values import Subscription


class Receiver(Protocol):
    """Who messages go to, hashed by identity; the broker's session is one."""

    @property
    def client_id(self) -> str:
        """What the hash policies of shared groups place members by."""
        ...

    @property
    def inflight_count(self) -> int:
        """Messages that it has not finished with, for the ``least_inflight`` policy."""
        ...


R = TypeVar("R", bound=Receiver)


class Route(Generic[R]):
    """One receiver with the options that its matching subscriptions add up to. Treat as frozen: routes are shared.

    ``parts`` is empty in the common case of one subscription without no-local. Otherwise it has every matching
    subscription, in the order of subscribing, so that ``merged`` can leave the no-local ones out.
    ``no_local`` is true if all of them are. ``order`` is when it was subscribed, as a running number.
    """

    __slots__ = (
        "receiver",
        "subscription",
        "order",
        "qos",
        "retain_as_published",
        "no_local",
        "identifiers",
        "parts",
    )

    def __init__(self, receiver: R, subscription: Subscription, order: int = 0) -> None:
        self.receiver = receiver
        self.subscription = subscription
        self.order = order
        self.qos = subscription.qos
        self.retain_as_published = subscription.retain_as_published
        self.no_local = subscription.no_local
        self.identifiers: tuple[int, ...] = () if subscription.identifier is None else (subscription.identifier,)
        self.parts: tuple[Subscription, ...] = (subscription,) if subscription.no_local else ()

    def __repr__(self) -> str:
        return f"<Route {self.receiver!r} qos={self.qos} {[part.filter for part in self.parts or [self.subscription]]}>"


def combined(parts: Sequence[Subscription], receiver: R) -> Route[R]:
    """One route for all of a receiver's matching subscriptions (at least one): highest QoS, every identifier."""
    route = Route(receiver, parts[0])
    if len(parts) == 1:
        return route
    identifiers = []
    for part in parts:
        route.qos = max(route.qos, part.qos)  # [MQTT-3.3.4-2]
        route.retain_as_published |= part.retain_as_published
        route.no_local &= part.no_local
        if part.identifier is not None:
            identifiers.append(part.identifier)
    # All of them, identical ones repeated, as section 3.3.2.3.8 wants [MQTT-3.3.4-4].
    route.identifiers = tuple(identifiers)
    route.parts = tuple(parts)
    return route


def merged(parts: Sequence[Subscription], exclude_no_local: bool = False, *, receiver: R) -> Route[R] | None:
    """The route that these subscriptions of ``receiver`` add up to; None if there is nothing left of them.

    With ``exclude_no_local`` it is the route for the receiver's own messages [MQTT-3.8.3-3].
    """
    kept = [part for part in parts if not (exclude_no_local and part.no_local)]
    return combined(kept, receiver) if kept else None
