"""A queue to a thread and the way back: order, limits, patience, the end, and what counts as idle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue

import pytest

from iot_mqtt.thread_bridge import Finish, Job, ThreadBridge, TurnBridge, run_jobs

#: Seconds; only a failure takes so long.
LONG = 10.0


class Reactor:
    """The other side: takes what is handed over, when the test says so."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Finish] = SimpleQueue()

    def cross(self, call: Finish) -> None:
        self.calls.put(call)

    def one(self) -> None:
        """Do what is handed over next."""
        self.calls.get(timeout=LONG)()

    def nothing_more(self) -> bool:
        try:
            self.calls.get_nowait()
        except Empty:
            return True
        return False


@pytest.fixture
def reactor() -> Reactor:
    return Reactor()


def test_take_brings_what_waits_up_to_the_limit(reactor: Reactor) -> None:
    """One entry may be heavier than all may be together; nothing waits behind it."""
    bridge: ThreadBridge[str] = ThreadBridge("test", reactor.cross, limit=5)
    for name, weight in (("a", 2), ("b", 2), ("c", 9), ("d", 9), ("e", 1)):
        bridge.put(name, weight)
    assert [bridge.take(0.0) for _ in range(4)] == [["a", "b", "c"], ["d"], ["e"], []]
    assert not bridge.stopping


def test_take_tells_of_the_end_behind_what_was_put_before(reactor: Reactor) -> None:
    """And not before it was taken."""
    bridge: ThreadBridge[int] = ThreadBridge("test", reactor.cross, limit=2)
    for number in range(3):
        bridge.put(number)
    bridge.stop()
    assert bridge.take(None) == [0, 1] and not bridge.stopping
    assert bridge.take(None) == [2] and bridge.stopping


def test_jobs_are_done_in_order_one_after_the_other(reactor: Reactor) -> None:
    """Those that a job brings about, too."""
    bridge: ThreadBridge[Job] = ThreadBridge("test", reactor.cross)
    done: list[str] = []
    bridge.put(lambda: (done.append("a"), bridge.put(partial(done.append, "c")))[0])  # type: ignore[func-returns-value]
    bridge.put(partial(done.append, "b"))
    run_jobs(bridge)
    assert done == ["a", "b", "c"]


def turns_of(reactor: Reactor, limit: int = 10) -> tuple[TurnBridge[int], list[list[int]], Callable[[], None]]:
    """A bridge whose turns wait until they are let go, what they were, and letting one go."""
    gate = threading.Semaphore(0)
    turns: list[list[int]] = []

    def turn(entries: list[int]) -> Finish | None:
        gate.acquire(timeout=LONG)
        return None if 0 in entries else partial(turns.append, entries)

    return TurnBridge("test", turn, reactor.cross, limit), turns, gate.release


def test_what_comes_during_a_turn_is_the_next_one(reactor: Reactor) -> None:
    """And what a turn leaves to be done is done in the reactor, in the order of turns."""
    bridge, turns, let_go = turns_of(reactor)
    bridge.begin()
    bridge.put(1)
    while not bridge._queue.empty():  # the first turn is under way
        pass
    for number in (2, 3):
        bridge.put(number)
    let_go()
    let_go()
    reactor.one()
    reactor.one()
    assert turns == [[1], [2, 3]]


def test_it_is_idle_when_all_was_told(reactor: Reactor) -> None:
    """Not while a turn is under way, and not while the reactor has not heard of it."""
    bridge, _, let_go = turns_of(reactor)
    assert bridge.idle
    bridge.begin()
    bridge.put(1)
    assert not bridge.idle
    let_go()
    call = reactor.calls.get(timeout=LONG)
    assert not bridge.idle
    call()
    assert bridge.idle


def test_a_turn_with_nothing_to_tell_does_not_cross(reactor: Reactor) -> None:
    """The reactor is not woken up; the bridge is idle all the same."""
    bridge, turns, let_go = turns_of(reactor, limit=1)
    bridge.begin()
    bridge.put(0)
    bridge.put(1)
    let_go()
    let_go()
    reactor.one()
    assert turns == [[1]] and bridge.idle and reactor.nothing_more()


def test_patience_brings_turns_without_entries(reactor: Reactor) -> None:
    """As long as it is not None."""
    bridge, turns, let_go = turns_of(reactor)
    bridge.patience = 0.0
    bridge.begin()
    let_go()
    reactor.one()
    assert turns == [[]]
    bridge.patience = None
    let_go()  # at most one more was under way
    bridge.stop()
    let_go()


def test_the_end_comes_behind_the_last_turn(reactor: Reactor) -> None:
    """And then the thread can be joined."""
    bridge, turns, let_go = turns_of(reactor)
    ended: list[bool] = []
    bridge.begin(end=lambda: partial(ended.append, True))
    bridge.put(1)
    bridge.stop()
    let_go()
    reactor.one()
    assert turns == [[1]] and not ended
    reactor.one()
    bridge.join()
    assert ended and not bridge.started


def test_a_beginning_that_is_refused_ends_it(reactor: Reactor) -> None:
    """It can be begun again."""
    bridge, turns, let_go = turns_of(reactor)
    refused: list[bool] = []
    bridge.begin(lambda: partial(refused.append, True))
    reactor.one()
    bridge.join()
    assert refused
    bridge.begin()
    bridge.put(1)
    let_go()
    reactor.one()
    assert turns == [[1]]
