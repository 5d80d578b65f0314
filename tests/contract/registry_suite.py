"""What every registry must do. A registry is accepted when it passes.

A registry's own test file subclasses ``RegistrySuite`` (or ``LeasingSuite``, when it can tell a dead node from one
that is cut off) and says how a ``Bench`` is made: registries that know one another, and trouble between them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.registry import Lease, RegistryState
from tests.contract.registry_storm import Storm
from tests.contract.registrykit import CONNECTED, LOST, SUSPENDED, Bench, Node, member
from tests.seeds import seeds_of


class RegistrySuite:
    """Subclass, and define ``make``: a bench, with nothing going on at it yet."""

    def make(self) -> Bench:
        raise NotImplementedError

    @pytest.fixture
    def bench(self) -> Iterator[Bench]:
        bench = self.make()
        yield bench
        bench.close()

    # Entering and leaving.

    def test_before_it_registers_a_node_is_lost(self, bench: Bench) -> None:
        """It has no entry, so it owns nothing and gets no lease; and that is its trouble."""
        node = bench.node("a")
        assert node.registry.state is LOST
        assert node.registry.members == {}
        assert node.registry.trouble
        assert node.acquire("x") is None
        assert node.told == []

    def test_nodes_that_registered_see_each_other(self, bench: Bench) -> None:
        """Each one itself, too, with everything that it said of itself."""
        for node in bench.joined("a", "b", "c"):
            assert node.registry.members == {name: member(name) for name in "abc"}
            assert node.registry.trouble is None
            assert node.states == [CONNECTED]

    def test_a_change_of_the_list_is_told(self, bench: Bench) -> None:
        """After the list has changed."""
        a, b = bench.joined("a", "b")
        del a.told[:]
        c = bench.node("c")
        c.register()
        a.until_sees(a=1, b=1, c=1)
        b.until_sees(a=1, b=1, c=1)
        assert a.told[-1] == {"a": 1, "b": 1, "c": 1}

    def test_who_closes_leaves_at_once(self, bench: Bench) -> None:
        """Long before its time is over."""
        a, b, c = bench.joined("a", "b", "c")
        bench.driver.run(c.registry.close())
        a.until_sees(a=1, b=1)
        b.until_sees(a=1, b=1)
        assert c.registry.state is LOST
        assert c.registry.members == {}
        assert LOST not in c.states

    def test_a_closed_registry_refuses_to_register(self, bench: Bench) -> None:
        """And closing twice is no error."""
        node = bench.node("a")
        bench.driver.run(node.registry.close())
        bench.driver.run(node.registry.close())
        with pytest.raises(Unavailable):
            node.register()

    def test_an_update_is_seen_by_the_others(self, bench: Bench) -> None:
        """Of several in a row the last one."""
        a, b, _c = bench.joined("a", "b", "c")
        for clients in range(1, 6):
            b.registry.update(replace(member("b"), clients=clients, load=clients / 10, draining=clients == 5))
        expected = replace(member("b"), clients=5, load=0.5, draining=True)
        bench.driver.until(lambda: a.registry.members["b"] == expected)
        bench.driver.until(lambda: b.registry.members["b"] == expected)

    def test_an_update_is_of_the_present_life(self, bench: Bench) -> None:
        """Another boot number is not slipped in by it."""
        (a, *_) = bench.joined("a", "b", "c")
        with pytest.raises(ValueError, match="life"):
            a.registry.update(member("a", boot=2))

    def test_an_update_of_a_node_that_is_not_registered_is_nothing(self, bench: Bench) -> None:
        """A node tells its load now and then, whatever the registry's state."""
        node = bench.node("a")
        node.registry.update(member("a"))
        assert node.registry.state is LOST

    # Lives.

    def test_a_restart_takes_the_place_of_the_earlier_life(self, bench: Bench) -> None:
        """Without waiting for the earlier one's time to be over."""
        a, b, _c = bench.joined("a", "b", "c")
        again = bench.node("c")
        again.register(boot=2)
        again.until_state(CONNECTED)
        a.until_sees(a=1, b=1, c=2)
        b.until_sees(a=1, b=1, c=2)
        bench.driver.pass_time(bench.session_timeout * 1.5)
        assert a.boots == {"a": 1, "b": 1, "c": 2}
        assert again.registry.state is CONNECTED

    # Trouble.

    def test_a_node_that_is_cut_off_is_suspended_and_comes_back(self, bench: Bench) -> None:
        """When the connection comes back in time, nothing was lost."""
        _a, _b, c = bench.joined("a", "b", "c")
        bench.suspend("c")
        c.until_state(SUSPENDED)
        assert c.registry.trouble
        assert c.boots == {"a": 1, "b": 1, "c": 1}
        assert c.acquire("x") is None
        bench.heal("c")
        c.until_state(CONNECTED)
        assert c.states == [CONNECTED, SUSPENDED, CONNECTED]
        assert c.boots == {"a": 1, "b": 1, "c": 1}
        assert c.registry.trouble is None

    def test_a_node_that_stays_cut_off_is_lost_and_gone(self, bench: Bench) -> None:
        """It finds out by its own clock, with no way to ask."""
        a, b, c = bench.joined("a", "b", "c")
        bench.suspend("c")
        c.until_state(LOST)
        bench.driver.until(lambda: c.states == [CONNECTED, SUSPENDED, LOST])
        assert "c" not in c.boots
        assert c.registry.trouble
        a.until_sees(a=1, b=1)
        b.until_sees(a=1, b=1)

    def test_what_was_missed_is_seen_after_the_connection_is_back(self, bench: Bench) -> None:
        """The list is read again: watching it has missed what happened meanwhile."""
        _a, b, c = bench.joined("a", "b", "c")
        bench.suspend("c")
        c.until_state(SUSPENDED)
        d = bench.node("d")
        d.register()
        b.registry.update(replace(member("b"), clients=7))
        bench.driver.run(bench.nodes[0].registry.close())
        bench.heal("c")
        c.until_sees(b=1, c=1, d=1)
        bench.driver.until(lambda: c.registry.members["b"].clients == 7)
        c.until_state(CONNECTED)

    def test_after_lost_a_node_registers_anew(self, bench: Bench) -> None:
        """Nothing is registered for it before it says so."""
        a, b, c = bench.joined("a", "b", "c")
        bench.suspend("c")
        c.until_state(LOST)
        a.until_sees(a=1, b=1)
        bench.heal("c")
        bench.driver.pass_time(1.0)
        assert c.registry.state is LOST
        assert "c" not in a.boots
        c.register(boot=2)
        c.until_state(CONNECTED)
        a.until_sees(a=1, b=1, c=2)
        b.until_sees(a=1, b=1, c=2)
        c.until_sees(a=1, b=1, c=2)

    def test_it_may_register_from_inside_the_news_that_it_was_lost(self, bench: Bench) -> None:
        """Which then waits for the connection."""
        a, _b, c = bench.joined("a", "b", "c")
        begun: list[Deferred[None]] = []

        def on_state(state: RegistryState) -> None:
            c.told.append(state)
            if state is LOST:
                begun.append(bench.driver.start(c.registry.register(member("c", 2))))

        c.registry.on_state = on_state
        bench.suspend("c")
        bench.driver.until(lambda: bool(begun))
        a.until_sees(a=1, b=1)
        bench.heal("c")
        bench.driver.until(lambda: begun[0].called)
        c.until_state(CONNECTED)
        a.until_sees(a=1, b=1, c=2)
        assert c.states == [CONNECTED, SUSPENDED, LOST, CONNECTED]


class LeasingSuite(RegistrySuite):
    """For registries that know when a node has lost its place, wherever it may be."""

    #: How many storms there are in ``test_in_any_storm_…``.
    storms = 1

    def test_registering_returns_when_it_is_connected(self, bench: Bench) -> None:
        """With itself in the list, and the state told before."""
        a = bench.node("a")
        a.register()
        assert a.registry.state is CONNECTED
        assert a.boots == {"a": 1}
        assert a.told == [CONNECTED, {"a": 1}]

    def test_a_later_life_is_not_replaced_by_an_earlier_one(self, bench: Bench) -> None:
        """An old process that registers late is refused."""
        a, old = bench.joined("a", "b")
        new = bench.node("b")
        new.register(boot=3)
        late = bench.node("b") if old is new else Node("b", old.registry, bench.driver)
        a.until_sees(a=1, b=3)
        with pytest.raises(Unavailable):
            late.register(boot=2)
        assert a.boots == {"a": 1, "b": 3}
        assert new.registry.state is CONNECTED

    def test_a_lease_has_one_holder(self, bench: Bench) -> None:
        """The second gets none, and does not wait; neither does the holder get it twice."""
        a, b = bench.joined("a", "b")
        lease = a.acquire("adopt/7")
        assert lease is not None and lease.held
        assert b.acquire("adopt/7") is None
        assert a.acquire("adopt/7") is None
        other = b.acquire("adopt/8")
        assert other is not None and other.held

    def test_a_released_lease_may_be_had_by_another(self, bench: Bench) -> None:
        """At once, with a greater number; and releasing again takes nothing from that one."""
        a, b = bench.joined("a", "b")
        first = a.acquire("x")
        assert first is not None
        first.release()
        assert not first.held
        found: list[Lease] = []

        def try_again() -> bool:
            lease = b.acquire("x")
            if lease is not None:
                found.append(lease)
            return bool(found)

        bench.driver.until(try_again)
        assert found[0].number > first.number
        first.release()
        assert found[0].held
        assert a.acquire("x") is None

    def test_its_own_lease_may_be_had_again_at_once(self, bench: Bench) -> None:
        """Release and acquire are carried out in order, each time with a greater number."""
        (a,) = bench.joined("a")
        numbers = []
        for _ in range(20):
            lease = a.acquire("x")
            assert lease is not None
            numbers.append(lease.number)
            lease.release()
        assert numbers == sorted(set(numbers))

    def test_of_many_at_once_one_gets_it(self, bench: Bench) -> None:
        """However the requests fall."""
        nodes = bench.joined("a", "b", "c")
        for round_ in range(5):
            asked = [bench.driver.start(node.registry.acquire(f"r{round_}")) for node in nodes for _ in range(2)]
            bench.driver.until(lambda asked=asked: all(one.called for one in asked))  # type: ignore[misc]
            assert sum(one.result is not None for one in asked) == 1

    def test_a_lease_is_not_held_while_suspended_nor_ever_after(self, bench: Bench) -> None:
        """It was doubtful, so its holder has let go; a new one has a greater number."""
        a, b = bench.joined("a", "b")
        lease = a.acquire("x")
        assert lease is not None
        bench.suspend("a")
        a.until_state(SUSPENDED)
        assert not lease.held
        assert b.acquire("x") is None
        bench.heal("a")
        a.until_state(CONNECTED)
        assert not lease.held
        lease.release()
        again = a.acquire("x")
        assert again is not None and again.held
        assert again.number > lease.number
        assert b.acquire("x") is None

    def test_a_lease_was_not_held_when_it_is_told_that_the_state_is_not_connected(self, bench: Bench) -> None:
        """Whoever is told finds every lease gone already."""
        (a,) = bench.joined("a")
        lease = a.acquire("x")
        assert lease is not None
        held: list[bool] = []
        a.registry.on_state = lambda _state: held.append(lease.held)
        bench.suspend("a")
        bench.driver.until(lambda: bool(held))
        assert held == [False]

    def test_the_lease_of_a_node_that_is_gone_passes_on(self, bench: Bench) -> None:
        """Never before its holder's own clock says that it is lost."""
        a, b = bench.joined("a", "b")
        lease = a.acquire("x")
        assert lease is not None
        bench.suspend("a")
        found: list[Lease] = []

        def try_again() -> bool:
            got = b.acquire("x")
            if got is not None:
                assert not lease.held
                assert a.registry.state is LOST
                found.append(got)
            return bool(found)

        bench.driver.until(try_again)
        assert found[0].number > lease.number
        bench.heal("a")
        a.register(boot=2)
        assert not lease.held
        lease.release()
        assert found[0].held
        assert a.acquire("x") is None

    def test_who_is_evicted_has_left_for_all_and_is_lost_itself(self, bench: Bench) -> None:
        """Without waiting for its session: whoever evicts it has fenced that life, and knows."""
        a, b, c = bench.joined("a", "b", "c")
        bench.driver.run(a.registry.evict(a.registry.members["c"]))
        a.until_sees(a=1, b=1)
        b.until_sees(a=1, b=1)
        c.until_state(LOST)
        c.register(boot=2)
        b.until_sees(a=1, b=1, c=2)

    def test_a_later_life_is_not_evicted_nor_one_that_has_left(self, bench: Bench) -> None:
        """Several may find the same life dead, and one of them late."""
        a, b = bench.joined("a", "b")
        earlier = a.registry.members["b"]
        b.register(boot=2)
        a.until_sees(a=1, b=2)
        bench.driver.run(a.registry.evict(earlier))
        b.registry.update(replace(member("b", boot=2), clients=3))
        bench.driver.until(lambda: a.registry.members["b"].clients == 3)
        present = a.registry.members["b"]
        bench.driver.run(b.registry.close())
        a.until_sees(a=1)
        bench.driver.run(a.registry.evict(present))
        assert a.registry.state is CONNECTED

    def test_closing_gives_leases_back(self, bench: Bench) -> None:
        """They go with the entry."""
        a, b = bench.joined("a", "b")
        lease = a.acquire("x")
        assert lease is not None
        bench.driver.run(a.registry.close())
        assert not lease.held
        b.until_sees(b=1)
        got = b.acquire("x")
        assert got is not None and got.number > lease.number

    def test_in_any_storm_a_lease_has_one_holder(self, bench: Bench) -> None:
        """Connections come and go, nodes register again with a greater boot: never two holders, nor a smaller
        number after a greater one; and after the storm all is well.
        """
        nodes = bench.joined("a", "b", "c")
        storm = Storm(bench, nodes)
        for seed in seeds_of("registry storms", self.storms):
            storm.rage(random.Random(seed))
            storm.calm()
