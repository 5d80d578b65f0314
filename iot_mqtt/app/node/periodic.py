"""What a node does again and again until it stops."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure

log = logging.getLogger(__name__)


class Periodic:
    """Calls at intervals, in the reactor. One that fails is not called again, and the log says so."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._loops: list[LoopingCall] = []
        self._stopped = False

    def __call__(self, seconds: float, call: Callable[[], object]) -> None:
        """Call it now and every so many seconds; 0: never. A Deferred is waited for before the next call."""
        if seconds > 0 and not self._stopped:
            loop = LoopingCall(call)
            loop.clock = self._reactor
            loop.start(seconds).addErrback(_failed)
            # From its second call on at multiples of its interval, as everything else (``ports.clock.until_beat``).
            loop.starttime = 0.0
            self._loops.append(loop)

    def stop(self) -> None:
        """Nothing is called any more, nor what comes later."""
        self._stopped = True
        for loop in self._loops:
            if loop.running:
                loop.stop()


def _failed(failure: Failure) -> None:
    log.error("a periodic task failed", exc_info=failure.value)
