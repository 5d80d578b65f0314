"""Deadlines that records give as wall time: the ends of sessions that are away, and of the delays of their wills.

::

    a start      2026-11-20 12:00: c left, its interval is 7 days      due at 2026-11-27 12:00
                 2026-11-30 12:00 says the clock, 2026-11-20 13:00 is believed: c is not over
    in an hour   2026-11-30 13:00 is believed: c is over
    otherwise    c is over 7 days after the start

They go by the time of retention (``broker/retention_clock.py``), so a clock that is wrong for a while ends nothing.
What has waited for its whole interval since the start is over whatever the clocks say; and where the machine was not
started again, what was recorded in earlier lives of the node has its whole interval since then (``EarlierClock``).
Nothing is over before the node serves: a start that fails leaves all as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from typing import Final

from iot_mqtt.broker.retention_clock import STEP, EarlierClock, RetentionClock
from iot_mqtt.pipeline import TimingWheel
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.clock import Clock, Timer

log = logging.getLogger(__name__)

#: Of what is over already when the node begins to serve, or by a step that has held: clients are served meanwhile.
ENDS_A_SECOND: Final = 500
#: Seconds that a clock may drift until what waits is looked at anew.
_DRIFT: Final = 1.0


class _Deadline:
    """A ``Timer``."""

    __slots__ = ("due_at", "interval", "until", "met", "timeout", "_open")

    def __init__(self, due_at: float, interval: float, met: Callable[[], None], waiting: dict[_Deadline, None]) -> None:
        self.due_at = due_at
        self.interval = interval
        #: When it has waited for all of its interval (monotonic).
        self.until = inf
        self.met = met
        #: In the wheel, once the node serves.
        self.timeout: Timer | None = None
        self._open = waiting

    def cancel(self) -> None:
        if self.timeout is not None:
            self.timeout.cancel()
        self._open.pop(self, None)
        # It refers to whom it is of, who refers to it.
        self.met = _nothing


def _nothing() -> None:
    pass


class RecordedDeadlines:
    """Those that wait."""

    __slots__ = ("earlier", "_time", "_clock", "_wheel", "_open", "_serving", "_believed", "_doubtful")

    def __init__(self, time: RetentionClock, clock: Clock, wheel: TimingWheel) -> None:
        self._time = time
        self._clock = clock
        self._wheel = wheel
        #: Of what is added before the node serves: it has recorded that itself.
        self.earlier: EarlierClock | None = None
        #: In the order in which they came.
        self._open: dict[_Deadline, None] = {}
        self._serving = False
        #: What the time of retention was ahead of the monotonic clock when all were looked at.
        self._believed = 0.0
        self._doubtful = 0

    def add(self, due_at: float, interval: float, met: Callable[[], None]) -> Timer:
        """Call ``met`` when ``due_at`` has come, and in ``interval`` seconds at the latest."""
        deadline = _Deadline(due_at, interval, met, self._open)
        self._open[deadline] = None
        if not self._serving and self.earlier is not None:
            offset = self._clock.wall() - self._clock.monotonic()
            deadline.until = self.earlier.ends(due_at, interval, offset) or inf
        if self._serving:
            self._begin(deadline)
            self._wait(deadline, self._left(deadline))
        return deadline

    def look(self) -> None:
        """Every few seconds, from when the node serves on."""
        believed = self._time.now() - self._clock.monotonic()
        if not self._serving:
            self._serving = True
            for deadline in self._open:
                self._begin(deadline)
            self._wait_anew(believed)
        elif abs(believed - self._believed) > _DRIFT:
            self._wait_anew(believed)
        self._count()

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator should know."""
        if not self._doubtful:
            return ()
        text = (
            f"the clock of this node says that {self._doubtful} sessions or delays of wills of before the start are "
            "over, and by what was known before they are not: they end when it has said so for an hour"
        )
        return (Alarm(AlarmKind.CLOCK, text),)

    def _begin(self, deadline: _Deadline) -> None:
        now = self._clock.monotonic()
        # Who could not come while the node was off has the interval once more.
        if not now < deadline.until < now + deadline.interval:
            deadline.until = now + deadline.interval

    def _left(self, deadline: _Deadline) -> float:
        return min(deadline.due_at - self._time.now(), deadline.until - self._clock.monotonic())

    def _wait_anew(self, believed: float) -> None:
        self._believed = believed
        over = 0
        for deadline in self._open:
            left = self._left(deadline)
            if left <= 0:
                left, over = over / ENDS_A_SECOND, over + 1
            self._wait(deadline, left)

    def _wait(self, deadline: _Deadline, seconds: float) -> None:
        if deadline.timeout is not None:
            deadline.timeout.cancel()
        deadline.timeout = self._wheel.schedule(max(0.0, seconds), lambda: self._due(deadline))

    def _due(self, deadline: _Deadline) -> None:
        left = self._left(deadline)
        if left > 0:
            self._wait(deadline, left)
            return
        met = deadline.met
        deadline.cancel()
        met()

    def _count(self) -> None:
        """Those that are over by a clock that is doubted, for more than that the node was off."""
        before, now = self._doubtful, self._time.now()
        suspected = self._time.suspected
        wall = now + self._time.behind
        doubtful = (one for one in self._open if wall - suspected < one.due_at <= wall)
        self._doubtful = sum(1 for _ in doubtful) if suspected >= STEP else 0
        if self._doubtful and not before:
            log.warning("%s", *(one.text for one in self.alarms))
        elif before and not self._doubtful:
            log.warning("no session and no will waits any more for what becomes of the clock")
