"""A reactor that runs while a test waits: what tests of whole lives share."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from iot_mqtt.pipeline.reactor import TurnReactor

T = TypeVar("T")


def _reactor() -> Any:
    """Twisted's have few annotations."""
    return TurnReactor()


class Turning:
    """A reactor that runs while a test waits for something."""

    def __init__(self) -> None:
        self.reactor = _reactor()
        self._readers = set(self.reactor.getReaders())

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end, "it did not happen in time"
            wait = self.reactor.timeout()
            self.reactor.doIteration(0.1 if wait is None else min(wait, 0.1))
            self.reactor.runUntilCurrent()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        results: list[T | Failure] = []
        Deferred.fromCoroutine(coroutine).addBoth(results.append)
        self.until(lambda: bool(results))
        result = results[0]
        if isinstance(result, Failure):
            result.raiseException()
        return result

    @property
    def left(self) -> list[Any]:
        """What would still happen by itself: timers and open ports."""
        return [*self.reactor.getDelayedCalls(), *(set(self.reactor.getReaders()) - self._readers)]
