"""What metrics need to know of a node; whatever has these attributes will do, so the broker is not imported."""

from __future__ import annotations

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
    def queued(self) -> int: ...

    @property
    def inflight(self) -> int: ...


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
