"""Packets of all connections that have begun and are not complete: bounded, and the one that began first pays.

Each is within the bound of one packet; some hundreds of them fill the memory all the same. An honest one is complete
in a moment. Only those that come in large pieces are counted, so the others cost nothing.
"""

from __future__ import annotations

from typing import Protocol

from iot_mqtt.pipeline.reasons import UNFINISHED_TOTAL, CloseReason

__all__ = ["Unfinished"]


class Sender(Protocol):
    """The channel of a client."""

    def abort(self, reason: CloseReason) -> None: ...


class Unfinished:
    """What the connections of all listeners share."""

    __slots__ = ("held", "limit", "_of")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        #: Bytes that are held in all.
        self.held = 0
        #: In the order in which the packets began.
        self._of: dict[Sender, int] = {}

    def change(self, channel: Sender, size: int, *, anew: bool) -> None:
        """So many bytes of its packet are there; ``anew``: it is another packet than before."""
        before = self._of.get(channel, 0)
        if before and (anew or not size):
            del self._of[channel]
        if size:
            self._of[channel] = size
        self.held += size - before
        while self.held > self.limit:
            oldest = next(iter(self._of))
            self.forget(oldest)
            oldest.abort(UNFINISHED_TOTAL)

    def forget(self, channel: Sender) -> None:
        """It is gone."""
        self.held -= self._of.pop(channel, 0)
