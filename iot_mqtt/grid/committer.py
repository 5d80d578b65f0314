"""One batch at a time on its way to the grid, repeated with a growing pause until the grid takes it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.grid import Grid, WriteBatch

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0


class Committer:
    """``committed`` is called with the time once the grid has the batch, and may hand over the next one."""

    def __init__(self, grid: Grid, clock: Clock, counters: Counters, committed: Callable[[float], None]) -> None:
        self._grid = grid
        self._clock = clock
        self._counters = counters
        self._committed = committed
        #: When the batch under way was handed over first.
        self.began = 0.0
        self._pause = FIRST_PAUSE
        #: What is under way; None: the next batch may come.
        self.batch: WriteBatch | None = None
        #: Nothing is written any more.
        self.given_up = False
        #: True while commits fail; the reason is in ``trouble``.
        self.failing = False
        self.trouble: str | None = None

    def commit(self, batch: WriteBatch, now: float) -> None:
        """Only while nothing is under way. ``committed`` may be called before this returns."""
        self.batch, self.began = batch, now
        self._submit()

    def give_up(self) -> None:
        """Hand nothing over any more; a batch that fails from now on is not repeated."""
        self.given_up = True

    def _submit(self) -> None:
        assert self.batch is not None
        if self.given_up:
            return
        self._grid.commit_soon(self.batch, self._done)

    def _done(self, error: BaseException | None) -> None:
        assert self.batch is not None
        if error is not None:
            self._repeat_later(error)
            return
        counters = self._counters
        counters.commits += 1
        counters.commit_operations += len(self.batch)
        now = self._clock.monotonic()
        elapsed = now - self.began
        counters.commit_seconds += elapsed
        counters.commit_latency.observe(elapsed)
        if self.failing:
            log.warning("the grid takes writes again")
        self.failing, self.trouble, self._pause = False, None, FIRST_PAUSE
        self.batch = None
        self._committed(now)

    def _repeat_later(self, error: BaseException) -> None:
        """Not ready is not lost: the same batch again, a little later."""
        self._counters.commit_failures += 1
        if not self.failing:
            log.error("the grid does not take writes; repeating: %s", error)
        self.failing, self.trouble = True, str(error)
        if self.given_up:
            return
        self._clock.call_later(self._pause, self._submit)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
