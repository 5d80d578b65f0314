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
from typing import Final, NamedTuple

from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)

#: Seconds that a step forward has to hold until messages are removed by it.
HOLD: Final = 3600.0
#: Seconds from which on a step is worth a word.
STEP: Final = 60.0
#: Seconds from which on what a start brings is more than a restart takes: the log may know the time of an hour before.
LONG_OFF: Final = 2 * HOLD
#: No wall clock of a node that runs this says less (2020-01-01): time that began at nothing, and has only passed.
_OLDEST: Final = 1_577_836_800.0


class EarlierClock(NamedTuple):
    """By what clock earlier lives of this node recorded, on a machine that was not started again since."""

    #: Of the wall clock to the monotonic one.
    offset: float
    #: From when on it was so (monotonic).
    since: float

    def ends(self, due_at: float, interval: float, offset: float) -> float | None:
        """When the interval is over (monotonic); None for what was recorded by another clock. ``offset``: of now."""
        ends = due_at - min(self.offset, offset)
        return ends if ends - interval >= self.since else None


class RetentionClock:
    """Of one life of a node. To be asked every few seconds."""

    def __init__(
        self, clock: Clock, known: Callable[[], float | None], began: Callable[[], float | None] | None = None
    ) -> None:
        """``known``: the newest time of retention that the log knew when it was opened, if any; ``began``: the wall
        time of the oldest that is in it. Both are asked for once.
        """
        self._clock = clock
        self._known = known
        self._began = began or _nothing
        #: Of the lives before, if it is known; to be set before the first ``now``.
        self.earlier: EarlierClock | None = None
        #: Seconds that other nodes say this node's clock is ahead; what they do not agree to does not count.
        self.ahead: Callable[[], float] = _agreed
        #: Offsets, rising, and since when (monotonic) the offset has not been below them. The first is believed.
        self._held: list[tuple[float, float]] = []
        #: How many of these were there before this life.
        self._earlier = 0
        #: What the start brought is more than that the node was off.
        self._start_doubted = False
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
    def suspected(self) -> float:
        """``doubted``, and what the start brought if that may be an error of the clock; of the last ``now``."""
        return self.behind if self._start_doubted else self.doubted

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator should know."""
        if self.doubted < STEP:
            return ()
        text = (
            f"the clock of this node is {self.doubted:.0f} s ahead of what log.retention counts: it counts that when "
            "it has held for an hour, and removes what is too old by then"
        )
        return (Alarm(AlarmKind.CLOCK, text),)

    def _begin(self, now: float) -> None:
        known, wall = self._known(), self._clock.wall()
        if known is not None and wall - known >= STEP:
            _tell_start(known)
        since = known or 0.0
        if since < wall:
            self._held, self._earlier = [(now, since - now)], 1
            self._start_doubted = self._doubts_start(since if since >= _OLDEST else self._began(), wall, now)

    def _doubts_start(self, known: float | None, wall: float, now: float) -> bool:
        """Whether more has become of the clock than the time that the node was off."""
        earlier = self.earlier
        if earlier is not None:
            offset = wall - now
            if offset - earlier.offset >= STEP:
                return True
            if now - earlier.since >= HOLD:
                return False
            # Since then nobody has set it forward; before that somebody may have.
            wall = earlier.since + offset
        return known is not None and wall - known >= LONG_OFF

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
            log.warning("%s", *(one.text for one in self.alarms))
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


def _nothing() -> None:
    return None
