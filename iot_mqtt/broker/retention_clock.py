"""The time of retention: what there is of the wall clock that has held for long enough to remove messages by it.

::

    offset   = wall clock − monotonic clock: constant while nobody sets the clock
    believed = the greatest offset below which it has not been for an hour

    time = monotonic clock + believed

So a clock that is set back counts at once, and one that is set forward when it has held for ``HOLD``. A start is no
different: what the log knows of the time is an offset that was there before. Who knows nothing believes nothing yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)

#: Seconds that a step forward has to hold until messages are removed by it.
HOLD: Final = 3600.0
#: Seconds from which on a step is worth a word.
STEP: Final = 60.0
#: No wall clock of a node that runs this says less (2020-01-01): time that began at nothing, and has only passed.
_OLDEST: Final = 1_577_836_800.0


class RetentionClock:
    """Of one life of a node. To be asked every few seconds."""

    def __init__(self, clock: Clock, known: Callable[[], float | None]) -> None:
        """``known``: the newest time of retention that the log knew when it was opened, if any; asked for once."""
        self._clock = clock
        self._known = known
        #: Seconds that other nodes say this node's clock is ahead; what they do not agree to does not count.
        self.ahead: Callable[[], float] = _agreed
        #: Offsets, rising, and since when (monotonic) the offset has not been below them. The first is believed.
        self._held: list[tuple[float, float]] = []
        #: How many of these were there before this life.
        self._earlier = 0
        self._told = False

    def now(self) -> float:
        """The time of retention; never above the wall clock."""
        now = self._clock.monotonic()
        if not self._held:
            self._begin(now)
        self._note(now, self._clock.wall() - max(0.0, self.ahead()) - now)
        while len(self._held) > 1 and now - self._held[1][0] >= HOLD:
            del self._held[0]
            self._earlier = 0
        self._tell()
        return now + self._held[0][1]

    @property
    def behind(self) -> float:
        """Seconds of the wall clock that do not count yet, of before this life, too; of the last ``now``."""
        return self._held[-1][1] - self._held[0][1] if self._held else 0.0

    @property
    def doubted(self) -> float:
        """Seconds that the clock was set forward in this life and that do not count yet; of the last ``now``."""
        return self._held[-1][1] - self._held[self._earlier][1] if self._held else 0.0

    @property
    def alarms(self) -> tuple[str, ...]:
        """What an operator should know."""
        if self.doubted < STEP:
            return ()
        text = (
            f"the clock of this node is {self.doubted:.0f} s ahead of what log.retention counts: it counts that when "
            "it has held for an hour, and removes what is too old by then"
        )
        return (text,)

    def _begin(self, now: float) -> None:
        known, wall = self._known(), self._clock.wall()
        if known is not None and wall - known >= STEP:
            _tell_start(known)
        since = known or 0.0
        if since < wall:
            self._held, self._earlier = [(now, since - now)], 1

    def _note(self, now: float, offset: float) -> None:
        since, held = now, self._held
        while held and held[-1][1] >= offset:
            since, _ = held.pop()
        held.append((since, offset))
        self._earlier = min(self._earlier, len(held) - 1)

    def _tell(self) -> None:
        """Once when a step is doubted, and once when that is over."""
        doubted = self.doubted >= STEP
        if doubted and not self._told:
            log.warning("%s", *self.alarms)
        elif self._told and not doubted:
            log.warning("log.retention waits for no step of the clock any more")
        self._told = doubted


def _tell_start(known: float) -> None:
    if known < _OLDEST:
        log.info("the clock counts in an hour; no time has counted for that long yet")
        return
    left = datetime.fromtimestamp(known, UTC).isoformat(timespec="seconds")
    log.info("the clock counts in an hour; time goes on from when the log was left", extra={"left": left})


def _agreed() -> float:
    return 0.0
