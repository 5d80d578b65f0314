"""Packets of filters, which may be ten thousand each: served some filters at a time, so that others come in between.

::

    SUBSCRIBE ─▶ some filters ─▶ a turn has served enough, of all connections ─▶ held, first of what waits
                     ▲                                                                    │
                     └──────────────────────────── next turn ─────────────────────────────┘

What the client sends behind it waits, as if the packet were served whole. Of one that leaves meanwhile the rest is
forgotten; nobody is told of the beginning, which its session has or ends with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.publishing.budget import Budget, Pause
from iot_mqtt.broker.turn_effort import TurnEffort

#: Filters that a turn serves, some ten microseconds each; and of one packet, before those of others.
TURN: Final = 500
AT_ONCE: Final = 100
#: Filters whose answer takes as long as serving one.
ANSWERED: Final = 8


class FilterPacket(Protocol):
    """A packet of filters, served as far as it is."""

    @property
    def count(self) -> int:
        """How many filters it has."""
        ...

    @property
    def place(self) -> int:
        """The filter that is the next to be served."""
        ...

    def serve(self, until: int) -> None:
        """Serve the filters from ``place`` to another one."""
        ...

    def answer(self) -> None:
        """All are served."""
        ...


class FilterTurns:
    """Of all connections of a node."""

    __slots__ = ("_budget", "_turns")

    def __init__(self, budget: Budget, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._budget = budget
        self._turns: TurnEffort[Connection] = TurnEffort(TURN, call_soon, partial(budget.go_on, why=Pause.TURN))

    def serve(self, connection: Connection, packet: FilterPacket) -> None:
        """It came, or goes on."""
        if self._turns.must_wait(connection):
            self._budget.pause(connection, Pause.TURN, [packet])
            return
        effort, begin = self._turns.effort, packet.place
        packet.serve(min(packet.count, begin + AT_ONCE))
        effort.left -= packet.place - begin
        if packet.place < packet.count:
            self._turns.wait(connection)
            self._budget.pause(connection, Pause.TURN, [packet])
        else:
            effort.left -= packet.count // ANSWERED
            packet.answer()
