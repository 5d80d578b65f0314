"""The static registry against what of the contract it can keep, and its own rules."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iot_mqtt.cluster.registry.static import StaticRegistry
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.registry import Registry
from tests.contract.registry_suite import RegistrySuite
from tests.contract.registrykit import CONNECTED, LOST, SUSPENDED, Bench, ManualPump, Node, member

BEAT = 0.5


class StaticBench(Bench):
    """Registries that hear of each other's heartbeats as long as neither is cut off."""

    def __init__(self, *listed: str) -> None:
        self.clock = ManualPump()
        super().__init__(self.clock)
        self.listed = listed
        self.registries: dict[str, StaticRegistry] = {}
        self.cut: set[str] = set()
        self.beat()

    def make(self, node_id: str) -> Registry:
        registry = StaticRegistry(node_id, self.listed, self.clock, self.session_timeout)
        self.registries[node_id] = registry
        self.cut.discard(node_id)
        return registry

    def beat(self) -> None:
        for node_id, sender in self.registries.items():
            own = sender.members.get(node_id)
            for receiver_id, receiver in self.registries.items():
                if receiver is sender or {node_id, receiver_id} & self.cut:
                    continue
                if own is not None:
                    receiver.heard(own)
                elif sender.trouble == "closed":
                    receiver.gone(node_id, 1)
        self.clock.call_later(BEAT, self.beat)

    def suspend(self, node_id: str) -> None:
        self.cut.add(node_id)

    def heal(self, node_id: str) -> None:
        self.cut.discard(node_id)


class TestStaticRegistry(RegistrySuite):
    """With three nodes listed, and room for a fourth that some tests start."""

    def make(self) -> Bench:
        return StaticBench("a", "b", "c")

    def test_what_was_missed_is_seen_after_the_connection_is_back(self, bench: Bench) -> None:
        """The one in the suite has a fourth node, and ends one while another is cut off: no majority of four."""
        a, b, c = bench.joined("a", "b", "c")
        bench.suspend("c")
        c.until_state(SUSPENDED)
        bench.driver.run(b.registry.close())
        a.until_sees(a=1, c=1)
        bench.heal("c")
        c.until_sees(a=1, c=1)
        c.until_state(CONNECTED)


@pytest.fixture
def bench() -> StaticBench:
    return StaticBench("a", "b", "c")


def test_two_of_three_are_enough(bench: StaticBench) -> None:
    """And one is not, however long it waits."""
    a = bench.node("a")
    a.register()
    bench.clock.advance(60)
    assert a.registry.state is not CONNECTED
    assert a.registry.trouble is not None
    assert "b, c" in a.registry.trouble
    b = bench.node("b")
    b.register()
    a.until_state(CONNECTED)
    b.until_state(CONNECTED)


def test_half_is_not_more_than_half() -> None:
    """With two nodes, the end of either suspends the other: it may be the one that was cut off."""
    bench = StaticBench("a", "b")
    a, b = bench.joined("a", "b")
    bench.suspend("b")
    a.until_state(SUSPENDED)
    b.until_state(SUSPENDED)
    a.until_state(LOST)


def test_a_node_alone_is_its_own_majority() -> None:
    """One node in the list needs nobody, not even time."""
    bench = StaticBench("a")
    (a,) = bench.joined("a")
    bench.clock.advance(100)
    assert a.states == [CONNECTED]


def test_only_the_lowest_node_of_a_majority_gets_leases(bench: StaticBench) -> None:
    """With its boot number; the others get none, even while it has none."""
    a, b, _c = bench.joined("a", "b", "c")
    assert b.acquire("x") is None
    lease = a.acquire("x")
    assert lease is not None and lease.held
    assert lease.number == 1
    assert a.acquire("x") is None
    lease.release()
    assert not lease.held
    assert a.acquire("x") is not None


def test_leases_pass_to_the_next_node_when_the_lowest_is_gone(bench: StaticBench) -> None:
    """By then its own clock has told the former holder that it holds nothing."""
    a, b, _c = bench.joined("a", "b", "c")
    lease = a.acquire("x")
    assert lease is not None
    bench.suspend("a")
    bench.driver.until(lambda: b.acquire("x") is not None)
    assert not lease.held


def test_a_lease_ends_when_a_lower_node_appears(bench: StaticBench) -> None:
    """For that one may take it from now on."""
    b, c = bench.joined("b", "c")
    lease = b.acquire("x")
    assert lease is not None and lease.held
    a = bench.node("a")
    a.register()
    a.until_state(CONNECTED)
    b.until_sees(a=1, b=1, c=1)
    assert not lease.held
    assert c.acquire("x") is None


def standing_still(bench: StaticBench, seconds: float) -> Callable[[], None]:
    """Time passes without anything being run; the result lets it go on."""
    clock = bench.clock
    clock._set(clock.monotonic() + seconds)
    return lambda: clock.advance(0)


def test_a_process_that_stood_still_finds_out_first(bench: StaticBench) -> None:
    """Whoever asks is told the truth, and LOST comes before all the rest."""
    a, _b, _c = bench.joined("a", "b", "c")
    lease = a.acquire("x")
    assert lease is not None
    del a.told[:]
    go_on = standing_still(bench, 3 * bench.session_timeout)
    assert a.registry.state is LOST
    assert not lease.held
    assert a.acquire("x") is None
    go_on()
    assert a.told[0] is LOST


@pytest.mark.parametrize(
    ("heard", "reason"),
    [
        (member("g"), "not listed"),
        (member("b", boot=4), "earlier life"),
        (member("a", boot=2), "own node id"),
    ],
)
def test_heartbeats_that_are_not_listened_to_are_counted(heard: object, reason: str) -> None:
    """Of strangers, of lives that are over, and of a second node of our own name."""
    clock = ManualClock()
    registry = StaticRegistry("a", ("a", "b", "c"), clock)
    node = Node("a", registry, ManualPump())
    node.register()
    registry.heard(member("b", boot=5))
    assert registry.members["b"].boot == 5
    registry.heard(heard)  # type: ignore[arg-type]
    assert registry.members["b"].boot == 5
    assert dict(registry.refused) == {reason: 1}
    assert (registry.state is LOST) is (reason == "own node id")


def test_after_a_farewell_a_late_heartbeat_does_not_bring_the_node_back() -> None:
    """But its next life does."""
    registry = StaticRegistry("a", ("a", "b", "c"), ManualClock())
    Node("a", registry, ManualPump()).register()
    registry.heard(member("b", boot=5))
    registry.gone("b", 5)
    registry.heard(member("b", boot=5))
    assert "b" not in registry.members
    assert registry.refused == {"earlier life": 1}
    registry.heard(member("b", boot=6))
    assert registry.members["b"].boot == 6


def test_a_node_has_to_be_in_its_own_list() -> None:
    """The majority is counted over the list, so all must have the same one."""
    with pytest.raises(ValueError, match="not among the nodes"):
        StaticRegistry("d", ("a", "b", "c"), ManualClock())
