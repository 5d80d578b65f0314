"""Half-open connections: their clients have not said who they are. Bounded in all, of each listener, of each address.

Nobody is refused for them: where there are too many, the one that has been silent longest is closed, of the address or
the listener that has too many, or of the listener with most. An honest client is done in a moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from iot_mqtt.pipeline.reasons import HALF_OPEN, CloseReason

__all__ = ["HalfOpen", "HalfOpenLimits"]


class Newcomer(Protocol):
    """A channel whose client has not said who it is."""

    #: What its address counts as; empty: it does not count, or is not known.
    source: str

    @property
    def listener(self) -> str: ...

    def abort(self, reason: CloseReason) -> None: ...


@dataclass(frozen=True, slots=True)
class HalfOpenLimits:
    """Connections at once; 0 for a listener: half of all, for an address: a quarter."""

    most: int = 10_000
    most_of_listener: int = 0
    most_of_address: int = 0


class HalfOpen:
    """All of a node."""

    __slots__ = ("_limits", "_of", "_of_listener", "_of_source")

    def __init__(self, limits: HalfOpenLimits) -> None:
        self._limits = limits
        #: Each with the address that it is counted for.
        self._of: dict[Newcomer, str] = {}
        #: Both in the order of coming.
        self._of_listener: dict[str, dict[Newcomer, None]] = {}
        self._of_source: dict[str, dict[Newcomer, None]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def limit(self, limits: HalfOpenLimits) -> None:
        """So many from now on; those that are too many go as others come."""
        self._limits = limits

    def within(self, descriptors: int) -> None:
        """Never more than a half of what there is for connections."""
        limits = self._limits
        most = max(1, min(limits.most, descriptors // 2))
        self._limits = HalfOpenLimits(most, limits.most_of_listener, limits.most_of_address)

    def add(self, channel: Newcomer) -> None:
        """A connection was accepted; whoever has to go for it goes."""
        limits, listener = self._limits, self._of_listener.setdefault(channel.listener, {})
        self._of[channel] = ""
        listener[channel] = None
        if len(listener) > (limits.most_of_listener or max(1, limits.most // 2)):
            self._give_way(listener)
        if len(self._of) > limits.most:
            self._give_way(max(self._of_listener.values(), key=len))
        if channel.source:
            self.placed(channel)

    def placed(self, channel: Newcomer) -> None:
        """It is known where a connection comes from."""
        if self._of.get(channel) != "":
            return
        source = self._of[channel] = channel.source
        those = self._of_source.setdefault(source, {})
        those[channel] = None
        if len(those) > (self._limits.most_of_address or max(1, self._limits.most // 4)):
            self._give_way(those)

    def remove(self, channel: Newcomer) -> None:
        """It is known who the client is, or the connection is gone."""
        source = self._of.pop(channel, None)
        if source is None:
            return
        del self._of_listener[channel.listener][channel]
        if source:
            those = self._of_source[source]
            del those[channel]
            if not those:
                del self._of_source[source]

    def _give_way(self, those: dict[Newcomer, None]) -> None:
        oldest = next(iter(those))
        self.remove(oldest)
        oldest.abort(HALF_OPEN)
