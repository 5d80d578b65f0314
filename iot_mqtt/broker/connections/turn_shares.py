"""What one connection may take of a turn of the reactor, so that a client that sends much keeps nobody else waiting.

::

    read ─▶ serve, packet by packet ─▶ its share is used up ─▶ the rest is held; nothing more is read from it
                 ▲                                                   │
                 └──── next turn: who has waited longest first ──────┘

A packet is served whole. What comes in one read may be thousands of them, and each may cost a millisecond: a
subscription with retained messages, a publish for many durable sessions. Reads of a few packets need no look at the
clock, longer ones one for every eighth packet, or run of packets; so do batches that are served one by one. What the
codec has left undecoded waits for another turn like the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.publishing.budget import Budget, Pause
from iot_mqtt.codec import Undecoded

#: Seconds that a connection may take of a turn; and what it may at least, where others have taken ``TURN`` already.
SHARE: Final = 0.020
LEAST: Final = 0.005
TURN: Final = 0.020


class TurnShares:
    """Of the connections of a node."""

    __slots__ = ("monotonic", "_budget", "_call_soon", "_waiting", "_planned", "_used")

    def __init__(
        self, budget: Budget, monotonic: Callable[[], float], call_soon: Callable[[Callable[[], None]], None]
    ) -> None:
        self.monotonic = monotonic
        self._budget = budget
        self._call_soon = call_soon
        #: Connections that are held, in the order of the turns they have had.
        self._waiting: deque[Connection] = deque()
        self._planned = False
        #: Seconds of this turn that were taken by those whose share was too short.
        self._used = 0.0

    @property
    def share(self) -> float:
        """Seconds for who begins now."""
        return SHARE if self._used < TURN else LEAST

    def over(self, began: float) -> bool:
        """Whether who began then has had its share."""
        return self.monotonic() - began > self.share

    def put_off(self, connection: Connection, rest: list[object], seconds: float) -> None:
        """It has had its share, and goes on with the rest in another turn."""
        self._used += seconds
        self._waiting.append(connection)
        self._budget.pause(connection, Pause.TURN, rest)
        if not self._planned:
            self._planned = True
            self._call_soon(self._go_on)

    def undecoded(self, connection: Connection, _: Undecoded) -> None:
        """There are more packets than are decoded in a turn."""
        self.put_off(connection, [], 0.0)

    def _go_on(self) -> None:
        """The turn is over; part of the next one is for those who wait."""
        self._planned, self._used = False, 0.0
        for _ in range(len(self._waiting)):
            if self._used >= TURN:
                break
            # Whatever it does with its share: decoding counts as well.
            used, began = self._used, self.monotonic()
            self._budget.go_on(self._waiting.popleft(), Pause.TURN)
            self._used = used + self.monotonic() - began
        if self._waiting and not self._planned:
            self._planned = True
            self._call_soon(self._go_on)
