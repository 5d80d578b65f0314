"""Filters that enter and leave the routing table by the thousand: some in each turn, whoever has them.

::

    a session ends, another node says what it wants ─▶ few filters: at once
                                                    ─▶ many: a turn's effort is used up ─▶ the rest waits
                                                                    ▲                          │
                                                                    └────── next turn ◀────────┘

A turn's effort is one for all sessions that end and all other nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iot_mqtt.broker.session import Session
from iot_mqtt.broker.turn import Turn
from iot_mqtt.broker.turn_effort import TurnEffort

#: Filters that are removed or added at once.
AT_ONCE: Final = 64
#: What a turn may change, in microseconds or so: some five hundred filters, or fifty of a hundred levels.
TURN: Final = 6_000
#: What a filter takes, beside one for each level.
FILTER: Final = 10


def effort_of(filter: str) -> int:
    """What it takes to add or remove a filter."""
    return FILTER + filter.count("/")


def goes_in_turns(session: Session) -> bool:
    """Whether a session has so many filters that they leave the routes some at a time when it ends."""
    return len(session.subscriptions) > AT_ONCE


class RouteTurns:
    """Of one node. Work is an iterator that changes a filter with each step, and says what that took."""

    __slots__ = ("_turn", "_turns")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._turns: TurnEffort[Iterator[int]] = TurnEffort(TURN, turn.call_soon, self._go_on)

    def begin(self, work: Iterator[int], filters: int) -> None:
        """Do it, for so many filters: now if they are few and the turn has effort left."""
        if filters > AT_ONCE:
            self._turns.wait(work)
        elif not self._turns.must_wait(work):
            self._go_on(work)

    def _go_on(self, work: Iterator[int]) -> None:
        effort = self._turns.effort
        for cost in work:
            effort.left -= cost
            if effort.left <= 0:
                self._turns.wait(work)
                break
        # What was staged is to be committed, and told.
        self._turn.plan()
