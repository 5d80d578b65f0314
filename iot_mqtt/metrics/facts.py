"""What a port counts that is open to somebody; whatever has these attributes will do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class ConnectionCounts(Protocol):
    """What a listener counted."""

    @property
    def accepted(self) -> int: ...

    @property
    def refused(self) -> int: ...

    @property
    def open(self) -> int: ...

    @property
    def refusals(self) -> Mapping[str, int]:
        """Refused connections by why."""
        ...


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
