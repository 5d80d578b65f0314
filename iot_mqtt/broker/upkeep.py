"""Periodic work on the log: retention drops generations whose time is over, and counts whom that costs what."""

from __future__ import annotations

import logging
from typing import Protocol

from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.losses import Cause, text_of
from iot_mqtt.broker.readers.census import Census
from iot_mqtt.broker.retention_clock import RetentionClock
from iot_mqtt.broker.turn import Turn
from iot_mqtt.errors import ReasonCode, Refused, Unavailable
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.log import Log

logger = logging.getLogger(__name__)

#: An alarm about lost messages stands for so long.
LOST_SECONDS = 3600.0


class Follower(Protocol):
    """Who reads the whole log, at a pace of its own."""

    async def write_off(self, generation: int, cause: Cause) -> None:
        """Count what it loses with a generation, and read no further until ``go_on``."""
        ...

    def go_on(self) -> None: ...


class Upkeep:
    """Never two at once: a generation is written off and dropped before the next is looked at."""

    __slots__ = (
        *("followers", "_log", "_census", "_counters", "_turn", "_clock", "_time", "_busy"),
        *("_lost", "_lost_at", "_causes"),
    )

    def __init__(
        self, log: Log, census: Census, counters: Counters, turn: Turn, clock: Clock, time: RetentionClock
    ) -> None:
        """``time``: by which messages are removed."""
        self._log = log
        self._census = census
        self._counters = counters
        self._turn = turn
        self._clock = clock
        self._time = time
        self._busy = False
        #: What sessions had lost when that was looked at, when (monotonic) it was last more than before, and why.
        self._lost = 0
        self._lost_at: float | None = None
        self._causes: set[Cause] = set()
        self.followers: list[Follower] = []

    def begin(self) -> None:
        """Drop what is due, in the background. Called every few seconds; a failure is tried again then."""
        if not self._busy:
            self.note_losses(Cause.RETENTION)
            self._busy = True
            drive(self._retain(), self._ended, self._failed)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator has to know."""
        if self._lost_at is None or self._clock.monotonic() - self._lost_at >= LOST_SECONDS:
            return ()
        text = f"sessions have lost {self._lost} messages: {text_of(self._causes)} before they were read"
        return (Alarm(AlarmKind.RETENTION, text),)

    def note_losses(self, cause: Cause) -> None:
        """Of what is more than before. Also losses of other nodes' logs, and what a reader finds missing."""
        lost = self._counters.dropped[Drop.RETENTION]
        if lost > self._lost:
            self._lost, self._lost_at = lost, self._clock.monotonic()
            self._causes.add(cause)

    def _ended(self, _: None) -> None:
        self._busy = False

    def _failed(self, error: BaseException) -> None:
        self._busy = False
        logger.error("the log's retention failed; trying again: %s", error)

    async def _retain(self) -> None:
        wall = self._clock.wall()
        due = self._log.due(wall, wall - self._time.now())
        # Closing a generation is a change that has to be committed.
        self._turn.plan()
        for generation in due:
            await self._drop(generation.id, Cause.RETENTION)

    async def _drop(self, generation: int, cause: Cause) -> None:
        # Nothing is read of a generation whose dropping has begun: when it is repeated, nothing is lost once more. The
        # readers here go on until then, so they come last.
        self.note_losses(Cause.RETENTION)
        before = self._counters.dropped[Drop.RETENTION]
        try:
            for follower in self.followers:
                await follower.write_off(generation, cause)
            await self._census.write_off(generation)
            await self._log.drop(generation)
        finally:
            self.note_losses(cause)
            for follower in self.followers:
                follower.go_on()
        lost = self._counters.dropped[Drop.RETENTION] - before
        level = logging.WARNING if lost else logging.INFO
        logger.log(level, "a generation of the log was dropped", extra={"generation": generation, "lost": lost})

    async def drop(self, generation: int) -> bool:
        """Drop a closed generation by order; False if there is none of that number."""
        found = next((one for one in self._log.generations() if one.id == generation), None)
        if found is None:
            return False
        if not found.closed:
            raise Refused(f"generation {generation} still takes messages", ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
        if self._busy:
            raise Unavailable("generations are being dropped; try again")
        self._busy = True
        try:
            await self._drop(generation, Cause.OPERATOR)
        finally:
            self._busy = False
        return True
