"""What every grid must do. A grid is accepted when it passes.

A grid's own test file subclasses ``GridSuite`` (or ``PersistentGridSuite``) and says how one is made. The
suite knows the port and ``driving.Driver``, nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.grid import CacheName, Grid, Pair, WriteBatch
from iot_mqtt.ports.scanning import scan
from tests.contract.driving import Driver, Pump
from tests.seeds import seeds_of

A, B, C = CacheName.QUEUE, CacheName.DUP, CacheName.SESSIONS


def puts(cache: CacheName, *pairs: Pair) -> WriteBatch:
    batch = WriteBatch()
    for key, value in pairs:
        batch.put(cache, key, value)
    return batch


def removes(cache: CacheName, *keys: bytes) -> WriteBatch:
    batch = WriteBatch()
    for key in keys:
        batch.remove(cache, key)
    return batch


class Opened:
    """A grid and its driver, with the calls of the port made synchronous."""

    def __init__(self, grid: Grid, driver: Driver) -> None:
        self.grid = grid
        self.driver = driver
        driver.run(grid.open())

    def put(self, cache: CacheName, *pairs: Pair) -> None:
        self.commit(puts(cache, *pairs))

    def commit(self, batch: WriteBatch) -> None:
        self.driver.run(self.grid.commit(batch))

    def get(self, cache: CacheName, key: bytes) -> bytes | None:
        return self.driver.run(self.grid.get(cache, key))

    def page(self, cache: CacheName, prefix: bytes = b"", after: bytes | None = None, limit: int = 1000) -> list[Pair]:
        return self.driver.run(self.grid.page(cache, prefix, after, limit))

    def keys(self, cache: CacheName, prefix: bytes = b"") -> list[bytes]:
        return [key for key, _ in self.all(cache, prefix)]

    def all(self, cache: CacheName, prefix: bytes = b"", page: int = 1000) -> list[Pair]:
        async def collect() -> list[Pair]:
            return [pair async for pair in scan(self.grid, cache, prefix, page)]

        return self.driver.run(collect())

    def swap(self, key: bytes, expected: bytes | None, value: bytes | None) -> bool:
        return self.driver.run(self.grid.compare_and_set(C, key, expected, value))

    def close(self) -> None:
        self.driver.run(self.grid.close())


class GridSuite:
    """Subclass, and define ``make``."""

    def make(self, directory: Path, pump: Pump) -> Grid:
        """A grid, not yet open, over a directory that may hold what an earlier one left."""
        raise NotImplementedError

    @pytest.fixture
    def opened(self, tmp_path: Path) -> Iterator[Opened]:
        opened = self.open(tmp_path / "grid")
        yield opened
        opened.close()

    def pump(self) -> Pump:
        """What drives it."""
        return Pump()

    def open(self, directory: Path) -> Opened:
        pump = self.pump()
        return Opened(self.make(directory, pump), pump)

    # Values.

    def test_an_absent_key_is_none(self, opened: Opened) -> None:
        """Absent and empty are two things."""
        assert opened.get(A, b"k") is None

    @pytest.mark.parametrize("size", [0, 1, 255, 65_536, 1 << 20])
    def test_a_value_comes_back_as_it_was(self, opened: Opened, size: int) -> None:
        """Empty values and a mebibyte included."""
        value = random.Random(size).randbytes(size)
        opened.put(A, (b"k", value))
        assert opened.get(A, b"k") == value
        assert opened.page(A) == [(b"k", value)]

    def test_any_bytes_make_a_key(self, opened: Opened) -> None:
        """Zeros, 0xFF and the empty key are keys like others."""
        keys = [b"", b"\x00", b"\x00\x00", b"\x00\xff", b"\xff", b"\xff\xff"]
        opened.put(A, *((key, b"v" + key) for key in reversed(keys)))
        assert opened.all(A) == [(key, b"v" + key) for key in keys]
        assert [opened.get(A, key) for key in keys] == [b"v" + key for key in keys]

    def test_get_many_answers_in_the_order_asked(self, opened: Opened) -> None:
        """With None where there is nothing, and twice what is asked twice."""
        opened.put(A, (b"a", b"1"), (b"b", b""))
        asked = opened.driver.run(opened.grid.get_many(A, [b"b", b"x", b"a", b"a"]))
        assert asked == [b"", None, b"1", b"1"]
        assert opened.driver.run(opened.grid.get_many(A, [])) == []

    # Batches.

    def test_the_last_operation_on_a_key_wins(self, opened: Opened) -> None:
        """Within a batch, whatever came before."""
        batch = puts(A, (b"a", b"1"), (b"a", b"2"), (b"b", b"1"))
        batch.remove(A, b"b")
        batch.remove(A, b"c")
        batch.put(A, b"c", b"3")
        opened.commit(batch)
        assert opened.all(A) == [(b"a", b"2"), (b"c", b"3")]

    def test_a_removed_key_is_gone(self, opened: Opened) -> None:
        """And removing what is not there is no error."""
        opened.put(A, (b"a", b"1"), (b"b", b"2"))
        opened.commit(removes(A, b"a", b"never"))
        assert opened.all(A) == [(b"b", b"2")]

    def test_an_empty_batch_is_a_commit(self, opened: Opened) -> None:
        """It changes nothing and completes."""
        opened.commit(WriteBatch())
        assert opened.all(A) == []

    def test_one_batch_spans_caches(self, opened: Opened) -> None:
        """A key in one cache is not that key in another."""
        batch = puts(A, (b"k", b"a"))
        batch.put(B, b"k", b"b")
        opened.commit(batch)
        assert (opened.get(A, b"k"), opened.get(B, b"k"), opened.get(C, b"k")) == (b"a", b"b", None)

    def test_a_batch_of_ten_thousand_entries(self, opened: Opened) -> None:
        """One commit, whatever its size."""
        pairs = [(b"%05d" % number, b"x" * 100) for number in range(10_000)]
        opened.put(A, *pairs)
        assert opened.all(A) == pairs

    def test_every_cache_can_be_written(self, opened: Opened) -> None:
        """Each name of the port has its place, and none shares it."""
        for cache in CacheName:
            opened.put(cache, (b"k", cache.encode()))
        assert [opened.get(cache, b"k") for cache in CacheName] == [cache.encode() for cache in CacheName]

    # Everything under a prefix.

    def test_everything_under_a_prefix_is_removed(self, opened: Opened) -> None:
        """And nothing beside it: not in other caches, not with a longer or shorter beginning."""
        keys = [b"", b"a", b"a\xff", b"a\xff\x00", b"a\xff\xff\xff", b"b", b"\xff\xff"]
        opened.put(A, *((key, b"v") for key in keys))
        opened.put(B, (b"a\xff", b"v"))
        opened.driver.run(opened.grid.remove_prefix(A, b"a\xff"))
        assert opened.keys(A) == [b"", b"a", b"b", b"\xff\xff"]
        assert opened.driver.run(opened.grid.get_many(A, [b"a\xff", b"a"])) == [None, b"v"]
        assert opened.keys(B) == [b"a\xff"]
        opened.driver.run(opened.grid.remove_prefix(A, b"\xff"))
        assert opened.keys(A) == [b"", b"a", b"b"]
        opened.driver.run(opened.grid.remove_prefix(A, b""))
        assert opened.keys(A) == []
        assert opened.keys(B) == [b"a\xff"]

    def test_a_prefix_is_removed_in_its_place_among_the_commits(self, opened: Opened) -> None:
        """What was committed before is gone, what is committed after stays, however they are merged."""
        done: list[BaseException | None] = []
        opened.put(C, (b"k0", b"old"))
        opened.grid.commit_soon(puts(C, (b"k1", b"before"), (b"x", b"beside")), done.append)
        removal = opened.driver.start(opened.grid.remove_prefix(C, b"k"))
        swap = opened.driver.start(opened.grid.compare_and_set(C, b"k0", None, b"swapped"))
        opened.grid.commit_soon(puts(C, (b"k2", b"after")), done.append)
        opened.driver.until(lambda: len(done) == 2 and removal.called and swap.called)
        assert done == [None, None]
        assert swap.result is True
        assert opened.all(C) == [(b"k0", b"swapped"), (b"k2", b"after"), (b"x", b"beside")]

    def test_what_was_removed_may_be_put_again(self, opened: Opened) -> None:
        """The removal is no lasting rule about the prefix."""
        opened.put(A, (b"k1", b"1"))
        opened.driver.run(opened.grid.remove_prefix(A, b"k"))
        opened.put(A, (b"k1", b"2"))
        assert opened.all(A) == [(b"k1", b"2")]

    # Pages.

    def test_pages_are_in_key_order(self, opened: Opened) -> None:
        """As unsigned bytes, whatever the order of writing."""
        keys = [bytes([number]) for number in range(256)]
        shuffled = random.Random(1).sample(keys, len(keys))
        for part in range(0, 256, 64):
            opened.put(A, *((key, b"") for key in shuffled[part : part + 64]))
        assert opened.keys(A) == keys

    def test_a_page_is_limited_and_goes_on_after_a_key(self, opened: Opened) -> None:
        """``after`` need not exist, and limit 0 is nothing."""
        opened.put(A, *((b"k%d" % number, b"") for number in range(5)))
        assert [key for key, _ in opened.page(A, b"k", None, 2)] == [b"k0", b"k1"]
        assert [key for key, _ in opened.page(A, b"k", b"k1", 2)] == [b"k2", b"k3"]
        assert [key for key, _ in opened.page(A, b"k", b"k1x", 9)] == [b"k2", b"k3", b"k4"]
        assert opened.page(A, b"k", b"k4", 9) == []
        assert opened.page(A, b"k", None, 0) == []

    def test_after_a_key_before_the_prefix_starts_at_the_prefix(self, opened: Opened) -> None:
        """And after a key behind it there is nothing."""
        opened.put(A, (b"a", b""), (b"m1", b""), (b"m2", b""), (b"z", b""))
        assert [key for key, _ in opened.page(A, b"m", b"a")] == [b"m1", b"m2"]
        assert opened.page(A, b"m", b"z") == []

    @pytest.mark.parametrize("prefix", [b"\x01", b"\x00\xff", b"\xff", b"\xff\xff", b"ab"])
    def test_a_prefix_keeps_its_neighbours_out(self, opened: Opened, prefix: bytes) -> None:
        """Shorter, longer, before, behind, and in the cache next door."""
        inside = [prefix, prefix + b"\x00", prefix + b"\x00\x01", prefix + b"\xff", prefix + b"\xff\xff"]
        outside = {prefix[:-1], b"\x00", b"\x02", b"\x01\x00"[:1] + b"z", b"\xfe\xff", b"ac", b"aa\xff"}
        outside = {key for key in outside if not key.startswith(prefix)}
        for cache in CacheName:
            opened.put(cache, *((key, b"") for key in [*inside, *outside]))
        assert opened.keys(A, prefix) == inside

    @pytest.mark.parametrize("page", [1, 7, 100, 1000])
    def test_a_scan_sees_each_entry_once(self, opened: Opened, page: int) -> None:
        """Whatever the page, the last one full or not."""
        keys = [b"%03d" % number for number in range(100)]
        opened.put(A, *((key, b"") for key in keys))
        assert [key for key, _ in opened.all(A, b"", page)] == keys

    def test_changes_between_pages_neither_hide_nor_repeat_what_stays(self, opened: Opened) -> None:
        """Removed entries, also the one the next page goes on after, and added ones on both sides."""
        opened.put(A, *((b"%03d" % number, b"") for number in range(100)))
        seen = [key for key, _ in opened.page(A, b"", None, 10)]
        batch = removes(A, b"003", seen[-1], b"010", b"055")
        batch.put(A, b"0095", b"")
        batch.put(A, b"0000", b"")
        batch.put(A, b"0555", b"")
        opened.commit(batch)
        while found := opened.page(A, b"", seen[-1], 10):
            seen += [key for key, _ in found]
        stayed = [b"%03d" % number for number in range(100) if number not in (3, 9, 10, 55)]
        assert [key for key in seen if key in stayed] == stayed
        assert {b"0095", b"0555"} <= set(seen)
        assert b"0000" not in seen

    # Compare and set.

    def test_compare_and_set_of_an_absent_key(self, opened: Opened) -> None:
        """Expected None means absent, not empty."""
        assert not opened.swap(b"k", b"", b"1")
        assert opened.swap(b"k", None, b"")
        assert not opened.swap(b"k", None, b"2")
        assert opened.get(C, b"k") == b""

    def test_compare_and_set_changes_and_removes(self, opened: Opened) -> None:
        """Only if the present value is the expected one."""
        opened.put(C, (b"k", b"1"))
        assert not opened.swap(b"k", b"0", b"2")
        assert opened.get(C, b"k") == b"1"
        assert opened.swap(b"k", b"1", b"2")
        assert opened.swap(b"k", b"2", None)
        assert opened.get(C, b"k") is None

    def test_of_many_at_once_one_wins(self, opened: Opened) -> None:
        """The fence: fifty ask with the same expectation, round after round."""
        present: bytes | None = None
        for round_ in range(5):
            values = [b"%d-%d" % (round_, number) for number in range(50)]
            asked = [opened.driver.start(opened.grid.compare_and_set(C, b"k", present, value)) for value in values]
            results: list[bool] = []
            for deferred in asked:
                deferred.addCallback(results.append)
            opened.driver.until(lambda results=results: len(results) == 50)  # type: ignore[misc]
            assert results.count(True) == 1
            present = values[results.index(True)]
            assert opened.get(C, b"k") == present

    def test_compare_and_set_takes_its_place_between_commits(self, opened: Opened) -> None:
        """It sees the commit that was made before it and not the one after."""
        order: list[str] = []
        opened.grid.commit_soon(puts(C, (b"k", b"1")), lambda _: order.append("before"))
        swap = opened.driver.start(opened.grid.compare_and_set(C, b"k", b"1", b"2"))
        swap.addCallback(lambda swapped: order.append(f"swap {swapped}"))
        opened.grid.commit_soon(puts(C, (b"j", b"1")), lambda _: order.append("after"))
        opened.driver.until(lambda: len(order) == 3)
        assert order == ["before", "swap True", "after"]
        assert opened.get(C, b"k") == b"2"

    # Completion.

    def test_commits_complete_in_the_order_they_were_made(self, opened: Opened) -> None:
        """Each once, without an error, whoever made them and however they were merged."""
        done: list[int] = []
        errors: list[BaseException | None] = []

        def commit(number: int) -> None:
            def complete(error: BaseException | None) -> None:
                done.append(number)
                errors.append(error)

            opened.grid.commit_soon(puts(A, (b"%04d" % number, b"")), complete)

        for number in range(500):
            commit(number)
        opened.driver.until(lambda: len(done) >= 500)
        opened.commit(WriteBatch())
        assert done == list(range(500))
        assert set(errors) == {None}
        assert len(opened.all(A)) == 500

    def test_what_is_complete_can_be_read(self, opened: Opened) -> None:
        """At the latest then."""
        seen: list[bytes | None] = []

        def complete(error: BaseException | None) -> None:
            assert error is None
            opened.driver.start(opened.grid.get(A, b"k")).addCallback(seen.append)

        opened.grid.commit_soon(puts(A, (b"k", b"v")), complete)
        opened.driver.until(lambda: bool(seen))
        assert seen == [b"v"]

    def test_a_completion_may_commit_again(self, opened: Opened) -> None:
        """Thousands deep without a stack, behind what was already waiting."""
        done: list[int] = []

        def complete(error: BaseException | None) -> None:
            assert error is None
            done.append(len(done))
            if len(done) < 3000:
                opened.grid.commit_soon(WriteBatch(), complete)

        opened.grid.commit_soon(WriteBatch(), complete)
        opened.driver.until(lambda: len(done) == 3000)

    def test_a_completion_that_raises_hinders_nobody(self, opened: Opened) -> None:
        """It is logged, and the next one is called."""
        done: list[str] = []

        def complete(error: BaseException | None) -> None:
            raise RuntimeError("a bug above the grid")

        opened.grid.commit_soon(puts(A, (b"a", b"")), complete)
        opened.grid.commit_soon(puts(A, (b"b", b"")), lambda _: done.append("b"))
        opened.driver.until(lambda: bool(done))
        assert opened.keys(A) == [b"a", b"b"]

    def test_closing_finishes_what_was_accepted_and_refuses_the_rest_in_order(self, opened: Opened) -> None:
        """Nobody waits for ever, and nobody is told a lie."""
        done: list[tuple[int, bool]] = []
        for number in range(20):
            opened.grid.commit_soon(
                puts(A, (b"%02d" % number, b"")),
                lambda error, number=number: done.append((number, error is None)),  # type: ignore[misc]
            )
        closing: Deferred[None] = opened.driver.start(opened.grid.close())
        opened.grid.commit_soon(puts(A, (b"late", b"")), lambda error: done.append((20, error is None)))
        opened.driver.until(lambda: len(done) == 21)
        opened.driver.until(lambda: closing.called)
        assert done == [(number, number < 20) for number in range(21)]

    def test_a_closed_grid_is_unavailable_not_empty(self, opened: Opened) -> None:
        """An error is never to be read as "absent"."""
        opened.put(A, (b"k", b"v"))
        opened.close()
        for call in (opened.grid.get(A, b"k"), opened.grid.get_many(A, [b"k"]), opened.grid.page(A)):
            with pytest.raises(Unavailable):
                opened.driver.run(call)
        with pytest.raises(Unavailable):
            opened.put(A, (b"k", b"w"))
        with pytest.raises(Unavailable):
            opened.swap(b"k", None, b"w")
        errors: list[BaseException | None] = []
        opened.grid.commit_soon(puts(A, (b"k", b"w")), errors.append)
        opened.driver.until(lambda: bool(errors))
        assert isinstance(errors[0], Unavailable)

    def test_a_grid_can_be_opened_again(self, opened: Opened) -> None:
        """By the same object, any number of times."""
        for number in range(3):
            opened.put(A, (b"%d" % number, b""))
            opened.close()
            opened.driver.run(opened.grid.open())
        assert opened.keys(A) == [b"0", b"1", b"2"]

    # Everything at once.

    @pytest.mark.parametrize("seed", seeds_of("sorted dictionary", 5))
    def test_a_grid_is_a_sorted_dictionary(self, opened: Opened, seed: int) -> None:
        """Random batches, swaps and pages against a model that is one."""
        rng = random.Random(seed)
        model: dict[bytes, bytes] = {}
        keys = [rng.randbytes(rng.randrange(4)) for _ in range(60)]
        for _ in range(60):
            batch = WriteBatch()
            for _ in range(rng.randrange(20)):
                key, value = rng.choice(keys), rng.randbytes(rng.randrange(9))
                if rng.random() < 0.4:
                    batch.remove(C, key)
                    model.pop(key, None)
                else:
                    batch.put(C, key, value)
                    model[key] = value
            opened.commit(batch)
            key, expected = rng.choice(keys), rng.choice([None, b"", *model.values()])
            if opened.swap(key, expected, b"swapped"):
                assert model.get(key) == expected
                model[key] = b"swapped"
            else:
                assert model.get(key) != expected
            prefix, after, limit = rng.choice(keys)[:2], rng.choice([None, *keys]), rng.randrange(1, 30)
            behind = [k for k in sorted(model) if k.startswith(prefix) and (after is None or k > after)]
            assert opened.page(C, prefix, after, limit) == [(k, model[k]) for k in behind[:limit]]
        assert opened.all(C, b"", 7) == sorted(model.items())
