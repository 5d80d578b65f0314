"""A server dies in the middle of a batch that must be whole, its node with it: the others find all of it or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite.connection import Encode
from iot_mqtt.grid.ignite.whole import head_key, note_of, part_key
from iot_mqtt.ports.grid import CacheName, Operation, WriteBatch
from tests.unit.grid.ignite.fake_gateway import FakePump, make

DEAD, JUDGE = (20, 7), (21, 7)


def batches(size: int) -> list[WriteBatch]:
    """What a node writes: a small batch, then one with messages, the ids of their publishers, and what is over."""
    before = WriteBatch()
    before.put(CacheName.SEGMENTS, b"over", b"segment")
    batch = WriteBatch()
    batch.put(CacheName.LOG, b"page", b"m" * size)
    batch.put(CacheName.LOG_INDEX, b"page", b"i")
    for number in range(3):
        batch.put(CacheName.RECEIVED, b"client/%d" % number, b"\x10")
    batch.remove(CacheName.SEGMENTS, b"over")
    batch.whole = True
    return [before, batch]


def present(pump: FakePump, caches: list[CacheName]) -> dict[tuple[str, bytes], bytes]:
    return {
        (cache.value, key): value
        for cache in caches
        for key, value in pump.servers.caches[f"iot_{cache.value}"].items()
    }


CACHES = [CacheName.LOG, CacheName.LOG_INDEX, CacheName.RECEIVED, CacheName.SEGMENTS]


@pytest.mark.parametrize("size", [10, 3000])
def test_a_batch_is_whole_wherever_it_was_cut(size: int) -> None:
    """After every single entry; the large one goes in several frames, its note in several parts."""
    outcomes = set()
    for entries in range(20):
        pump = FakePump()
        pump.servers.longest = 4096
        dead, judge = make(pump), make(pump)
        for grid, life in ((dead, DEAD), (judge, JUDGE)):
            pump.run(grid.open())
            pump.run(grid.identify(*life))
        before, batch = batches(size)
        pump.run(dead.commit(before))
        old = present(pump, CACHES)
        pump.servers.entries_left = entries
        told: list[BaseException | None] = []
        dead.commit_soon(batch, told.append)
        pump.until(lambda told=told: bool(told))  # type: ignore[misc]
        pump.servers.entries_left = None
        pump.run(judge.fence(*DEAD))
        pump.run(judge.finish(*DEAD))
        now = present(pump, CACHES)
        new = {(cache.value, key): value for cache, key, value in batch.operations if value is not None}
        assert now in (old, new), f"after {entries} entries: {sorted(now)}"
        assert told[0] is not None or now == new
        outcomes.add(now == new)
    assert outcomes == {False, True}


def test_what_has_a_note_is_written_cache_by_cache() -> None:
    """However its entries alternate; the last operation on a key wins, and no note is left."""
    pump = FakePump()
    grid = make(pump)
    pump.run(grid.open())
    pump.run(grid.identify(*DEAD))
    batch = WriteBatch()
    batch.whole = True
    for number in range(50):
        batch.put(CacheName.SESSIONS, b"%d" % number, b"s")
        batch.put(CacheName.ROUTES, b"%d" % number, b"r")
        batch.remove(CacheName.ROUTES, b"%d" % (number - 1))
    packed: list[int] = []
    send = grid.gateway.request

    def request(encode: Encode, *others: Any) -> None:
        frame = encode(1)
        packed.append(int.from_bytes(frame[10:12], "big"))
        send(encode, *others)

    grid.gateway.request = request  # type: ignore[method-assign, assignment]
    pump.run(grid.commit(batch))
    assert packed == [4], "the note, two caches, the end of the note"
    assert set(pump.servers.caches["iot_routes"]) == {b"49"}
    assert len(pump.servers.caches["iot_sessions"]) == 50
    assert pump.servers.caches["iot_meta"] == {}


def test_a_note_that_is_overwritten_by_halves_is_over() -> None:
    """Parts of the next turn are there, and the head of the last one still: that one was written."""
    pump = FakePump()
    judge = make(pump)
    pump.run(judge.open())
    pump.run(judge.identify(*JUDGE))
    operations: list[Operation] = [(CacheName.QUEUE, b"%02d" % number, b"v" * 100) for number in range(10)]
    meta = pump.servers.caches["iot_meta"]
    parts, head = note_of(DEAD, 1, operations, 300)
    newer, _ = note_of(DEAD, 2, operations[::-1], 300)
    assert len(parts) > 2
    for _, key, value in [*parts, head, newer[0]]:
        assert value is not None
        meta[key] = value
    pump.run(judge.finish(*DEAD))
    assert present(pump, [CacheName.QUEUE]) == {}
    assert judge.finisher.finished == 0


def test_a_damaged_note_is_told_and_nothing_is_guessed() -> None:
    """Whoever wants the sessions of that node is told that it can't be said what it was writing."""
    pump = FakePump()
    judge = make(pump)
    pump.run(judge.open())
    pump.run(judge.identify(*JUDGE))
    parts, (_, _, head) = note_of(DEAD, 1, [(CacheName.QUEUE, b"k", b"v" * 100)], 60)
    assert head is not None and parts[0][1] == part_key(DEAD[0], 1)
    meta = pump.servers.caches["iot_meta"]
    for _, key, value in parts:
        assert value is not None
        meta[key] = value[:-1] + b"?"
    meta[head_key(DEAD[0])] = head
    with pytest.raises(Unavailable, match="damaged"):
        pump.run(judge.finish(*DEAD))


def test_a_life_that_is_at_work_is_left_alone() -> None:
    """It has finished what its earlier lives left before it began to write."""
    pump = FakePump()
    judge = make(pump)
    pump.run(judge.open())
    pump.run(judge.identify(*JUDGE))
    number, boot = DEAD
    _, (_, key, head) = note_of((number, boot + 1), 1, [(CacheName.QUEUE, b"k", b"v")])
    assert head is not None
    pump.servers.caches["iot_meta"][key] = head
    pump.run(judge.finish(number, boot))
    assert present(pump, [CacheName.QUEUE]) == {}
    assert key in pump.servers.caches["iot_meta"]
