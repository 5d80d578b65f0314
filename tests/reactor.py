"""Waiting for what a reactor does, in tests and fixtures that are plain functions.

The reactor is pytest-twisted's. It runs in a greenlet of its own while a test waits, and stands still otherwise. There
is one for all tests of a process; each test leaves nothing in it. Tests that are coroutines run here as well
(``conftest``), because pytest's own time limit and Ctrl-C are exceptions out of a signal handler, and a reactor logs
these and goes on.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

import pytest_twisted
from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

T = TypeVar("T")

#: As somebody hands it to what is tested.
reactor: Any = installed
PATIENCE = 60.0
_OFTEN = 0.002


def run(awaitable: Awaitable[T], timeout: float = PATIENCE) -> T:
    """What comes of it."""

    async def wait() -> T:
        return await awaitable

    waiting = Deferred.fromCoroutine(wait())
    waiting.addTimeout(timeout, reactor, lambda _, seconds: _late(seconds))
    with _interrupted_by_signals(waiting):
        result: T = pytest_twisted.blockon(waiting)
    return result


def until(condition: Callable[[], bool], timeout: float = PATIENCE) -> None:
    """Let the reactor work until it is so."""

    async def wait() -> None:
        while not condition():
            await deferLater(reactor, _OFTEN)

    if not condition():
        run(wait(), timeout)


def turn() -> None:
    """Let it do what is to be done now."""
    run(deferLater(reactor, 0))


def _late(seconds: float) -> None:
    raise AssertionError(f"it did not happen within {seconds:g} seconds")


def _fail(waiting: Deferred[Any], raised: Failure) -> None:
    if not waiting.called:
        waiting.errback(raised)


@contextmanager
def _interrupted_by_signals(waiting: Deferred[Any]) -> Iterator[None]:
    """What a handler raises comes to who waits."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)}

    def pass_on(number: int, frame: FrameType | None) -> None:
        handler = before[signal.Signals(number)]
        assert callable(handler)
        try:
            handler(number, frame)
        except BaseException:
            raised = Failure()
            reactor.callFromThread(_fail, waiting, raised)

    for number, handler in before.items():
        if callable(handler):
            signal.signal(number, pass_on)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
