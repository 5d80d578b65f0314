"""How long the stop of a node may take."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import deferLater

from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)

#: Seconds between two looks at what is waited for.
STEP = 0.02
#: Seconds that a commit gets in any case.
LEAST = 0.1


class Deadline:
    """Of one stop: so many seconds from now."""

    def __init__(self, seconds: float, clock: Clock, reactor: Any) -> None:
        self._at = clock.monotonic() + seconds
        self._clock = clock
        self._reactor = reactor

    @property
    def _left(self) -> float:
        return self._at - self._clock.monotonic()

    async def wait_while(self, busy: Callable[[], object]) -> None:
        """Wait until it is not so any more, or the time is over."""
        while busy() and self._left > 0:
            await deferLater(self._reactor, STEP)

    async def settle(self, what: Coroutine[Any, Any, None]) -> None:
        """Commit what is left, but do not wait for a grid that does not take it in time."""
        settled: Deferred[None] = ensureDeferred(what)
        settled.addTimeout(max(LEAST, self._left), self._reactor)
        try:
            await settled
        except Exception as error:  # noqa: BLE001 - whatever keeps the grid from it, we stop
            log.error("stopping with something that was not written: %r", error)
