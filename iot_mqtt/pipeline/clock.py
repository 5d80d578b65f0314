"""The reactor as a ``Clock``, and a clock that is turned by hand."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol

from iot_mqtt.ports.clock import Timer

__all__ = ["ManualClock", "ReactorClock"]


class ReactorTime(Protocol):
    """The part of ``IReactorTime`` that is used here."""

    def callLater(self, delay: float, callable: Callable[[], object]) -> DelayedCall: ...


class DelayedCall(Protocol):
    """The part of ``IDelayedCall`` that is used here."""

    def cancel(self) -> None: ...


class ReactorClock:
    """Time by the machine, calls by the reactor, until it ends."""

    __slots__ = ("_reactor", "_waiting", "_ended")

    def __init__(self, reactor: ReactorTime) -> None:
        self._reactor = reactor
        self._waiting: set[_ReactorTimer] = set()
        self._ended = False

    # Asked several times for each connection and batch, so nothing stands in between.
    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        timer = _ReactorTimer(call, self._waiting)
        if not self._ended:
            timer.wait(self._reactor.callLater(delay, timer.due))
        return timer

    def end(self) -> None:
        """Nothing is called any more: neither what waits nor what is asked for later."""
        self._ended = True
        for timer in list(self._waiting):
            timer.cancel()


class _ReactorTimer:
    __slots__ = ("_call", "_waiting", "_delayed")

    def __init__(self, call: Callable[[], None], waiting: set[_ReactorTimer]) -> None:
        self._call = call
        self._waiting = waiting
        self._delayed: DelayedCall | None = None

    def wait(self, delayed: DelayedCall) -> None:
        self._delayed = delayed
        self._waiting.add(self)

    def due(self) -> None:
        self._waiting.discard(self)
        self._delayed = None
        self._call()

    def cancel(self) -> None:
        delayed, self._delayed = self._delayed, None
        if delayed is not None:
            self._waiting.discard(self)
            delayed.cancel()


class ManualClock:
    """Time stands still until ``advance``; then what is due is called, in order."""

    def __init__(self, monotonic: float = 1_000.0, wall: float = 1_700_000_000.0) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._calls: list[tuple[float, int, _ManualTimer]] = []
        self._numbers = itertools.count()

    def monotonic(self) -> float:
        return self._monotonic

    def wall(self) -> float:
        return self._wall

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        timer = _ManualTimer(call)
        heapq.heappush(self._calls, (self._monotonic + max(delay, 0.0), next(self._numbers), timer))
        return timer

    @property
    def waiting(self) -> int:
        """Calls that are scheduled and not cancelled."""
        return sum(1 for _, _, timer in self._calls if timer.call is not None)

    def advance(self, seconds: float = 0.0) -> None:
        """Let time pass; calls see the time they were scheduled for."""
        until, calls = self._monotonic + seconds, self._calls
        while calls and calls[0][0] <= until:
            due, _, timer = heapq.heappop(calls)
            if due > self._monotonic:
                self._set(due)
            call, timer.call = timer.call, None
            if call is not None:
                call()
        self._set(until)

    def _set(self, monotonic: float) -> None:
        self._wall += monotonic - self._monotonic
        self._monotonic = monotonic


class _ManualTimer:
    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None
