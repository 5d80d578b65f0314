"""Shedding: while the event loop is late, nobody new is let in, so that those who are there are served.

::

    serving ─ later than ``lag`` for ``seconds`` ─▶ busy: CONNACK 0x89 (3.x: 3)
       ▲                                              │
       └──── below half of it for ``seconds`` ────────┘

A moment of lag is nothing: what counts is that every look in all of the time finds it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from iot_mqtt.broker.connections.door import Door
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.counters import Counters

logger = logging.getLogger(__name__)

#: Down to this part of the lag it counts as over.
OVER = 0.5


@dataclass(frozen=True, slots=True)
class BusyLimits:
    """Seconds that the loop may be late (0: any), and for how long."""

    lag: float = 1.0
    seconds: float = 5.0


class Shedding:
    """Told of each look at the loop; says so at the door."""

    __slots__ = ("_counters", "_door", "_limits", "_since")

    def __init__(self, limits: BusyLimits, door: Door, counters: Counters) -> None:
        self._limits = limits
        self._door = door
        self._counters = counters
        #: When the loop was found to be as it is not yet taken to be; None: it is as it is taken to be.
        self._since: float | None = None

    def measured(self, lag: float, now: float) -> None:
        """The loop is so late."""
        limits, busy = self._limits, self._door.busy is not None
        if not limits.lag:
            return
        if (lag < limits.lag * OVER) if busy else (lag >= limits.lag):
            if self._since is None:
                self._since = now
            if now - self._since >= limits.seconds:
                self._since = None
                self._turn(busy=not busy, lag=lag)
        else:
            self._since = None

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator should know."""
        text = f"the node is busy: its loop is later than {self._limits.lag:g} s, and newcomers are refused"
        return () if self._door.busy is None else (Alarm(AlarmKind.BUSY, text),)

    def _turn(self, *, busy: bool, lag: float) -> None:
        if busy:
            self._counters.sheddings += 1
            self._door.busy = Refused("the server is busy", ReasonCode.SERVER_BUSY)
            logger.warning("newcomers are refused: the loop is %.2f s late, and has been for a while", lag)
        else:
            self._door.busy = None
            logger.warning("newcomers are let in again: the loop is %.2f s late", lag)
