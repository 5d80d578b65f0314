"""What the admin side may ask of the broker; the only door from ``admin`` into it.

Answers are plain values, safe to turn into JSON. Listings are paged by key so that a node with a hundred
thousand sessions answers in bounded time and memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from iot_mqtt.ports.counters import Counters
from iot_mqtt.values import Message, Subscription


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """One connected client."""

    client_id: str
    username: str | None
    peer: str
    listener: str
    protocol: str  # "3.1", "3.1.1", "5.0"
    clean_start: bool
    keep_alive: int
    connected_at: float
    bytes_received: int
    bytes_sent: int
    outbox_bytes: int
    writable: bool
    subscriptions: int
    inflight: int
    queued: int


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One session, connected or not."""

    client_id: str
    connected: bool
    durable: bool
    expiry_interval: int
    created_at: float
    disconnected_at: float | None
    #: Why the last connection ended, by reason name.
    last_disconnect: str | None
    subscriptions: int
    inflight: int
    awaiting_release: int
    received: int
    queued: int
    queued_bytes: int
    delivered: int
    dropped: dict[str, int]
    denied: dict[str, int]
    has_will: bool
    #: "ready", or why nothing is being sent: "offline", "inflight_full", "outbox_full", "caught_up", "committing".
    state: str


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """One filter of one session."""

    client_id: str
    subscription: Subscription


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """The node in one look."""

    node_id: str
    version: str
    started_at: float
    ready: bool
    clients: int
    sessions: int
    subscriptions: int
    retained: int
    retained_bytes: int
    queued: int
    inflight: int


class BrokerView(Protocol):
    """The facade. ``after`` is the last key of the page before."""

    counters: Counters

    def info(self) -> BrokerInfo: ...

    def clients(self, after: str | None = None, limit: int = 100) -> list[ClientInfo]: ...

    def client(self, client_id: str) -> ClientInfo | None: ...

    def sessions(self, after: str | None = None, limit: int = 100) -> list[SessionInfo]: ...

    def session(self, client_id: str) -> SessionInfo | None: ...

    def subscriptions(
        self, client_id: str | None = None, after: tuple[str, str] | None = None, limit: int = 100
    ) -> list[SubscriptionInfo]: ...

    def retained(self, filter: str = "#", after: bytes | None = None, limit: int = 100) -> list[Message]: ...

    async def publish(self, message: Message) -> int:
        """Publish as the node itself; returns how many sessions matched, once it is committed."""
        ...

    async def kick(self, client_id: str) -> bool:
        """Close the client's connection (v5: 0x98); False if it has none."""
        ...

    async def purge(self, client_id: str) -> bool:
        """End the session and everything kept for it; False if there is none."""
        ...

    async def remove_retained(self, topic: bytes) -> bool: ...
