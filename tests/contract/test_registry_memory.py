"""The registry in memory against the contract, and the trouble that only it can make."""

from __future__ import annotations

import pytest

from iot_mqtt.ports.registry import Registry
from tests.contract.registry_suite import LeasingSuite
from tests.contract.registrykit import CONNECTED, LOST, Bench, ManualPump, member
from tests.doubles.registry import MemoryEnsemble, MemoryRegistry


class MemoryBench(Bench):
    """Over one ensemble and a clock that is turned by hand."""

    def __init__(self, latency: float = 0.0) -> None:
        self.clock = ManualPump()
        super().__init__(self.clock)
        self.ensemble = MemoryEnsemble(self.clock, self.session_timeout, latency)

    def make(self, node_id: str) -> Registry:
        return self.ensemble.registry(node_id)

    def suspend(self, node_id: str) -> None:
        self.ensemble.suspend(node_id)

    def heal(self, node_id: str) -> None:
        self.ensemble.heal(node_id)


class TestMemoryRegistry(LeasingSuite):
    """With everything seen at once."""

    storms = 50

    def make(self) -> MemoryBench:
        return MemoryBench()


class TestSlowMemoryRegistry(LeasingSuite):
    """With a while between a change and its being seen."""

    storms = 50

    def make(self) -> MemoryBench:
        return MemoryBench(latency=0.3)


@pytest.fixture
def bench() -> MemoryBench:
    return MemoryBench()


def test_an_expired_node_is_told_and_gone_at_once(bench: MemoryBench) -> None:
    """Without the time that a suspended one has."""
    a, b = bench.joined("a", "b")
    lease = b.acquire("x")
    assert lease is not None
    bench.ensemble.expire("b")
    assert b.states == [CONNECTED, LOST]
    assert not lease.held
    bench.clock.advance(0)
    assert a.boots == {"a": 1}
    assert a.acquire("x") is not None


def test_a_paused_node_learns_first_that_it_was_lost(bench: MemoryBench) -> None:
    """Not of what changed meanwhile; and who asks before it is told gets the truth."""
    a, b = bench.joined("a", "b")
    lease = b.acquire("x")
    assert lease is not None
    del b.told[:]
    bench.ensemble.pause("b")
    bench.clock.advance(3 * bench.session_timeout)
    a.until_sees(a=1)
    c = bench.node("c")
    c.register()
    assert a.acquire("x") is not None
    assert b.told == []
    assert b.registry.state is LOST
    assert not lease.held
    bench.ensemble.heal("b")
    assert b.told == [LOST, {"a": 1}]


def test_a_short_pause_goes_by_unnoticed_by_the_others(bench: MemoryBench) -> None:
    """The node itself has been suspended, as far as it can know."""
    a, b = bench.joined("a", "b")
    del a.told[:]
    bench.ensemble.pause("b")
    bench.clock.advance(bench.session_timeout / 2)
    bench.ensemble.heal("b")
    b.until_state(CONNECTED)
    bench.clock.advance(2 * bench.session_timeout)
    assert a.told == []
    assert LOST not in b.states


def test_a_node_id_that_is_used_twice_loses_the_one_that_came_first(bench: MemoryBench) -> None:
    """A second process with a later life takes its place, and the first is told."""
    (a,) = bench.joined("a")
    other = MemoryRegistry("a", bench.ensemble)
    bench.clock.run(other.register(member("a", 2)))
    assert a.states == [CONNECTED, LOST]
    assert a.registry.trouble
    assert other.state is CONNECTED
