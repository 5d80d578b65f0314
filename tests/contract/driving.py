"""Run a grid's coroutines to their end without a reactor, or with one that a test turns by hand."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from tests.reactor import PATIENCE, reactor, run, turn, until

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
    """With sockets and timers: a reactor that runs while a test waits for something."""

    reactor = reactor

    def cross(self, call: Callable[[], None]) -> None:
        self.reactor.callFromThread(call)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return run(coroutine)

    def turn(self) -> None:
        turn()

    def until(self, condition: Callable[[], bool], timeout: float = PATIENCE) -> None:
        until(condition, timeout)
