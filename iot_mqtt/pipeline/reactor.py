# Twisted's reactors have few annotations.
# mypy: disable-error-code="no-untyped-call"
"""Twisted's epoll reactor with a shorter way to ``doRead`` and a notion of the end of a turn.

Six differences from ``EPollReactor``:

* A descriptor that is only readable, the usual case, is read at once (``native.Turns``). Twisted sets up a logging
  context for each event (``log.callWithLogger``), which costs more than the read of a small packet; here that is left
  to the case that needs it, an exception, which is logged and ends the connection as before.
* ``call_at_turn_end`` makes a call after all events of this turn were handled. ``callLater(0, ...)`` would do it after
  another look at the timers, with a heap entry and a poll that must not wait.
* The loop is native (``native.Turns``), asks for the time once per turn, and leaves the timers alone until one is due,
  or something calls it away. Twisted's makes ten calls around each poll, which is a tenth of what a turn with one small
  message costs.
* ``watch`` asks nothing about a socket that has just been accepted.
* Threads of its pool are not waited for without end when it stops: what they do with files may hang.
* Timers go by the monotonic clock. Twisted's go by the wall clock: when that is put back by an hour, no timer is due
  for an hour, and nobody's keep-alive ends.

Everything else is Twisted's.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from twisted.internet import epollreactor
from twisted.internet.main import installReactor
from twisted.python import log

from iot_mqtt import native

__all__ = ["TurnReactor", "install"]

#: Seconds that a thread of the pool gets to end.
THREAD_SECONDS = 1.0


class PoolThread(threading.Thread):
    """Does not keep the process from ending."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named, daemon=True)

    def join(self, timeout: float | None = None) -> None:
        super().join(THREAD_SECONDS if timeout is None else timeout)


class TurnReactor(epollreactor.EPollReactor):
    """See the module."""

    seconds = staticmethod(time.monotonic)

    def __init__(self) -> None:
        at_end: list[Callable[[], None]] = []
        #: Call this once after the events of this turn, before the reactor waits again.
        self.call_at_turn_end: Callable[[Callable[[], None]], None] = at_end.append
        super().__init__()
        self._turns = native.Turns(
            self._poller, self._selectables, self._reads, at_end, self._over, self._raised, self._other, log.err
        )
        #: ``addReader`` for a descriptor that is new, and known to be a socket.
        self.watch: Callable[[int, Any], None] = self._turns.watch

    def _initThreadPool(self) -> None:
        super()._initThreadPool()
        pool: Any = self.threadpool
        pool.threadFactory = PoolThread

    @property
    def ready(self) -> int:
        """Descriptors that have something in this turn."""
        return self._turns.ready

    def mainLoop(self) -> None:
        while self._started:
            try:
                self._run()
            except Exception:  # noqa: BLE001 - as Twisted: logged, and the loop goes on
                log.err(None, "Unexpected error in main loop")

    def _run(self) -> None:
        """What is due, and then turns until something is."""
        turns = self._turns
        turns.interrupted = False
        self.runUntilCurrent()
        timeout = self.timeout() if self.running else 0
        if timeout == 0 or self.threadCallQueue or self._justStopped:
            turns.turn(0)
        else:
            turns.run(self.seconds() + (math.inf if timeout is None else timeout))

    def doPoll(self, timeout: float | None) -> None:
        self._turns.turn(math.inf if timeout is None else timeout)

    doIteration = doPoll  # noqa: N815

    def _over(self, selectable: Any, why: BaseException) -> None:
        self._disconnectSelectable(selectable, why, isRead=True)

    def _raised(self, selectable: Any, error: Exception) -> None:
        """As Twisted: logged, and the connection ends."""
        log.callWithLogger(selectable, log.err, error)
        self._disconnectSelectable(selectable, error, isRead=True)

    def _other(self, selectable: Any, descriptor: int, event: int) -> None:
        log.callWithLogger(selectable, self._doReadOrWrite, selectable, descriptor, event)

    # What ``_run`` has to look at.

    def callLater(self, delay: float, callable: Callable[..., Any], *args: object, **kw: object) -> Any:
        self._turns.interrupted = True
        return super().callLater(delay, callable, *args, **kw)

    def _moveCallLaterSooner(self, call: Any) -> None:
        self._turns.interrupted = True
        super()._moveCallLaterSooner(call)

    def wakeUp(self) -> None:
        """From any thread, which has put something where ``runUntilCurrent`` finds it."""
        self._turns.interrupted = True
        super().wakeUp()

    def stop(self) -> None:
        self._turns.interrupted = True
        super().stop()

    def crash(self) -> None:
        self._turns.interrupted = True
        super().crash()


def install() -> TurnReactor:
    """Make this the process's reactor; before anything imports ``twisted.internet.reactor``."""
    reactor = TurnReactor()
    installReactor(reactor)
    return reactor
