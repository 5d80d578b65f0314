"""How long the stop of a node may take."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.defer import TimeoutError as Late
from twisted.internet.task import deferLater

from iot_mqtt.grid.commits import Commits
from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)

#: Seconds between two looks at what is waited for.
STEP = 0.02
#: Seconds that a commit gets in any case.
LEAST = 0.1


class Deadline:
    """Of one stop: so many seconds from now."""

    def __init__(self, seconds: float, clock: Clock, reactor: Any) -> None:
        self._seconds = seconds
        self._at = clock.monotonic() + seconds
        self._clock = clock
        self._reactor = reactor
        #: What was told of.
        self._told: list[Callable[[], str]] = []

    @property
    def _left(self) -> float:
        return self._at - self._clock.monotonic()

    async def wait_while(self, busy: Callable[[], object]) -> None:
        """Wait until it is not so any more, or the time is over."""
        while busy() and self._left > 0:
            await deferLater(self._reactor, STEP)

    async def settle(self, what: Coroutine[Any, Any, None], waits: Callable[[], str]) -> None:
        """Commit what is left, but do not wait for a grid that does not take it in time: ``waits`` says what waits."""
        settled: Deferred[None] = ensureDeferred(what)
        settled.addTimeout(max(LEAST, self._left), self._reactor)
        try:
            await settled
        except Late:
            if waits not in self._told:
                self._told.append(waits)
                log.error("the %g s that a stop may take are over, and %s", self._seconds, waits())
        except Exception as error:  # noqa: BLE001 - whatever keeps the grid from it, we stop
            log.error("stopping with something that was not written: %s", str(error) or type(error).__name__)


def unwritten(store: Commits) -> str:
    """What the grid has not taken, for people."""
    trouble = "" if store.trouble is None else f" ({store.trouble})"
    return (
        f"{store.waiting} operations wait for the grid, which has not answered for {store.unanswered:.0f} s{trouble}: "
        "they may be written or not; no client was told that they are, and clients send again what was not acknowledged"
    )


def inbox_busy() -> str:
    return "commands of the inbox are under way: they are read again after the next start"


def uplink_busy() -> str:
    return "the uplink has not ended what it was sending: it goes on there after the next start"
