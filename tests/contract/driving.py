"""Run a grid's coroutines to their end without a reactor, or with one that a test turns by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.epollreactor import EPollReactor
from twisted.python.failure import Failure

T = TypeVar("T")


class Driver(Protocol):
    """What a suite needs to know about the thread its grid lives in."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T: ...

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Deferred[T]: ...

    def until(self, condition: Callable[[], bool]) -> None: ...


class Pump:
    """Stands in for the reactor: what another thread hands over is run here, in order, when a test asks.

    Enough for a grid that awaits nothing too, which never hands over anything.
    """

    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def cross(self, call: Callable[[], None]) -> None:
        self.calls.put(call)

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Deferred[T]:
        return Deferred.fromCoroutine(coroutine)

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.calls.get(timeout=60)()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        results: list[T | Failure] = []
        self.start(coroutine).addBoth(results.append)
        self.until(lambda: bool(results))
        result = results[0]
        if isinstance(result, Failure):
            result.raiseException()
        return result


class ReactorPump(Pump):
    """With sockets and timers: a reactor of its own, which runs while a test waits for something.

    One for all tests of a process; each test leaves nothing in it.
    """

    _shared: EPollReactor | None = None

    def __init__(self) -> None:
        super().__init__()
        if ReactorPump._shared is None:
            ReactorPump._shared = EPollReactor()
        self.reactor = ReactorPump._shared

    def cross(self, call: Callable[[], None]) -> None:
        self.reactor.callFromThread(call)

    def turn(self) -> None:
        """Wait for something to happen, a tenth of a second at most, and let it."""
        wait = self.reactor.timeout()
        self.reactor.doIteration(0.1 if wait is None else min(wait, 0.1))
        self.reactor.runUntilCurrent()

    def until(self, condition: Callable[[], bool], timeout: float = 60) -> None:
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end, "it did not happen in time"
            self.turn()
