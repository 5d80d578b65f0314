# Twisted's reactors have few annotations.
# mypy: disable-error-code="no-untyped-call"
"""Twisted's epoll reactor with a shorter way to ``doRead`` and a notion of the end of a turn.

Two differences from ``EPollReactor``, both in the loop over what epoll returned:

* A descriptor that is only readable, the usual case, is read at once. Twisted sets up a logging context for each
  event (``log.callWithLogger``), which costs more than the read of a small packet; here that is left to the case that
  needs it, an exception, which is logged and ends the connection as before.
* ``call_at_turn_end`` makes a call after all events of this turn were handled. ``callLater(0, ...)`` would do it after
  another look at the timers, with a heap entry and a poll that must not wait.

Everything else is Twisted's.
"""

from __future__ import annotations

import errno
import select
import sys
from collections.abc import Callable
from typing import Any

from twisted.internet import epollreactor
from twisted.internet.main import installReactor
from twisted.python import log

__all__ = ["TurnReactor", "install"]

_IN = select.EPOLLIN


class TurnReactor(epollreactor.EPollReactor):
    """See the module."""

    def __init__(self) -> None:
        self._turn_end: list[Callable[[], None]] = []
        super().__init__()

    def call_at_turn_end(self, call: Callable[[], None]) -> None:
        """Call this once after the events of this turn, before the reactor waits again."""
        self._turn_end.append(call)

    def doPoll(self, timeout: float | None) -> None:
        if self._turn_end:  # asked for by a timer, or before the reactor ran
            self._end_turn()
            # One look at the sockets, then what these calls asked for: more calls, or timers that ``timeout`` does not
            # know of because it was reckoned before.
            timeout = 0
        try:
            events = self._poller.poll(-1 if timeout is None else timeout, len(self._selectables))
        except OSError as error:
            if error.errno == errno.EINTR:
                return
            raise
        selectables = self._selectables
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
        if self._turn_end:
            self._end_turn()

    doIteration = doPoll  # noqa: N815

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
