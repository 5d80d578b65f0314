"""Time as the broker sees it, so that a test or a simulation can turn it by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


def until_beat(now: float, period: float) -> float:
    """Seconds from ``now`` until the clock shows the next multiple of ``period``. What is done again and again is done
    at such times, and so in one pass of the reactor with all else that is: a node that has nothing to do wakes less.
    A multiple that is less than a tenth of a period away counts as reached.
    """
    left = period - now % period
    return left if left > period / 10 else left + period


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Monotonic time for waiting, wall time for what is stored and must outlive the process."""

    def monotonic(self) -> float: ...

    def wall(self) -> float: ...

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer: ...
