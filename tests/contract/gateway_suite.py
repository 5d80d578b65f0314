"""What a gateway must do for its client: identity, fences, messages, and the truth after a broken connection.

The fake of the unit tests and the real one inside Ignite both keep it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite import Fenced, IgniteGrid, RefusedByGateway
from iot_mqtt.grid.ignite.whole import claim_key, note_of
from iot_mqtt.ports.grid import CacheName, Operation, WriteBatch
from tests.contract.driving import Pump
from tests.seeds import seeds_of

CACHE = CacheName.CHANNELS


class GatewaySuite:
    """Subclass, and define ``pump`` and ``make``. Boots are never used twice by one cluster: ``boot`` counts."""

    boots = iter(range(1000, 1 << 30))

    def pump(self) -> Pump:
        raise NotImplementedError

    def make(self, pump: Pump, token: str | None = None) -> IgniteGrid:
        raise NotImplementedError

    @pytest.fixture
    def driver(self) -> Pump:
        return self.pump()

    @pytest.fixture
    def opened(self, driver: Pump) -> Iterator[Callable[[], IgniteGrid]]:
        """Makes and opens grids, and closes them at the end."""
        grids: list[IgniteGrid] = []

        def opened() -> IgniteGrid:
            grids.append(self.make(driver))
            driver.run(grids[-1].open())
            return grids[-1]

        yield opened
        for grid in grids:
            driver.run(grid.close())

    @pytest.fixture
    def boot(self) -> int:
        return next(self.boots)

    # Who may speak.

    def test_a_wrong_token_is_refused(self, driver: Pump) -> None:
        """With what to do about it."""
        with pytest.raises(RefusedByGateway, match=r"check grid\.ignite\.token"):
            driver.run(self.make(driver, token="a guess").open())

    def test_a_fenced_life_writes_no_more(self, driver: Pump, opened: Callable[[], IgniteGrid], boot: int) -> None:
        """It is told so, once; its earlier boots neither; a later one and other nodes go on."""
        dead, other, judge = opened(), opened(), opened()
        told: list[str] = []
        dead.on_fenced = told.append
        driver.run(dead.identify(9, boot))
        driver.run(other.identify(10, boot))
        driver.run(put(dead, b"k", b"before"))
        driver.run(judge.fence(9, boot))
        driver.until(lambda: bool(told))
        with pytest.raises(Fenced):
            driver.run(put(dead, b"k", b"after"))
        for late in (boot, boot - 1):
            with pytest.raises(Fenced):
                driver.run(dead.identify(9, late))
        driver.run(put(other, b"j", b"fine"))
        driver.run(dead.identify(9, next(self.boots)))
        assert driver.run(dead.get(CACHE, b"k")) == b"before"
        driver.run(put(dead, b"k", b"again"))
        driver.run(judge.fence(9, boot))
        driver.run(put(dead, b"k", b"and again"))

    def test_a_fence_comes_between_writes_on_their_way(
        self, driver: Pump, opened: Callable[[], IgniteGrid], boot: int
    ) -> None:
        """When it is done, what is there stays as it is."""
        dead, judge = opened(), opened()
        driver.run(dead.identify(9, boot))
        done: list[BaseException | None] = []
        for number in range(300):
            dead.commit_soon(batch(b"k", b"%03d" % number), done.append)
        driver.until(lambda: bool(done))
        for number in range(300, 600):
            dead.commit_soon(batch(b"k", b"%03d" % number), done.append)
        driver.run(judge.fence(9, boot))
        present = driver.run(judge.get(CACHE, b"k"))
        driver.until(lambda: len(done) == 600)
        assert present is not None
        assert driver.run(judge.get(CACHE, b"k")) == present
        acknowledged = [number for number, error in enumerate(done) if error is None]
        assert acknowledged == list(range(len(acknowledged)))
        assert int(present) >= acknowledged[-1]

    def test_a_later_boot_takes_the_place_of_an_earlier_one(
        self, driver: Pump, opened: Callable[[], IgniteGrid], boot: int
    ) -> None:
        """Whose connection is closed before the new one is welcomed."""
        old, new = opened(), opened()
        driver.run(old.identify(11, boot))
        losses = old.gateway.losses
        driver.run(new.identify(11, next(self.boots)))
        driver.until(lambda: old.gateway.losses > losses)
        driver.run(put(new, b"k", b"v"))

    # What is whole.

    def test_whoever_fences_writes_the_rest_of_what_was_begun(
        self, driver: Pump, opened: Callable[[], IgniteGrid], boot: int
    ) -> None:
        """Of a batch that must be whole; once, whoever else fences later, and never over what came since."""
        dead, judge, other = opened(), opened(), opened()
        driver.run(dead.identify(20, boot))
        driver.run(judge.identify(21, boot))
        driver.run(other.identify(22, boot))
        operations: list[Operation] = [(CacheName.LOG, b"page", b"message"), (CacheName.RECEIVED, b"c/1", b"\x10")]
        operations += [(CACHE, b"k", b"dead"), (CacheName.WILLS, b"c", None)]
        driver.run(put(dead, b"k", b"before"))
        parts, head = note_of(dead.identity, 1, operations)
        begun = WriteBatch()
        begun.operations = [*parts, head, operations[0]]
        driver.run(dead.commit(begun))
        for grid in (judge, other):
            driver.run(grid.fence(20, boot))
        driver.run(judge.finish(20, boot))
        for cache, key, value in operations:
            assert driver.run(judge.get(cache, key)) == value
        driver.run(put(judge, b"k", b"since"))
        driver.run(other.finish(20, boot))
        assert driver.run(other.get(CACHE, b"k")) == b"since"
        assert (judge.finisher.finished, other.finisher.finished) == (1, 0)
        assert driver.run(judge.page(CacheName.META, b"whole/")) == []
        assert driver.run(judge.page(CacheName.META, b"finishing/")) == []

    def test_what_a_dead_node_was_finishing_is_finished_by_another(
        self, driver: Pump, opened: Callable[[], IgniteGrid], boot: int
    ) -> None:
        """As soon as it is fenced; until then the others wait."""
        dead, first, second = opened(), opened(), opened()
        driver.run(dead.identify(20, boot))
        driver.run(first.identify(21, boot))
        driver.run(second.identify(22, boot))
        parts, head = note_of(dead.identity, 1, [(CACHE, b"k", b"dead")])
        begun = WriteBatch()
        begun.operations = [*parts, head]
        driver.run(dead.commit(begun))
        driver.run(second.fence(20, boot))
        claim = b"\x10" + bytes((21,)) + boot.to_bytes(8)
        assert driver.run(first.compare_and_set(CacheName.META, claim_key(20), None, claim))
        with pytest.raises(Unavailable, match="another node is still finishing"):
            driver.run(second.finish(20, boot))
        assert driver.run(second.get(CACHE, b"k")) is None
        driver.run(second.fence(21, boot))
        driver.run(second.finish(21, boot))
        driver.run(second.finish(20, boot))
        assert driver.run(second.get(CACHE, b"k")) == b"dead"

    def test_a_note_is_gone_before_it_is_told_that_all_is_written(
        self, driver: Pump, opened: Callable[[], IgniteGrid], boot: int
    ) -> None:
        """Or it would be written again over what a client's next home has written since: that asks the grid at once."""
        grid, judge = opened(), opened()
        driver.run(grid.identify(20, boot))
        driver.run(judge.identify(21, boot))
        whole = batch(b"k", b"ours")
        whole.whole = True
        driver.run(grid.commit(whole))
        assert driver.run(judge.page(CacheName.META, b"whole/")) == []
        driver.run(put(judge, b"k", b"theirs"))
        driver.run(judge.fence(20, boot))
        driver.run(judge.finish(20, boot))
        assert driver.run(judge.get(CACHE, b"k")) == b"theirs"

    def test_swaps_made_together_are_told_one_by_one(
        self, driver: Pump, opened: Callable[[], IgniteGrid], boot: int
    ) -> None:
        """Of the same key in their order."""
        grid = opened()
        driver.run(grid.identify(20, boot))
        driver.run(put(grid, b"here", b"0"))
        asked = [
            driver.start(grid.compare_and_set(CACHE, *swap))
            for swap in (
                (b"new", None, b"1"),
                (b"here", None, b"1"),
                (b"here", b"0", b"2"),
                (b"here", b"2", None),
                (b"there", b"0", b"1"),
                (b"absent", None, None),
            )
        ]
        driver.until(lambda: all(one.called for one in asked))
        assert [one.result for one in asked] == [True, False, True, True, False, True]
        assert driver.run(grid.get_many(CACHE, [b"new", b"here", b"there"])) == [b"1", None, None]

    # Broken connections.

    def cut(self, grid: IgniteGrid) -> None:
        """As if the network had."""
        connection = grid.gateway._connection
        if connection is not None:
            connection.abort("cut by the test")

    @pytest.mark.parametrize("seed", seeds_of("gateway", 3))
    def test_a_swap_tells_the_truth_across_a_broken_connection(
        self, driver: Pump, opened: Callable[[], IgniteGrid], boot: int, seed: int
    ) -> None:
        """Done or not, as what is read afterwards shows; each value is written by one swap alone."""
        grid, rng = opened(), random.Random(seed)
        driver.run(grid.identify(12, boot))
        present: bytes | None = None
        for number in range(40):
            wanted = b"%d" % number
            expected = present if rng.random() < 0.8 else b"never"
            asked = driver.start(grid.compare_and_set(CACHE, b"k", expected, wanted))
            if rng.random() < 0.5:
                self.cut(grid)
            results: list[object] = []
            asked.addBoth(results.append)
            driver.until(lambda results=results: bool(results))  # type: ignore[misc]
            assert results == [expected == present]
            if results[0]:
                present = wanted
            driver.until(lambda: grid.available)
            assert driver.run(grid.get(CACHE, b"k")) == present

    @pytest.mark.parametrize("seed", seeds_of("gateway", 3))
    def test_a_repeated_batch_keeps_its_order_across_broken_connections(
        self, driver: Pump, opened: Callable[[], IgniteGrid], boot: int, seed: int
    ) -> None:
        """Nothing of an old connection comes to pass behind what a new one has done."""
        grid, rng = opened(), random.Random(seed)
        driver.run(grid.identify(13, boot))
        for number in range(40):
            while True:
                errors: list[BaseException | None] = []
                grid.commit_soon(batch(b"k", b"%d" % number), errors.append)
                if rng.random() < 0.3:
                    self.cut(grid)
                driver.until(lambda errors=errors: bool(errors))  # type: ignore[misc]
                if errors[0] is None:
                    break
                assert isinstance(errors[0], Unavailable)
                driver.until(lambda: grid.available)
            assert driver.run(grid.get(CACHE, b"k")) == b"%d" % number

    # Messages.

    def test_messages_come_in_order_to_who_listens(self, driver: Pump, opened: Callable[[], IgniteGrid]) -> None:
        """Of each sender, small and large, on whichever server."""
        grids = [opened() for _ in range(3)]
        heard: list[bytes] = []
        driver.run(grids[0].gateway.messages.listen("suite/a", heard.append))
        for number in range(200):
            for sender, grid in enumerate(grids):
                assert grid.gateway.messages.send("suite/a", b"%d %d " % (sender, number) + bytes(number * 50))
                assert grid.gateway.messages.send("suite/nobody", b"")
        driver.until(lambda: len(heard) == 600)
        parted = [payload.split(b" ", 2) for payload in heard]
        for sender in range(3):
            numbers = [int(number) for who, number, _ in parted if int(who) == sender]
            assert numbers == list(range(200))
        assert all(len(rest) == int(number) * 50 for _, number, rest in parted)

    def test_what_is_listened_to_is_listened_to_again(self, driver: Pump, opened: Callable[[], IgniteGrid]) -> None:
        """After a lost connection is back."""
        grid, other = opened(), opened()
        heard: list[bytes] = []
        flow: list[bool] = []
        gateway = grid.gateway.messages
        driver.run(gateway.listen("suite/b", heard.append))
        gateway.on_flow = flow.append
        self.cut(grid)
        driver.until(lambda: flow == [False, True])
        other.gateway.messages.send("suite/b", b"heard")
        driver.until(lambda: bool(heard))
        assert heard == [b"heard"]


def batch(key: bytes, value: bytes) -> WriteBatch:
    found = WriteBatch()
    found.put(CACHE, key, value)
    return found


async def put(grid: IgniteGrid, key: bytes, value: bytes) -> None:
    await grid.commit(batch(key, value))
