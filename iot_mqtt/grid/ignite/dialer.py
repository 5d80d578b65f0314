"""Attempts to reach a gateway: one at a time, each failure followed by the next address, with growing pauses.

A pause begins once every address was tried; until then the next one is tried at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from iot_mqtt.grid.ignite.connection import Connection, Once
from iot_mqtt.grid.ignite.settings import Address, IgniteSettings
from iot_mqtt.ports.clock import Clock, Timer


class Endpoint(Protocol):
    """The part of ``IStreamClientEndpoint`` that is used here."""

    def connect(self, factory: Any, /) -> Deferred[Any]: ...


#: How to reach an address within so many seconds.
Reach = Callable[[Address, float], Endpoint]


class Dialer:
    """Which gateway is next, and when. Who dials makes the connection, and says what became of it."""

    def __init__(self, settings: IgniteSettings, reach: Reach, clock: Clock, rng: random.Random) -> None:
        self._settings = settings
        self._reach = reach
        self._clock = clock
        self._rng = rng
        self._attempt: Deferred[Any] | None = None
        self._retry: Timer | None = None
        # Where the next attempt goes, and how many failed in a row.
        self._next = rng.randrange(max(len(settings.gateways), 1))
        self._failures = 0
        self._welcomed_at = 0.0

    @property
    def address(self) -> Address:
        """Where the present connection leads to, or the next attempt."""
        return self._settings.gateways[self._next]

    def begin(self) -> None:
        """Forget how many attempts failed."""
        self._failures = 0

    def dial(
        self, connection: Connection, reached: Callable[[Connection], None], failed: Callable[[str], None]
    ) -> None:
        """Connect it; one of the two is called then, unless the attempt is given up before."""
        address = self.address
        attempt: Deferred[Any] = self._reach(address, self._settings.connect_timeout).connect(Once(connection))
        self._attempt = attempt
        attempt.addCallbacks(partial(self._reached, connection, reached), partial(self._unreached, address, failed))

    def welcomed(self) -> None:
        """The connection is one now."""
        self._welcomed_at = self._clock.monotonic()

    def lost(self) -> None:
        """A connection that was welcomed is gone. One that breaks as soon as it is there is no success."""
        lasted = self._clock.monotonic() - self._welcomed_at >= self._settings.ping_interval
        self._failures = 0 if lasted else self._failures + 1

    def retry(self, again: Callable[[], None], *, count: bool) -> None:
        """Call ``again`` when it is time for the next address; ``count``: the present one has failed just now."""
        self._failures += count
        self._next = (self._next + 1) % len(self._settings.gateways)
        rounds = self._failures - len(self._settings.gateways)
        delay = 0.0
        if rounds >= 0:
            longest = min(self._settings.retry_last, self._settings.retry_first * 2 ** min(rounds, 16))
            delay = longest * self._rng.uniform(0.5, 1.0)
        self.stop()
        self._retry = self._clock.call_later(delay, partial(self._again, again))

    def stop(self) -> None:
        """Give up the present attempt, and do not make the next one."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._attempt is not None:
            attempt, self._attempt = self._attempt, None
            attempt.cancel()

    def _again(self, again: Callable[[], None]) -> None:
        self._retry = None
        again()

    def _reached(self, connection: Connection, reached: Callable[[Connection], None], _: object) -> None:
        self._attempt = None
        reached(connection)

    def _unreached(self, address: Address, failed: Callable[[str], None], failure: Failure) -> None:
        if failure.check(CancelledError):
            return
        self._attempt = None
        failed(f"{address}: {failure.getErrorMessage()}")
