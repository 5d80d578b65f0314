"""Passwords verified on threads, never on the reactor: a bounded pool and its way back.

    reactor: verify(hash, password) ──queue──▶ thread: argon2 ──crossing──▶ reactor: the Deferred fires

``crossing`` runs a call in the reactor's thread (``reactor.callFromThread``). Everything here but ``_work`` runs
in the reactor's thread. Clients that ask the same at the same time share one verification.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from twisted.internet.defer import Deferred

from iot_mqtt.auth.argon import verify_password
from iot_mqtt.errors import ReasonCode, Refused, Unavailable

Crossing = Callable[[Callable[[], None]], object]
Verdict = bool | Exception


class HashPool:
    """At most ``threads`` verifications at once and ``queue`` waiting; one more is ``Refused`` with 0x89."""

    def __init__(
        self,
        crossing: Crossing,
        *,
        threads: int = 2,
        queue: int = 1000,
        verify: Callable[[str, bytes], bool] = verify_password,
        executor: Executor | None = None,
    ) -> None:
        self._cross = crossing
        self._limit = threads + queue
        self._verify = verify
        self._executor = executor or ThreadPoolExecutor(threads, thread_name_prefix="iot-mqtt-hash")
        self._waiters: dict[tuple[str, bytes], list[Deferred[bool]]] = {}
        self._closed = False

    @property
    def pending(self) -> int:
        """Verifications running or waiting for a thread."""
        return len(self._waiters)

    def verify(self, encoded: str, password: bytes) -> Deferred[bool]:
        """Fire with True if the password fits; raises ``Refused`` at once when too many wait already."""
        if self._closed:
            raise Unavailable("shutting down", ReasonCode.SERVER_SHUTTING_DOWN)
        key = encoded, password
        waiters = self._waiters.get(key)
        if waiters is None:
            if len(self._waiters) >= self._limit:
                raise Refused("too many passwords wait to be verified", ReasonCode.SERVER_BUSY)
            waiters = self._waiters[key] = []
            self._executor.submit(self._work, key)
        waiting: Deferred[bool] = Deferred()
        waiters.append(waiting)
        return waiting

    def close(self) -> None:
        """Take nothing more and answer all who wait; threads end with what they are at."""
        self._closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)
        for key in list(self._waiters):
            self._done(key, Unavailable("shutting down", ReasonCode.SERVER_SHUTTING_DOWN))

    def _work(self, key: tuple[str, bytes]) -> None:
        """Run on a thread of the pool."""
        verdict: Verdict
        try:
            verdict = self._verify(*key)
        except Exception as error:  # noqa: BLE001 - whoever waits is told; a thread has no one else to tell
            verdict = error
        self._cross(lambda: self._done(key, verdict))

    def _done(self, key: tuple[str, bytes], verdict: Verdict) -> None:
        for waiting in self._waiters.pop(key, ()):
            if isinstance(verdict, Exception):
                waiting.errback(verdict)
            else:
                waiting.callback(verdict)
