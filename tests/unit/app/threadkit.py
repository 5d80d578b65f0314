"""Threads by hand, for what crosses from a pool of them into the reactor."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.python.failure import Failure


class Pool:
    """A thread pool whose threads go when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def callInThreadWithCallback(self, done: Any, call: Any, *arguments: Any) -> None:
        self.waiting.append((done, call, arguments))

    def go(self) -> None:
        done, call, arguments = self.waiting.pop(0)
        try:
            result = call(*arguments)
        except Exception:
            done(False, Failure())
        else:
            done(True, result)


class Reactor(Clock):
    """Time and threads by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool()

    def getThreadPool(self) -> Pool:
        return self.pool

    def callFromThread(self, call: Any, *arguments: Any) -> None:
        call(*arguments)
