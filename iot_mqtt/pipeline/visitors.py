"""The addresses that connections come from: how many each has open, and how fast it may begin new ones.

IPv6 counts by /64, which is what one subscriber has. Some networks count for nothing: behind one address of this
machine or of a load balancer are many clients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from iot_mqtt.pipeline.proxy_protocol import Network
from iot_mqtt.ports.addresses import parsed, source_of_host

__all__ = ["ADDRESS_CONNECTIONS", "ADDRESS_RATE", "AddressLimits", "Pace", "Visitors"]

ADDRESS_CONNECTIONS: Final = "address_connections"
ADDRESS_RATE: Final = "address_rate"
#: Seconds that sums of fractions may be wrong by.
ROUNDING: Final = 1e-6
#: Addresses without a connection whose rate is remembered; those that left longest ago make room.
MOST_GONE: Final = 10_000


@dataclass(frozen=True, slots=True)
class AddressLimits:
    """Of each address: connections, and new ones in a second after ``burst`` at once; 0: any number."""

    most: int = 0
    rate: float = 0.0
    burst: int = 1
    unlimited: tuple[Network, ...] = ()


class Pace:
    """A rate, kept by one moment: when what was taken so far would have been due at a steady pace."""

    __slots__ = ("due",)

    def __init__(self) -> None:
        self.due = 0.0

    def ahead(self, now: float, rate: float, burst: int) -> float:
        """Seconds until one more may be taken; 0: now."""
        ahead = self.due - now - (burst - 1) / rate
        return ahead if ahead > ROUNDING else 0.0

    def take(self, now: float, rate: float) -> None:
        """One more."""
        self.due = max(self.due, now) + 1 / rate


class _Visitor(Pace):
    """One address."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        super().__init__()
        self.open = 0


class Visitors:
    """All listeners share them. ``came`` and ``left`` are a look into a dictionary each."""

    __slots__ = ("limits", "source", "_gone", "_known", "_now")

    def __init__(self, limits: AddressLimits, now: Callable[[], float]) -> None:
        self.limits = limits
        self._now = now
        self._known: dict[str, _Visitor] = {}
        #: Those of them that have no connection, in the order of their leaving.
        self._gone: dict[str, None] = {}
        #: Host → what it counts as; empty: it does not count.
        self.source: Callable[[str], str]
        self.forget_sources()

    def __len__(self) -> int:
        return len(self._known)

    def forget_sources(self) -> None:
        """Other networks count for nothing than before."""
        self.source = lru_cache(maxsize=4096)(self._source)

    def came(self, source: str, most: int | None = None) -> str | None:
        """One more connection of an address, unless it is one too many: then why. ``left`` has to follow else.

        ``most``: that it may have now, if that is fewer than ever.
        """
        limits, visitor = self.limits, self._known.get(source)
        if visitor is None:
            visitor = self._known[source] = _Visitor()
        elif (limits.most and visitor.open >= limits.most) or (most is not None and visitor.open >= most):
            return ADDRESS_CONNECTIONS
        elif not visitor.open:
            self._gone.pop(source, None)
        if limits.rate:
            now = self._now()
            if visitor.ahead(now, limits.rate, limits.burst):
                if not visitor.open:
                    self._gone[source] = None
                return ADDRESS_RATE
            visitor.take(now, limits.rate)
        visitor.open += 1
        return None

    def left(self, source: str) -> None:
        """One of its connections is gone."""
        visitor = self._known[source]
        visitor.open -= 1
        if visitor.open:
            return
        if not self.limits.rate:
            del self._known[source]
            return
        self._gone[source] = None
        now = self._now()
        # Two looks for one that leaves: what is over goes faster than it comes.
        for oldest in [one for one, _ in zip(self._gone, range(2), strict=False)]:
            if self._known[oldest].due <= now or len(self._gone) > MOST_GONE:
                del self._gone[oldest], self._known[oldest]

    def _source(self, host: str) -> str:
        found = parsed(host)
        if found is not None and any(found in network for network in self.limits.unlimited):
            return ""
        return source_of_host(host)
