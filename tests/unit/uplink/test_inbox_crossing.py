"""Letters on their way into the reactor's thread: in order, bounded, and the next ones when those were taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import pytest

from iot_mqtt.ports.inbox import InboxFacts, Letter
from iot_mqtt.thread_bridge import Job, ThreadBridge, run_jobs
from iot_mqtt.uplink.inbox.crossing import MOST_BYTES, MOST_LETTERS, Crossing


class Reactor:
    """The other thread, as far as a bridge knows it: calls that wait, and who gets what they bring."""

    def __init__(self) -> None:
        self.calls: deque[Callable[[], None]] = deque()
        self.bridge: ThreadBridge[Job] = ThreadBridge("commands", self.calls.append)
        self.crossing = Crossing(self.bridge, self)
        self.offsets: list[list[int]] = []
        self.fails = False

    def came(self, letters: Sequence[Letter]) -> None:
        self.offsets.append([letter.offset for letter in letters])
        if self.fails:
            raise RuntimeError("a fault of ours")

    def heard(self, trouble: str | None, facts: InboxFacts) -> None: ...

    def assigned(self, partitions: Sequence[int]) -> None: ...

    def revoked(self, partitions: Sequence[int], done: Callable[[], None]) -> None: ...

    def lost(self, partitions: Sequence[int]) -> None: ...

    def ended(self) -> None: ...

    def add(self, *offsets: int, value: bytes = b"{}") -> None:
        for offset in offsets:
            self.crossing.add(Letter("iot.commands", 0, offset, None, value, None))

    def turn(self) -> None:
        while self.calls:
            self.calls.popleft()()


def test_letters_cross_together_and_in_order() -> None:
    """Nothing goes by itself, and nothing goes twice."""
    reactor = Reactor()
    reactor.add(1, 2, 3)
    reactor.crossing.go()
    reactor.crossing.go()
    reactor.turn()
    assert reactor.offsets == [[1, 2, 3]]


def test_it_waits_until_the_reactor_has_taken_them_and_the_thread_has_heard_of_it() -> None:
    """The thread reads no more from Kafka meanwhile."""
    reactor = Reactor()
    reactor.add(1)
    assert not reactor.crossing.waiting
    reactor.crossing.go()
    assert reactor.crossing.waiting
    reactor.turn()
    assert reactor.crossing.waiting
    run_jobs(reactor.bridge)
    assert not reactor.crossing.waiting


def test_a_fault_of_the_reader_does_not_stop_what_comes_after() -> None:
    """They count as taken; nobody settles them, so they come again in another life."""
    reactor = Reactor()
    reactor.fails = True
    reactor.add(1)
    reactor.crossing.go()
    with pytest.raises(RuntimeError):
        reactor.turn()
    run_jobs(reactor.bridge)
    assert not reactor.crossing.waiting


@pytest.mark.parametrize(("count", "value"), [(MOST_LETTERS, b""), (4, b"x" * (MOST_BYTES // 4))])
def test_it_is_full_by_letters_or_by_bytes(count: int, value: bytes) -> None:
    """One less is not full; once they are gone there is room again."""
    reactor = Reactor()
    reactor.add(*range(count - 1), value=value)
    assert not reactor.crossing.full
    reactor.add(count, value=value)
    assert reactor.crossing.full
    reactor.crossing.go()
    assert not reactor.crossing.full


def test_what_did_not_go_is_dropped_with_the_life_that_read_it() -> None:
    """Its bytes are no longer counted, either."""
    reactor = Reactor()
    reactor.add(1, value=b"x" * MOST_BYTES)
    reactor.crossing.drop()
    assert not reactor.crossing.full
    reactor.crossing.go()
    reactor.turn()
    assert reactor.offsets == []
