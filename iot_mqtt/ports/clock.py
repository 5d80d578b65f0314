"""Time as the broker sees it, so that a test or a simulation can turn it by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Monotonic time for waiting, wall time for what is stored and must outlive the process."""

    def monotonic(self) -> float: ...

    def wall(self) -> float: ...

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer: ...
