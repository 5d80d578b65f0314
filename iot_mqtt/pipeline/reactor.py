# Twisted's reactors have few annotations.
# mypy: disable-error-code="no-untyped-call"
"""Twisted's epoll reactor with a shorter way to ``doRead`` and a notion of the end of a turn.

Six differences from ``EPollReactor``:

* A descriptor that is only readable, the usual case, is read at once. Twisted sets up a logging context for each
  event (``log.callWithLogger``), which costs more than the read of a small packet; here that is left to the case that
  needs it, an exception, which is logged and ends the connection as before.
* ``call_at_turn_end`` makes a call after all events of this turn were handled. ``callLater(0, ...)`` would do it after
  another look at the timers, with a heap entry and a poll that must not wait.
* The loop itself asks for the time once per turn, and looks at the timers only when one is due or new. Twisted's makes
  ten calls around each poll, which is a tenth of what a turn with one small message costs.
* ``watch`` asks nothing about a socket that has just been accepted.
* Threads of its pool are not waited for without end when it stops: what they do with files may hang.
* Timers go by the monotonic clock. Twisted's go by the wall clock: when that is put back by an hour, no timer is due
  for an hour, and nobody's keep-alive ends.

Everything else is Twisted's.
"""

from __future__ import annotations

import select
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from twisted.internet import epollreactor
from twisted.internet.main import installReactor
from twisted.python import log

__all__ = ["TurnReactor", "install"]

_IN = select.EPOLLIN
#: Events of one turn at most. The list is allocated before every poll, so it must not grow with the connections.
EVENTS_PER_TURN = 1024
#: Seconds that a thread of the pool gets to end.
THREAD_SECONDS = 1.0
#: Seconds after which the reactor looks up without an event: what epoll takes as milliseconds has 31 bits.
LONGEST_WAIT = 2_000_000.0


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
        self._turn_end: list[Callable[[], None]] = []
        #: Descriptors that have something in this turn.
        self.ready = 1
        super().__init__()

    def _initThreadPool(self) -> None:
        super()._initThreadPool()
        pool: Any = self.threadpool
        pool.threadFactory = PoolThread

    def call_at_turn_end(self, call: Callable[[], None]) -> None:
        """Call this once after the events of this turn, before the reactor waits again."""
        self._turn_end.append(call)

    def watch(self, descriptor: int, reader: Any) -> None:
        """``addReader`` for a descriptor that is new, and known to be a socket."""
        self._poller.register(descriptor, _IN)
        self._reads.add(descriptor)
        self._selectables[descriptor] = reader

    def mainLoop(self) -> None:
        while self._started:
            try:
                self._turns(None, once=False)
            except Exception:  # noqa: BLE001 - as Twisted: logged, and the loop goes on
                log.err(None, "Unexpected error in main loop")

    def doPoll(self, timeout: float | None) -> None:
        self._turns(timeout, once=True)

    doIteration = doPoll  # noqa: N815

    def _turns(self, timeout: float | None, *, once: bool) -> None:
        """One turn that waits for ``timeout``; or turns until the reactor stops, each until the next timer."""
        seconds, poll, selectables = self.seconds, self._poller.poll, self._selectables
        while once or self._started:
            if not once:
                timed = self._pendingTimedCalls
                timeout = timed[0].time - seconds() if timed else LONGEST_WAIT
                if timeout <= 0 or self._newTimedCalls or self.threadCallQueue or not self.running or self._justStopped:
                    self.runUntilCurrent()
                    timeout = self.timeout() if self.running else 0
            if self._turn_end:  # asked for by a timer, or before the reactor ran
                self._end_turn()
                # One look at the sockets, then what these calls asked for: more calls, or timers that ``timeout`` does
                # not know of because it was reckoned before.
                timeout = 0
            events = poll(LONGEST_WAIT if timeout is None or timeout > LONGEST_WAIT else timeout, EVENTS_PER_TURN)
            self.ready = len(events)
            for descriptor, event in events:
                selectable = selectables.get(descriptor)
                if selectable is None:
                    continue  # closed by an earlier event of this turn
                if event == _IN:
                    try:
                        why = selectable.doRead()
                    except Exception:  # noqa: BLE001 - as Twisted: logged, and the connection ends
                        why = self._log(selectable)
                    if why:
                        self._disconnectSelectable(selectable, why, isRead=True)
                else:
                    log.callWithLogger(selectable, self._doReadOrWrite, selectable, descriptor, event)
            selectable = why = None  # what has ended is not to live until the next event
            if self._turn_end:
                self._end_turn()
            if once:
                return

    def _log(self, selectable: Any) -> BaseException | None:
        """Log the present exception as Twisted does, and return it as the reason of the disconnection."""
        log.callWithLogger(selectable, log.err)
        return sys.exc_info()[1]

    def _end_turn(self) -> None:
        calls, self._turn_end = self._turn_end, []
        for call in calls:
            try:
                call()
            except Exception:  # noqa: BLE001 - one failing call must not stop the others
                log.err()


def install() -> TurnReactor:
    """Make this the process's reactor; before anything imports ``twisted.internet.reactor``."""
    reactor = TurnReactor()
    installReactor(reactor)
    return reactor
