"""Writes in their order, whatever breaks; and what becomes of a compare-and-set whose answer is lost."""

from __future__ import annotations

import random
import struct

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite import Fenced, IgniteGrid
from iot_mqtt.grid.ignite.faults import TooLarge
from iot_mqtt.grid.ignite.frames import Op
from iot_mqtt.ports.disk import DiskUse
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.doubles.gateway_body import frame
from tests.seeds import seeds_of
from tests.unit.grid.ignite.fake_gateway import FakePump, make

A, B = CacheName.QUEUE, CacheName.META


@pytest.fixture
def pump() -> FakePump:
    return FakePump()


@pytest.fixture
def grid(pump: FakePump) -> IgniteGrid:
    grid = make(pump)
    pump.run(grid.open())
    pump.run(grid.identify(7, 1))
    return grid


def put(key: bytes, value: bytes = b"v", cache: CacheName = A) -> WriteBatch:
    batch = WriteBatch()
    batch.put(cache, key, value)
    return batch


def entries(pump: FakePump, cache: CacheName = A) -> dict[bytes, bytes]:
    return pump.servers.caches[f"iot_{cache.value}"]


class Told:
    """Who was told what, in order."""

    def __init__(self) -> None:
        self.order: list[tuple[int, type | None]] = []

    def commit(self, grid: IgniteGrid, number: int, batch: WriteBatch | None = None) -> None:
        grid.commit_soon(
            put(b"%d" % number) if batch is None else batch,
            lambda error: self.order.append((number, None if error is None else type(error))),
        )


# Turns.


def test_what_waits_goes_in_one_frame(pump: FakePump, grid: IgniteGrid) -> None:
    """The first at once, the others behind it together."""
    told = Told()
    for number in range(50):
        told.commit(grid, number)
    pump.until(lambda: len(told.order) == 50)
    assert told.order == [(number, None) for number in range(50)]
    assert pump.servers.seen.count(Op.COMMIT) == 2


@pytest.mark.parametrize(
    ("cache", "value", "needed"),
    [
        (CacheName.LOG, b"v", False),
        (CacheName.RETAINED, b"v", False),
        (CacheName.QUEUE, b"v", False),
        (CacheName.RETAINED, None, True),
        (CacheName.LOG_META, b"v", True),
        (CacheName.SESSIONS, b"v", True),
        (CacheName.META, b"v", True),
    ],
)
def test_a_commit_says_whether_it_is_needed_to_go_on(
    pump: FakePump, grid: IgniteGrid, cache: CacheName, value: bytes | None, needed: bool
) -> None:
    """What is kept for others is not, what removes or says how far it got is."""
    batch = WriteBatch()
    batch.operations.append((cache, b"k", value))
    pump.run(grid.commit(batch))
    assert pump.servers.needed == [needed]
    batch.needed = True
    pump.run(grid.commit(batch))
    assert pump.servers.needed == [needed, True]


def test_what_makes_room_goes_on_while_the_grid_is_full(pump: FakePump, grid: IgniteGrid) -> None:
    """It is in no frame with what is refused."""
    told = Told()
    pump.servers.full = True
    removal = WriteBatch()
    removal.remove(A, b"old")
    told.commit(grid, 1)
    pump.until(lambda: told.order == [(1, Unavailable)])
    told.commit(grid, 2, removal)
    told.commit(grid, 3, put(b"k", cache=B))
    told.commit(grid, 4)
    pump.until(lambda: len(told.order) == 4)
    assert told.order[1:] == [(2, None), (3, None), (4, Unavailable)]


def test_what_was_put_counts_until_the_servers_say_how_full_they_are(pump: FakePump, grid: IgniteGrid) -> None:
    """A node does not take more than there is room for because nobody has looked yet."""
    assert grid.room_use().free > 1 << 60
    assert grid.capacity == 0
    room_told: list[int] = []
    grid.on_room = lambda: room_told.append(grid.room_use().used)
    link = pump.servers.links[0]
    link.outgoing.append(frame(Op.ROOM, struct.pack(">QQQ", 1000, 5000, 7000)))
    pump.until(lambda: bool(room_told))
    assert (room_told, grid.room_use(), grid.capacity) == ([1000], DiskUse(1000, 4000), 7000)
    pump.run(grid.commit(put(b"k", b"x" * 3000)))
    used, free = grid.room_use()[:2]
    assert 4000 < used < 4200
    assert used + free == 5000
    pump.run(grid.commit(put(b"j", b"x" * 3000)))
    assert grid.room_use().free == 0


def test_a_big_batch_goes_in_several_frames_in_order(pump: FakePump) -> None:
    """None longer than the limit; the next is sent when the one before is done."""
    pump.servers.longest = 10_000
    grid = make(pump)
    pump.run(grid.open())
    batch = WriteBatch()
    for number in range(100):
        batch.put((A, B)[number // 25 % 2], b"%03d" % number, b"x" * 900)
    told = Told()
    told.commit(grid, 0, batch)
    told.commit(grid, 1)
    pump.until(lambda: len(told.order) == 2)
    assert pump.servers.seen.count(Op.COMMIT) == 11
    assert len(entries(pump)) + len(entries(pump, B)) == 101
    pump.servers.seen.clear()
    told.commit(grid, 2, batch)
    pump.servers.run()
    pump.servers.cut()
    pump.until(lambda: len(told.order) == 3)
    assert told.order[2] == (2, Unavailable)
    assert pump.servers.seen.count(Op.COMMIT) <= 2


def test_an_entry_that_fits_into_no_frame_fails_in_its_place(pump: FakePump) -> None:
    """With what waits behind it; then it goes on."""
    pump.servers.longest = 10_000
    grid = make(pump)
    pump.run(grid.open())
    told = Told()
    told.commit(grid, 0)
    told.commit(grid, 1)
    told.commit(grid, 2, put(b"k", b"x" * 10_000))
    told.commit(grid, 3, put(b"k" * 66_000))
    told.commit(grid, 4)
    pump.until(lambda: len(told.order) == 5)
    told.commit(grid, 5, put(b"k" * 9_000))
    pump.until(lambda: len(told.order) == 6)
    assert told.order == [(0, None), (1, None), (2, TooLarge), (3, TooLarge), (4, TooLarge), (5, None)]


def test_too_much_waiting_is_refused_in_its_place(pump: FakePump) -> None:
    """Nothing grows for ever, and nobody is told before those in front of him."""
    grid = make(pump, waiting_limit=10_000)
    pump.run(grid.open())
    told = Told()
    for number in range(30):
        told.commit(grid, number, put(b"%d" % number, b"x" * 1000))
    assert told.order == []
    pump.until(lambda: len(told.order) == 30)
    assert [number for number, _ in told.order] == list(range(30))
    kinds = [kind for _, kind in told.order]
    assert kinds == [None] * 10 + [Unavailable] * 20


# Failing.


def test_what_fails_takes_what_is_behind_it_along(pump: FakePump, grid: IgniteGrid) -> None:
    """Nothing made before a failure was told overtakes it; what is made afterwards is done."""
    told = Told()
    pump.servers.not_ready = 1
    for number in range(5):
        told.commit(grid, number)
    swap = pump.start(grid.compare_and_set(B, b"k", None, b"v"))
    swap.addErrback(lambda failure: failure.check(Unavailable))
    pump.until(lambda: len(told.order) == 5)
    assert told.order == [(number, Unavailable) for number in range(5)]
    assert swap.result is Unavailable
    assert entries(pump) == {} and entries(pump, B) == {}
    told.commit(grid, 5)
    pump.until(lambda: len(told.order) == 6)
    assert told.order[5] == (5, None)
    assert grid.available


def test_without_a_connection_commits_fail_in_order(pump: FakePump, grid: IgniteGrid) -> None:
    """Not before the call returns, and not in front of earlier ones, also when one commits again at once."""
    told = Told()
    told.commit(grid, 0)
    told.commit(grid, 1)
    pump.servers.down.update(pump.servers.gateways)
    again: list[BaseException | None] = []

    def commit_again(error: BaseException | None) -> None:
        told.order.append((2, type(error)))
        grid.commit_soon(WriteBatch(), lambda error: told.order.append((4, type(error))))

    grid.commit_soon(WriteBatch(), commit_again)
    told.commit(grid, 3)
    pump.servers.cut()
    pump.until(lambda: len(told.order) == 5)
    assert told.order == [(number, Unavailable) for number in range(5)]
    told.commit(grid, 5)
    assert len(told.order) == 5
    pump.until(lambda: len(told.order) == 6)
    assert again == []


@pytest.mark.parametrize("seed", seeds_of("repeated batch", 20))
def test_a_repeated_batch_keeps_its_order(pump: FakePump, grid: IgniteGrid, seed: int) -> None:
    """As the store repeats: whatever breaks and when, the last of each key wins, and nothing acknowledged is lost."""
    rng = random.Random(seed)
    waiting = [b"%d" % number for number in range(60)]
    acknowledged: list[bytes] = []

    def submit() -> None:
        if waiting:
            grid.commit_soon(put(b"k%d" % (len(waiting) % 3), waiting[0]), done)

    def done(error: BaseException | None) -> None:
        if error is None:
            acknowledged.append(waiting.pop(0))
        pump.clock.call_later(0.05 if error else 0.0, submit)

    submit()
    while waiting:
        pump.clock.advance(0.01)
        pump.servers.run()
        if acknowledged:
            present = set(entries(pump).values())
            assert acknowledged[-1] in present
        match rng.randrange(200):
            case 0:
                pump.servers.cut()
            case 1:
                pump.servers.lose_answers = 1
            case 2:
                pump.servers.lose_requests = 1
            case 3:
                pump.servers.not_ready = 1
    assert acknowledged == [b"%d" % number for number in range(60)]
    assert sorted(entries(pump).values()) == [b"57", b"58", b"59"]


def test_closing_without_a_connection_ends(pump: FakePump, grid: IgniteGrid) -> None:
    """Whoever waits is told."""
    told = Told()
    told.commit(grid, 0)
    pump.servers.down.update(pump.servers.gateways)
    pump.servers.cut()
    told.commit(grid, 1)
    pump.run(grid.close())
    assert told.order == [(0, Unavailable), (1, Unavailable)]
    assert pump.servers.links == []


# A lost answer.


def swap(pump: FakePump, grid: IgniteGrid, expected: bytes | None, value: bytes | None) -> Deferred[bool]:
    return pump.start(grid.compare_and_set(B, b"k", expected, value))


@pytest.mark.parametrize("value", [b"new", None])
def test_a_swap_that_was_done_is_told_so(pump: FakePump, grid: IgniteGrid, value: bytes | None) -> None:
    """Though its answer was lost; and it is done once."""
    entries(pump, B)[b"k"] = b"old"
    pump.servers.lose_answers = 1
    asked = swap(pump, grid, b"old", value)
    pump.until(lambda: asked.called)
    assert asked.result is True
    assert entries(pump, B).get(b"k") == value
    assert pump.servers.seen.count(Op.SWAP) == 1


def test_a_swap_that_was_not_done_is_done_again(pump: FakePump, grid: IgniteGrid) -> None:
    """Nobody notices."""
    pump.servers.lose_requests = 1
    asked = swap(pump, grid, None, b"new")
    pump.until(lambda: asked.called)
    assert asked.result is True
    assert entries(pump, B) == {b"k": b"new"}
    assert pump.servers.seen.count(Op.SWAP) == 2


def test_a_swap_that_somebody_else_followed_is_none(pump: FakePump, grid: IgniteGrid) -> None:
    """Whatever it was: the key is another's now."""
    pump.servers.lose_answers = 1
    asked = swap(pump, grid, None, b"mine")
    while pump.servers.links and not entries(pump, B):
        pump.servers.run()
    entries(pump, B)[b"k"] = b"theirs"
    pump.until(lambda: asked.called)
    assert asked.result is False


def test_swaps_of_a_turn_share_a_round_trip(pump: FakePump, grid: IgniteGrid) -> None:
    """Those that wait for a commit; each is told what became of it."""
    entries(pump, B)[b"5"] = b"theirs"
    told = Told()
    told.commit(grid, 0)
    asked = [pump.start(grid.compare_and_set(B, b"%d" % number, None, b"ours")) for number in range(10)]
    told.commit(grid, 1)
    pump.until(lambda: all(one.called for one in asked) and len(told.order) == 2)
    assert [one.result for one in asked] == [number != 5 for number in range(10)]
    assert [op for op in pump.servers.seen if op in (Op.COMMIT, Op.SWAP)] == [Op.COMMIT, Op.SWAP, Op.COMMIT]


@pytest.mark.parametrize("lost", ["lose_answers", "lose_requests"])
def test_of_many_swaps_each_is_found_out_about(pump: FakePump, grid: IgniteGrid, lost: str) -> None:
    """When the one answer to all of them was lost."""
    entries(pump, B)[b"5"] = b"theirs"
    grid.commit_soon(put(b"k"), lambda _: setattr(pump.servers, lost, 1))
    asked = [pump.start(grid.compare_and_set(B, b"%d" % number, None, b"ours")) for number in range(10)]
    pump.until(lambda: all(one.called for one in asked))
    assert [one.result for one in asked] == [number != 5 for number in range(10)]
    assert entries(pump, B)[b"5"] == b"theirs"


def test_a_swap_that_a_server_did_not_answer_is_told_alone(pump: FakePump, grid: IgniteGrid) -> None:
    """And what waits behind it fails with it, as behind a commit."""
    told = Told()
    told.commit(grid, 0)
    asked = [pump.start(grid.compare_and_set(B, b"%d" % number, None, b"ours")) for number in range(3)]
    told.commit(grid, 1)
    for one in asked:
        one.addErrback(lambda failure: failure.check(Unavailable))
    pump.servers.not_ready_swaps = 1
    pump.until(lambda: all(one.called for one in asked) and len(told.order) == 2)
    assert [one.result for one in asked] == [Unavailable, True, True]
    assert told.order == [(0, None), (1, Unavailable)]


def test_commits_made_meanwhile_wait_for_the_truth(pump: FakePump, grid: IgniteGrid) -> None:
    """Those behind the lost swap fail; those made on the new connection are behind it."""
    told = Told()
    pump.servers.lose_requests = 1
    asked = swap(pump, grid, None, b"new")
    told.commit(grid, 0)
    pump.until(lambda: len(told.order) == 1 and grid.available)
    told.commit(grid, 1, put(b"j", cache=B))
    pump.until(lambda: asked.called and len(told.order) == 2)
    assert told.order == [(0, Unavailable), (1, None)]
    assert entries(pump, B) == {b"k": b"new", b"j": b"v"}


def test_nobody_is_told_that_it_is_unknown(pump: FakePump) -> None:
    """Node 0 is not superseded: what it began may still come to pass."""
    grid = make(pump)
    pump.run(grid.open())
    pump.servers.lose_answers = 1
    with pytest.raises(Unavailable, match="may be written or not"):
        pump.run(grid.compare_and_set(B, b"k", None, b"v"))


def test_a_swap_does_not_wait_for_ever(pump: FakePump, grid: IgniteGrid) -> None:
    """For a gateway, or for a server to read from."""
    pump.servers.lose_answers = 1
    pump.servers.down.update(pump.servers.gateways)
    before = pump.clock.monotonic()
    with pytest.raises(Unavailable, match="answer was lost"):
        pump.run(grid.compare_and_set(B, b"k", None, b"v"))
    assert 10 <= pump.clock.monotonic() - before < 11
    pump.servers.down.clear()
    pump.until(lambda: grid.available)
    pump.servers.lose_answers = 1
    pump.servers.no_pages = 1 << 30
    with pytest.raises(Unavailable, match="answer was lost"):
        pump.run(grid.compare_and_set(B, b"j", None, b"v"))
    pump.run(grid.commit(put(b"k")))


def test_a_fenced_life_does_not_learn_what_became_of_its_swap(pump: FakePump, grid: IgniteGrid) -> None:
    """It is over."""
    pump.servers.lose_answers = 1
    pump.servers.fences[7] = 1
    with pytest.raises(Fenced):
        pump.run(grid.compare_and_set(B, b"k", None, b"v"))
