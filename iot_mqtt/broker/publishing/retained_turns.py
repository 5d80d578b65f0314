"""What reading retained messages takes of a turn of the reactor, for all sessions together.

::

    SUBSCRIBE, room again ─▶ pages, for one session after the other ─▶ the turn's effort is used up ─▶ the others wait
                                  ▲                                                                        │
                                  └──────────────── next turn: who has waited longest first ───────────────┘
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from iot_mqtt.broker.session import Session
from iot_mqtt.topics import Effort

#: The effort of a turn: some milliseconds.
TURN: Final = 32_000


class RetainedTurns:
    """Of all sessions of a node; ``go_on`` is called for one that had to wait."""

    __slots__ = ("effort", "_call_soon", "_go_on", "_planned", "_waiting")

    def __init__(self, call_soon: Callable[[Callable[[], None]], None], go_on: Callable[[Session], None]) -> None:
        #: What is left of this turn; who reads takes from it what that took.
        self.effort = Effort(TURN)
        self._call_soon = call_soon
        self._go_on = go_on
        self._planned = False
        #: In the order of their turns.
        self._waiting: dict[Session, None] = {}

    def must_wait(self, session: Session) -> bool:
        """Whether nothing is left: it is told to go on when something is."""
        self._plan()
        if self.effort.left > 0:
            return False
        self._waiting[session] = None
        return True

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            self._call_soon(self._next)

    def _next(self) -> None:
        """Another turn. Who gets some of it goes behind all others that wait."""
        self._planned = False
        self.effort.left = TURN
        for session in list(self._waiting):
            if self.effort.left <= 0:
                break
            del self._waiting[session]
            self._go_on(session)
        if self._waiting:
            self._plan()
