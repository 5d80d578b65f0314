"""Topics that are looked up for the first time, each of which may match thousands of filters: some in each turn.

::

    scan ─▶ known topics, and new ones while a turn has effort left ─▶ batches, served at once
         ─▶ the other new ones ─▶ runs, served one by one ─▶ no effort left ─▶ held, and nothing more is read
                                       ▲                                          │
                                       └── next turn: who has waited longest ◀────┘

A turn's effort is one for all connections. What is known costs none, and need not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.publishing.budget import Budget, Pause
from iot_mqtt.broker.turn_effort import TurnEffort
from iot_mqtt.codec import PublishRun
from iot_mqtt.topics import Effort, Routes

#: What a turn may look up, as the trie of filters counts it: some 5 ms, or two thousand ordinary topics.
TURN: Final = 60_000


class LookupTurns:
    """Of all connections of a node. ``effort`` is what is left of this turn."""

    __slots__ = ("effort", "_budget", "_routes", "_turns")

    def __init__(self, budget: Budget, routes: Routes[Any], call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._budget = budget
        self._routes = routes
        self._turns: TurnEffort[Connection] = TurnEffort(TURN, call_soon, partial(budget.go_on, why=Pause.TURN))
        self.effort: Effort = self._turns.effort
        routes.bound(self.effort)

    def holds(self, connection: Connection, run: PublishRun, topic: bytes) -> bool:
        """Whether a publish has to wait for another turn, because its topic is not known."""
        # What a gateway's link has put together is served whole.
        if connection.patient or self._routes.known(topic) or not self._turns.must_wait(connection):
            return False
        self._budget.pause(connection, Pause.TURN, [run])
        return True
