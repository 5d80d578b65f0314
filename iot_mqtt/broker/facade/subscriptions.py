"""Subscriptions, routes and shared groups as the admin side sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from iot_mqtt.errors import Refused
from iot_mqtt.values import Subscription


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """One filter of one session."""

    client_id: str
    subscription: Subscription


@dataclass(frozen=True, slots=True)
class RouteInfo:
    """A filter that somebody has subscribed to."""

    filter: str
    sessions: int
    #: Of these.
    connected: int


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A shared group, as far as its members, or messages that wait for it, are at one node."""

    #: With ``$share/<group>/``.
    filter: str
    group: str
    #: The filter that topics are held against.
    topics: str
    members: int
    connected: int
    #: The first of the members.
    client_ids: list[str]
    #: Messages in the logs that the node gives out, its own as a rule, that nobody has got yet.
    waiting: int


@dataclass(frozen=True, slots=True)
class GroupShare:
    """What one member of a shared group has beside it, as it looks from its node."""

    #: With ``$share/<group>/``.
    filter: str
    #: Which member gets a message: ``mqtt.shared_policy``.
    policy: str
    #: Other members that are connected, here and at other nodes, by name.
    here: tuple[str, ...]
    elsewhere: tuple[str, ...]
    #: The other member that gets everything now; None: nobody does.
    holder: str | None
    #: The policy keeps messages together: they wait for their member although another one has room.
    keeps_order: bool


class NotPermitted(Refused):
    """The client that something is done for may not have it."""


class SubscriptionPart(Protocol):
    """Who gets what, and subscriptions that are made and given up for clients."""

    async def routes(self, topic: str | None = None, after: str | None = None, limit: int = 100) -> list[RouteInfo]:
        """By filter; ``topic``: only filters that match it."""
        ...

    def shares(self, client_id: str) -> list[GroupShare]:
        """The shared groups of a session, with who else is in them."""
        ...

    async def groups(self, after: str | None = None, limit: int = 100) -> list[GroupInfo]:
        """By filter."""
        ...

    async def subscribe(self, client_id: str, wanted: Subscription) -> Subscription | None:
        """As the session's client would; returns what it has then, when it is committed and in force at all nodes.
        None: there is no such session. Raises ``NotPermitted`` for what it may not have.
        """
        ...

    async def unsubscribe(self, client_id: str, filter: str) -> bool | None:
        """False: there is no such subscription. None: there is no such session."""
        ...
