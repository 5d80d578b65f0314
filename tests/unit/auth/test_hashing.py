"""Passwords are verified on threads, a bounded number at a time, and the reactor never waits."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import pytest_twisted

from iot_mqtt.auth import argon
from iot_mqtt.auth.hashing import HashPool
from iot_mqtt.errors import ReasonCode, Refused, Unavailable
from tests.reactor import reactor
from tests.unit.auth.authkit import Threads, outcome


class Book:
    """Stands for argon2: knows which password fits which hash, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.error: Exception | None = None

    def __call__(self, encoded: str, password: bytes) -> bool:
        self.asked.append((encoded, password))
        if self.error is not None:
            raise self.error
        return encoded == password.decode()


@pytest.fixture
def threads() -> Threads:
    """Threads that are turned by hand."""
    return Threads()


@pytest.fixture
def book() -> Book:
    """The fake of argon2."""
    return Book()


@pytest.fixture
def pool(threads: Threads, book: Book) -> HashPool:
    """Room for three: one at work and two waiting."""
    return HashPool(threads.cross, threads=1, queue=2, verify=book, executor=threads)


def test_nothing_is_hashed_by_the_caller(pool: HashPool, threads: Threads, book: Book) -> None:
    """The reactor only queues; the verdict comes by the crossing."""
    verdict = pool.verify("x", b"x")
    assert not book.asked
    assert not verdict.called
    threads.turn()
    assert outcome(verdict) is True
    assert pool.pending == 0


def test_the_verdict_waits_for_the_crossing(pool: HashPool, threads: Threads) -> None:
    """A thread never fires a Deferred itself."""
    verdict = pool.verify("x", b"y")
    threads.work.pop()()
    assert not verdict.called
    threads.turn()
    assert outcome(verdict) is False


def test_a_full_queue_refuses_at_once(pool: HashPool, threads: Threads) -> None:
    """The fourth of three is told 0x89, and there is room again when one is done."""
    for number in range(3):
        pool.verify("x", b"%d" % number)
    with pytest.raises(Refused) as caught:
        pool.verify("x", b"another")
    assert caught.value.reason is ReasonCode.SERVER_BUSY
    threads.turn()
    assert not pool.verify("x", b"another").called


def test_the_same_question_is_worked_on_once(pool: HashPool, threads: Threads, book: Book) -> None:
    """A fleet that shares a password and comes back at once costs one hash and one place in the queue."""
    verdicts = [pool.verify("x", b"x") for _ in range(1000)]
    threads.turn()
    assert [outcome(verdict) for verdict in verdicts] == [True] * 1000
    assert len(book.asked) == 1


def test_an_error_on_a_thread_reaches_who_waits(pool: HashPool, threads: Threads, book: Book) -> None:
    """Nobody waits for ever, and the place in the queue is free again."""
    book.error = RuntimeError("broken")
    verdict = pool.verify("x", b"x")
    threads.turn()
    with pytest.raises(RuntimeError):
        outcome(verdict)
    assert pool.pending == 0


def test_closing_answers_all_who_wait(pool: HashPool, threads: Threads) -> None:
    """At shutdown clients are told to come back, and late verdicts of threads do no harm."""
    verdict = pool.verify("x", b"x")
    threads.work.pop()()
    pool.close()
    with pytest.raises(Unavailable) as caught:
        outcome(verdict)
    assert caught.value.reason is ReasonCode.SERVER_SHUTTING_DOWN
    threads.turn()
    assert threads.ended
    with pytest.raises(Unavailable):
        pool.verify("x", b"x")


@pytest_twisted.ensureDeferred
async def test_real_threads_really_verify() -> None:
    """The same with argon2, a thread of the pool, and the reactor that it crosses into."""
    names = []

    def cross(call: Callable[[], None]) -> None:
        names.append(threading.current_thread().name)
        reactor.callFromThread(call)

    pool = HashPool(cross, threads=1)
    try:
        assert await pool.verify(argon.hash_password(b"pw"), b"pw") is True
        assert await pool.verify(argon.hash_password(b"pw"), b"no") is False
        assert names == ["iot-mqtt-hash_0"] * 2
    finally:
        pool.close()
