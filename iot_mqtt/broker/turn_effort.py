"""What one kind of work takes of a turn of the reactor, whoever it is done for.

::

    asked for ─▶ done, for one after the other ─▶ the turn's effort is used up ─▶ the others wait
                           ▲                                                           │
                           └───────── next turn: who has waited longest first ─────────┘

Work that is asked for during a turn, and work that goes on at its end, have an effort each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from iot_mqtt.topics import Effort

W = TypeVar("W")


class TurnEffort(Generic[W]):
    """``share``: of a turn, in units of who does the work; ``go_on`` is called for one that had to wait."""

    __slots__ = ("effort", "_share", "_call_soon", "_go_on", "_planned", "_waiting")

    def __init__(self, share: int, call_soon: Callable[[Callable[[], None]], None], go_on: Callable[[W], None]) -> None:
        #: What is left of this turn; who does the work takes from it what that took.
        self.effort = Effort(share)
        self._share = share
        self._call_soon = call_soon
        self._go_on = go_on
        self._planned = False
        #: In the order of their turns.
        self._waiting: dict[W, None] = {}

    def must_wait(self, waiter: W) -> bool:
        """Whether nothing is left: it is told to go on when something is."""
        self._plan()
        if self.effort.left > 0:
            return False
        self._waiting[waiter] = None
        return True

    def wait(self, waiter: W) -> None:
        """It has had enough for now, and goes on behind all others that wait."""
        self._plan()
        self._waiting[waiter] = None

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            self._call_soon(self._next)

    def _next(self) -> None:
        """Another turn."""
        self._planned = False
        self.effort.left = self._share
        while self._waiting and self.effort.left > 0:
            waiter = next(iter(self._waiting))
            del self._waiting[waiter]
            self._go_on(waiter)
        if self._waiting:
            self._plan()
