"""Passwords verified on threads, never on the reactor: a bounded pool, who is next in it, and its way back.

    reactor: verify(question) ──fair queue──▶ thread: argon2 ──crossing──▶ reactor: the Deferred fires

``crossing`` runs a call in the reactor's thread (``reactor.callFromThread``). Everything here but ``_work`` runs
in the reactor's thread. Clients that ask the same at the same time share one verification; a question is about a
name, so those who ask about different names never do, whether there are such users or not.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from twisted.internet.defer import Deferred

from iot_mqtt.auth import kinds
from iot_mqtt.auth.fair_queue import Allowance, FairQueue
from iot_mqtt.errors import ReasonCode, Refused, Unavailable
from iot_mqtt.ports.clock import Clock, Timer

T = TypeVar("T")

#: Passwords that operators may set at once.
MOST_CALLS: Final = 32
#: By how much threads that hash are nicer than the reactor's.
NICER: Final = 10

Crossing = Callable[[Callable[[], None]], object]
Verdict = bool | Exception


def _give_way() -> None:
    """Let the reactor go before this thread where both want a processor. Linux has a priority for each thread."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + NICER)


class Question(NamedTuple):
    """Whether a password fits a hash; the name is the one that the client gave."""

    name: str
    encoded: str
    password: bytes
    #: Whether one that does not fit is a wrong password. Else somebody else is asked, and says so.
    decides: bool = True

    def __repr__(self) -> str:
        return f"<Question about {self.name!r}>"


class _Job:
    """A question that waits or is worked on, and who wants to know: by address, because each waits in its own turn."""

    __slots__ = ("begun", "waiters")

    def __init__(self) -> None:
        self.begun = False
        self.waiters: dict[str, list[Deferred[bool]]] = {}


class HashPool:
    """At most ``threads`` verifications at once and ``queue`` waiting; beyond that some are ``Refused`` with 0x89."""

    def __init__(
        self,
        crossing: Crossing,
        clock: Clock,
        *,
        threads: int = 2,
        queue: int = 1000,
        allowance: Allowance | None = None,
        verify: Callable[[str, bytes], bool] = kinds.verify,
        executor: Executor | None = None,
    ) -> None:
        self._cross = crossing
        self._clock = clock
        self._threads = threads
        self._verify = verify
        self._executor = executor or ThreadPoolExecutor(threads, "iot-mqtt-hash", _give_way)
        self._queue: FairQueue[Question] = FairQueue(queue, allowance)
        self._jobs: dict[Question, _Job] = {}
        self._running = 0
        self._timer: Timer | None = None
        self._closed = False
        self._calls: set[Deferred[Any]] = set()

    @property
    def pending(self) -> int:
        """Verifications running or waiting for a thread."""
        return len(self._jobs)

    def verify(self, question: Question, source: str) -> Deferred[bool]:
        """Fire with True if the password fits, or fail with ``Refused``; ``source`` is the address that asks. Who
        cancels it waits no more; what a thread is at goes on.
        """
        if self._closed:
            raise Unavailable("shutting down", ReasonCode.SERVER_SHUTTING_DOWN)
        job = self._jobs.get(question)
        if job is None:
            job = self._jobs[question] = _Job()
        queued = source in job.waiters
        waiting: Deferred[bool] = Deferred(lambda cancelled: self._withdraw(question, source, cancelled))
        job.waiters.setdefault(source, []).append(waiting)
        if not job.begun and not queued:
            self._refuse(self._queue.put(question, source, question.name, self._clock.monotonic()))
            self._begin()
        return waiting

    def _withdraw(self, question: Question, source: str, waiting: Deferred[bool]) -> None:
        job = self._jobs[question]
        job.waiters[source].remove(waiting)
        if job.begun or job.waiters[source]:
            return
        del job.waiters[source]
        self._queue.withdraw(question, source, question.name)
        if not job.waiters:
            del self._jobs[question]

    def may_guess(self, source: str) -> bool:
        """Whether an address may show a password now, where verifying it costs nothing."""
        return not self._queue.spent(source, self._clock.monotonic())

    def guessed_wrong(self, source: str) -> None:
        """It showed a wrong one, which counts as one of ``verify``."""
        self._queue.charge(source, self._clock.monotonic())

    def run(self, call: Callable[[], T]) -> Deferred[T]:
        """Make a hash on a thread, behind the verifications that are running; for operators, whose number is small."""
        if self._closed:
            raise Unavailable("shutting down", ReasonCode.SERVER_SHUTTING_DOWN)
        if len(self._calls) >= MOST_CALLS:
            raise Refused("too many passwords are being set", ReasonCode.SERVER_BUSY)
        waiting: Deferred[T] = Deferred()
        self._calls.add(waiting)

        def work() -> None:
            try:
                made = call()
            except Exception as error:  # noqa: BLE001 - whoever waits is told
                failed = error
                self._cross(lambda: self._settle(waiting, lambda: waiting.errback(failed)))
            else:
                self._cross(lambda: self._settle(waiting, lambda: waiting.callback(made)))

        self._executor.submit(work)
        return waiting

    def _settle(self, waiting: Deferred[Any], settle: Callable[[], None]) -> None:
        if waiting in self._calls:
            self._calls.remove(waiting)
            settle()

    def close(self) -> None:
        """Take nothing more and answer all who wait; threads end with what they are at."""
        self._closed = True
        self._cancel_timer()
        self._executor.shutdown(wait=False, cancel_futures=True)
        calls, self._calls = self._calls, set()
        for waiting in calls:
            waiting.errback(Unavailable("shutting down", ReasonCode.SERVER_SHUTTING_DOWN))
        for question in list(self._jobs):
            self._answer(question, Unavailable("shutting down", ReasonCode.SERVER_SHUTTING_DOWN))

    def _begin(self) -> None:
        """Give work to the threads that have none, or come back when an address has waited long enough."""
        self._cancel_timer()
        now = self._clock.monotonic()
        while self._running < self._threads and (taken := self._queue.take(now)) is not None:
            question, source = taken
            job = self._jobs.get(question)
            if job is None or job.begun:
                continue  # it had its turn at another address
            job.begun = True
            self._running += 1
            self._queue.charge(source, now)
            self._executor.submit(self._work, question, source)
        if self._running < self._threads and (delay := self._queue.delay(now)) is not None:
            self._timer = self._clock.call_later(delay, self._begin)

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _refuse(self, gone: list[tuple[Question, str]]) -> None:
        for question, source in gone:
            job = self._jobs.get(question)
            if job is None or job.begun:
                continue
            waiters = job.waiters.pop(source, ())
            if not job.waiters:
                del self._jobs[question]
            for waiting in waiters:
                waiting.errback(Refused("too many passwords wait to be verified", ReasonCode.SERVER_BUSY))

    def _work(self, question: Question, source: str) -> None:
        """Run on a thread of the pool."""
        verdict: Verdict
        try:
            verdict = self._verify(question.encoded, question.password)
        except Exception as error:  # noqa: BLE001 - whoever waits is told; a thread has no one else to tell
            verdict = error
        self._cross(lambda: self._done(question, source, verdict))

    def _done(self, question: Question, source: str, verdict: Verdict) -> None:
        if self._closed:
            return
        self._running -= 1
        now = self._clock.monotonic()
        if verdict is not False or not question.decides:
            self._queue.forgive(source, now)
        self._answer(question, verdict)
        self._begin()
        if verdict is False:
            self._refuse(self._queue.trim(source, now))

    def _answer(self, question: Question, verdict: Verdict) -> None:
        job = self._jobs.pop(question, None)
        for waiting in [] if job is None else [each for waiters in job.waiters.values() for each in waiters]:
            if isinstance(verdict, Exception):
                waiting.errback(verdict)
            else:
                waiting.callback(verdict)
