"""Passwords are verified on threads, a bounded number at a time, and the reactor never waits."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import pytest
import pytest_twisted
from twisted.internet.defer import CancelledError, Deferred

from iot_mqtt.auth import argon
from iot_mqtt.auth.fair_queue import Allowance
from iot_mqtt.auth.hashing import NICER, HashPool, Question
from iot_mqtt.errors import ReasonCode, Refused, Unavailable
from iot_mqtt.pipeline import ManualClock
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


def ask(pool: HashPool, encoded: str, password: bytes, name: str = "ann", source: str = "192.0.2.1") -> Deferred[bool]:
    """Whether a password fits."""
    return pool.verify(Question(name, encoded, password), source)


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
    return HashPool(threads.cross, ManualClock(), threads=1, queue=2, verify=book, executor=threads)


def test_nothing_is_hashed_by_the_caller(pool: HashPool, threads: Threads, book: Book) -> None:
    """The reactor only queues; the verdict comes by the crossing."""
    verdict = ask(pool, "x", b"x")
    assert not book.asked
    assert not verdict.called
    threads.turn()
    assert outcome(verdict) is True
    assert pool.pending == 0


def test_the_verdict_waits_for_the_crossing(pool: HashPool, threads: Threads) -> None:
    """A thread never fires a Deferred itself."""
    verdict = ask(pool, "x", b"y")
    threads.work.pop()()
    assert not verdict.called
    threads.turn()
    assert outcome(verdict) is False


def test_a_full_queue_refuses_at_once(pool: HashPool, threads: Threads) -> None:
    """The fourth of three is told 0x89, and there is room again when one is done."""
    for number in range(3):
        ask(pool, "x", b"%d" % number)
    with pytest.raises(Refused) as caught:
        outcome(ask(pool, "x", b"another"))
    assert caught.value.reason is ReasonCode.SERVER_BUSY
    threads.turn()
    assert not ask(pool, "x", b"another").called


def test_the_same_question_is_worked_on_once(pool: HashPool, threads: Threads, book: Book) -> None:
    """A fleet that shares a password and comes back at once costs one hash and one place in the queue."""
    verdicts = [ask(pool, "x", b"x") for _ in range(1000)]
    threads.turn()
    assert [outcome(verdict) for verdict in verdicts] == [True] * 1000
    assert len(book.asked) == 1


def test_the_same_password_for_another_name_is_another_question(pool: HashPool, threads: Threads, book: Book) -> None:
    """Unknown names share the hashes of decoys: they must not be answered together where users are not."""
    verdicts = [ask(pool, "decoy", b"x", name) for name in ("zoe", "yan", "xia")]
    threads.turn()
    assert [outcome(verdict) for verdict in verdicts] == [False] * 3
    assert len(book.asked) == 3


def test_a_full_queue_refuses_the_address_with_most(pool: HashPool, threads: Threads) -> None:
    """Somebody else still finds room, and is next."""
    guesses = [ask(pool, "x", b"%d" % number) for number in range(3)]
    other = ask(pool, "y", b"y", "bob", "198.51.100.7")
    assert [guess.called for guess in guesses] == [False, False, True]
    with pytest.raises(Refused):
        outcome(guesses[2])
    threads.turn()
    assert (outcome(other), outcome(guesses[0]), outcome(guesses[1])) == (True, False, False)


def test_who_asks_the_same_elsewhere_waits_in_its_own_turn(pool: HashPool, threads: Threads, book: Book) -> None:
    """The question of a busy address is asked by another one: its turn counts, and both are answered."""
    ask(pool, "a", b"1", "ann")
    late = ask(pool, "b", b"b", "bob")
    shared = ask(pool, "b", b"b", "bob", "198.51.100.7")
    threads.turn()
    assert (outcome(late), outcome(shared)) == (True, True)
    assert book.asked == [("a", b"1"), ("b", b"b")]
    assert pool.pending == 0


def test_an_address_waits_after_wrong_passwords(threads: Threads, book: Book) -> None:
    """Two at once, then one a second; right ones count for nothing, and others do not wait."""
    clock = ManualClock()
    pool = HashPool(threads.cross, clock, threads=1, allowance=Allowance(2, 1.0), verify=book, executor=threads)
    right = [ask(pool, f"p{number}", b"p%d" % number, f"u{number}") for number in range(10)]
    threads.turn()
    assert all(outcome(verdict) for verdict in right)
    wrong = [ask(pool, "x", b"%d" % number) for number in range(4)]
    threads.turn()
    assert [guess.called for guess in wrong] == [True, True, False, False]
    other = ask(pool, "y", b"y", "bob", "198.51.100.7")
    threads.turn()
    assert outcome(other)
    clock.advance(1.0)
    threads.turn()
    assert [guess.called for guess in wrong] == [True, True, True, False]
    clock.advance(1.0)
    threads.turn()
    assert wrong[3].called and clock.waiting == 0


def test_an_error_on_a_thread_reaches_who_waits(pool: HashPool, threads: Threads, book: Book) -> None:
    """Nobody waits for ever, and the place in the queue is free again."""
    book.error = RuntimeError("broken")
    verdict = ask(pool, "x", b"x")
    threads.turn()
    with pytest.raises(RuntimeError):
        outcome(verdict)
    assert pool.pending == 0


def test_closing_answers_all_who_wait(pool: HashPool, threads: Threads) -> None:
    """At shutdown clients are told to come back, and late verdicts of threads do no harm."""
    verdict = ask(pool, "x", b"x")
    threads.work.pop()()
    pool.close()
    with pytest.raises(Unavailable) as caught:
        outcome(verdict)
    assert caught.value.reason is ReasonCode.SERVER_SHUTTING_DOWN
    threads.turn()
    assert threads.ended
    with pytest.raises(Unavailable):
        ask(pool, "x", b"x")


@pytest_twisted.ensureDeferred
async def test_real_threads_really_verify() -> None:
    """The same with argon2, a thread of the pool, and the reactor that it crosses into."""
    names = []

    def cross(call: Callable[[], None]) -> None:
        names.append(threading.current_thread().name)
        reactor.callFromThread(call)

    pool = HashPool(cross, ManualClock(), threads=1)
    try:
        encoded = argon.hash_password(b"pw")
        assert await ask(pool, encoded, b"pw") is True
        assert await ask(pool, encoded, b"no") is False
        assert names == ["iot-mqtt-hash_0"] * 2
    finally:
        pool.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no priority of their own")
def test_threads_that_hash_give_way_to_the_reactor() -> None:
    """Whoever is in is served first; the thread that asked keeps its own priority."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    found: list[int] = []
    over = threading.Event()

    def verify(encoded: str, password: bytes) -> bool:
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        over.set()
        return True

    pool = HashPool(lambda call: None, ManualClock(), threads=1, verify=verify)
    pool.verify(Question("ann", "hash", b"pw"), "198.51.100.7")
    assert over.wait(10)
    pool.close()
    assert found == [min(19, before + NICER)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_who_has_hung_up_is_not_worked_for(pool: HashPool, threads: Threads, book: Book) -> None:
    """A place in the queue is free at once, unless somebody else has the same question; what was begun goes on."""
    begun, gone, shared = ask(pool, "x", b"0"), ask(pool, "x", b"1"), ask(pool, "x", b"2")
    also = ask(pool, "x", b"2")
    for one in (begun, gone, shared):
        one.addErrback(lambda failure: failure.trap(CancelledError) and None)
        one.cancel()
    assert pool.pending == 2
    late = ask(pool, "x", b"x")
    threads.turn()
    assert (outcome(also), outcome(late)) == (False, True)
    assert [password for _, password in book.asked] == [b"0", b"2", b"x"]
    assert pool.pending == 0
