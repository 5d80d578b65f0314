"""What metrics need to know of a node; whatever has these attributes will do, so the broker is not imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class NodeFacts(Protocol):
    """Figures that are true now, as opposed to counters, which only grow."""

    @property
    def node_id(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def started_at(self) -> float: ...

    @property
    def ready(self) -> bool: ...

    @property
    def clients(self) -> int: ...

    @property
    def sessions(self) -> int: ...

    @property
    def subscriptions(self) -> int: ...

    @property
    def retained(self) -> int: ...

    @property
    def retained_bytes(self) -> int: ...

    @property
    def retained_system(self) -> int: ...

    @property
    def queued(self) -> int: ...

    @property
    def inflight(self) -> int: ...

    @property
    def waiting(self) -> int: ...

    @property
    def backlog(self) -> int: ...

    @property
    def uncounted(self) -> int: ...

    @property
    def largest_backlog(self) -> int: ...

    @property
    def furthest_lag(self) -> int: ...

    @property
    def paused(self) -> int: ...


class LogFacts(Protocol):
    """The log of messages, and the room for it."""

    @property
    def messages(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def generations(self) -> int: ...

    @property
    def streams(self) -> int: ...

    @property
    def messages_appended(self) -> int: ...

    @property
    def bytes_appended(self) -> int: ...

    @property
    def pages_written(self) -> int: ...

    @property
    def pages_read(self) -> int: ...

    @property
    def bytes_read(self) -> int: ...

    @property
    def damaged_pages(self) -> int: ...

    @property
    def disk_level(self) -> str: ...

    @property
    def disk_used(self) -> int: ...

    @property
    def disk_limit(self) -> int: ...

    @property
    def disk_free(self) -> int: ...

    @property
    def uncommitted_bytes(self) -> int: ...

    @property
    def uncommitted_operations(self) -> int: ...

    @property
    def trouble(self) -> str | None: ...


class ConnectionCounts(Protocol):
    """What a listener counted."""

    @property
    def accepted(self) -> int: ...

    @property
    def refused(self) -> int: ...

    @property
    def open(self) -> int: ...


class ListenerFacts(Protocol):
    """One open port."""

    @property
    def name(self) -> str: ...

    @property
    def counts(self) -> ConnectionCounts: ...


@dataclass(frozen=True, slots=True)
class ListenerCounts:
    """``ListenerFacts`` of a port that is no listener of clients."""

    name: str
    counts: ConnectionCounts
