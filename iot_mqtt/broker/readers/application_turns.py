"""Applications that are behind read the log in turns, so that devices are not kept waiting by how fast they take it.

::

    turn of the reactor   devices ─▶ one share of the log, for one application after the other ─▶ devices ─▶ …

However many applications there are, and however large their windows, so much is read between two turns of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Reader(Protocol):
    """A cursor of an application."""

    def read_on(self) -> None: ...


class ApplicationTurns:
    """Of all applications of a node. ``share``: messages a turn."""

    __slots__ = ("_call_soon", "_left", "_planned", "_share", "_waiting")

    def __init__(self, share: int, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._share = share
        self._call_soon = call_soon
        self._left = share
        self._planned = False
        #: In the order of their turns.
        self._waiting: dict[Reader, None] = {}

    def must_wait(self, reader: Reader, count: int) -> bool:
        """Whether the share of this turn is used up: it is told to read on when it is its turn. ``count``: messages
        that it would read.
        """
        if not self._planned:
            self._planned = True
            self._call_soon(self._next)
        if self._left <= 0:
            self._waiting[reader] = None
            return True
        self._waiting.pop(reader, None)
        self._left -= count
        return False

    def _next(self) -> None:
        """Another turn."""
        self._planned = False
        self._left = self._share
        waiting, self._waiting = self._waiting, {}
        for reader in waiting:
            reader.read_on()
