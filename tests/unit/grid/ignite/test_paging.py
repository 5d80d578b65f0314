"""Pages through the gateway: in pieces, out of order, and across everything that breaks. Time is turned by hand."""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite import Fenced, IgniteGrid
from iot_mqtt.grid.ignite.frames import Op, Status
from iot_mqtt.grid.ignite.paging import AT_ONCE, TOGETHER
from iot_mqtt.ports.grid import CacheName, Pair, WriteBatch
from tests.unit.grid.ignite.fake_gateway import FakePump, make

CACHE = CacheName.QUEUE
PAIRS = [(b"%02d" % number, b"v%d" % number) for number in range(40)]


@pytest.fixture
def pump() -> FakePump:
    return FakePump()


@pytest.fixture
def grid(pump: FakePump) -> IgniteGrid:
    grid = make(pump)
    pump.run(grid.open())
    batch = WriteBatch()
    for key, value in PAIRS:
        batch.put(CACHE, key, value)
    pump.run(grid.commit(batch))
    return grid


def asked(pump: FakePump, grid: IgniteGrid, count: int = 1) -> list[Deferred[list[Pair]]]:
    """So many pages, each a different one and in a turn of its own: the i-th has one entry."""
    pages = []
    for number in range(count):
        pages.append(pump.start(grid.page(CACHE, PAIRS[number % 40][0], None, 10)))
        pump.clock.advance(0)
    return pages


def test_what_is_wanted_in_a_turn_shares_a_round_trip(pump: FakePump, grid: IgniteGrid) -> None:
    """Pages and values, of whatever caches."""
    pump.servers.seen.clear()
    pages = [pump.start(grid.page(CACHE, key)) for key, _ in PAIRS]
    values = [pump.start(grid.get(CACHE, key)) for key, _ in PAIRS]
    nothing = pump.start(grid.get_many(CacheName.SESSIONS, [b"00", b"x" * 70_000]))
    pump.settle()
    assert [page.result for page in pages] == [[pair] for pair in PAIRS]
    assert [value.result for value in values] == [value for _, value in PAIRS]
    assert nothing.result == [None, None]
    assert pump.servers.seen == [Op.READ]


@pytest.mark.parametrize("room", [1, 3, 50])
def test_what_has_no_room_in_an_answer_is_asked_for_again(pump: FakePump, grid: IgniteGrid, room: int) -> None:
    """Also what the answer has nothing of."""
    pump.servers.page_entries = room
    pages = [pump.start(grid.page(CACHE, b"", None, limit)) for limit in (5, 40, 100)]
    values = pump.start(grid.get_many(CACHE, [key for key, _ in PAIRS]))
    pump.settle()
    assert [page.result for page in pages] == [PAIRS[:5], PAIRS, PAIRS]
    assert values.result == [value for _, value in PAIRS]


def test_values_are_there_or_it_is_told_why_not(pump: FakePump, grid: IgniteGrid) -> None:
    """What cannot be read is not absent."""
    pump.servers.no_pages = 1 << 30
    with pytest.raises(Unavailable, match="partitions are changing servers"):
        pump.run(grid.get_many(CACHE, [b"00", b"01"]))


@pytest.mark.parametrize("early", [1, 7, 39, 40, 100])
@pytest.mark.parametrize("limit", [1, 6, 7, 8, 40, 1000])
def test_a_page_that_ends_early_is_asked_on(pump: FakePump, grid: IgniteGrid, early: int, limit: int) -> None:
    """Until there are enough, or no more; and not further."""
    pump.servers.page_entries = early
    pump.servers.seen.clear()
    assert pump.run(grid.page(CACHE, b"", None, limit)) == PAIRS[:limit]
    found = min(limit, len(PAIRS))
    assert pump.servers.seen.count(Op.READ) == -(-found // early)


def test_answers_come_in_any_order(pump: FakePump, grid: IgniteGrid) -> None:
    """And writes are not held up by pages."""
    pump.servers.keep_pages = True
    pages = asked(pump, grid, 10)
    pump.settle()
    pump.run(grid.commit(WriteBatch()))
    assert len(pump.servers.kept) == AT_ONCE
    pump.servers.keep_pages = False
    for link, answer in reversed(pump.servers.kept):
        link.outgoing.append(answer)
    pump.settle()
    assert [page.result for page in pages] == [[pair] for pair in PAIRS[:10]]


def test_only_so_many_are_under_way(pump: FakePump, grid: IgniteGrid) -> None:
    """The others gather, and come in their order."""
    pump.servers.keep_pages = True
    pages = asked(pump, grid, AT_ONCE + TOGETHER + 5)
    told: list[int] = []
    for number, page in enumerate(pages):
        page.addCallback(lambda _, number: told.append(number), number)
    rounds: list[int] = []
    while not all(page.called for page in pages):
        pump.settle()
        kept, pump.servers.kept = pump.servers.kept, []
        rounds.append(len(kept))
        for link, answer in kept:
            link.outgoing.append(answer)
        pump.settle()
    assert rounds == [AT_ONCE, 2]
    assert told == list(range(len(pages)))


def test_a_broken_connection_is_not_noticed(pump: FakePump, grid: IgniteGrid) -> None:
    """Whatever was on its way is asked again, also of what was read in part."""
    pump.servers.page_entries = 3
    pages = [pump.start(grid.page(CACHE)) for _ in range(50)]
    for _ in range(12):
        pump.servers.run()
        pump.servers.cut()
        pump.clock.advance(0.1)
    pump.until(lambda: all(page.called for page in pages))
    assert all(page.result == PAIRS for page in pages)
    assert grid.gateway.losses > 3


def test_not_ready_is_asked_again(pump: FakePump, grid: IgniteGrid) -> None:
    """The partitions may be changing servers; if that stays so, it is told."""
    pump.servers.no_pages = 5
    assert pump.run(grid.page(CACHE)) == PAIRS
    pump.servers.no_pages = 1 << 30
    before = pump.clock.monotonic()
    with pytest.raises(Unavailable, match="partitions are changing servers"):
        pump.run(grid.page(CACHE))
    assert 10 <= pump.clock.monotonic() - before < 11


def test_nobody_there_is_unavailable(pump: FakePump, grid: IgniteGrid) -> None:
    """After some patience; never an empty page. What comes back within it is used."""
    pump.servers.down.update(pump.servers.gateways)
    pump.servers.cut()
    before = pump.clock.monotonic()
    with pytest.raises(Unavailable, match="no connection to a gateway"):
        pump.run(grid.page(CACHE))
    assert 10 <= pump.clock.monotonic() - before < 11
    (page,) = asked(pump, grid)
    pump.clock.advance(5)
    pump.servers.down.clear()
    pump.until(lambda: page.called)
    assert page.result == PAIRS[:1]


def test_an_answer_that_comes_too_late_harms_nobody(pump: FakePump, grid: IgniteGrid) -> None:
    """And until it comes its place is taken."""
    pump.servers.keep_pages = True
    pages = asked(pump, grid, AT_ONCE)
    for page in pages:
        page.addErrback(lambda failure: failure.trap(Unavailable))
    pump.until(lambda: all(page.called for page in pages))
    pump.servers.keep_pages = False
    (later,) = asked(pump, grid)
    pump.settle()
    assert not later.called
    link, answer = pump.servers.kept[0]
    link.outgoing.append(answer)
    pump.until(lambda: later.called)
    assert later.result == PAIRS[:1]
    assert grid.gateway.losses == 0


def test_the_fenced_read_no_pages(pump: FakePump, grid: IgniteGrid) -> None:
    """At once: nobody will welcome them."""
    pump.run(grid.identify(7, 1))
    pump.servers.keep_pages = True
    (page,) = asked(pump, grid)
    page.addErrback(lambda failure: failure.check(Fenced))
    pump.settle()
    pump.servers.fences[7] = 1
    pump.servers.cut()
    pump.settle()
    pump.until(lambda: page.called)
    assert page.result is Fenced


def test_what_the_gateway_does_not_understand_is_told(pump: FakePump, grid: IgniteGrid) -> None:
    """At once."""
    link = pump.servers.links[0]
    (page,) = asked(pump, grid)
    page.addErrback(lambda failure: failure.getErrorMessage())
    assert link.incoming
    link.incoming.clear()
    link.done(grid.gateway._connection._ids, Status.BAD_REQUEST, "there is no cache of this name")  # type: ignore[union-attr]
    pump.settle()
    assert page.result == "the grid gives no page (status 3): there is no cache of this name"


def test_an_answer_to_no_question_ends_the_connection(pump: FakePump, grid: IgniteGrid) -> None:
    """Nobody knows what else is wrong then."""
    pump.servers.keep_pages = True
    (page,) = asked(pump, grid)
    pump.settle()
    ((link, answer),) = pump.servers.kept
    pump.servers.keep_pages = False
    link.outgoing += (answer, answer)
    pump.settle()
    assert page.result == PAIRS[:1]
    assert grid.gateway.losses == 1


@pytest.mark.parametrize("there", [True, False])
def test_closing_answers_what_was_asked(pump: FakePump, grid: IgniteGrid, *, there: bool) -> None:
    """Unless nobody is there; then it is told at once."""
    if not there:
        pump.servers.down.update(pump.servers.gateways)
        pump.servers.cut()
    (page,) = asked(pump, grid)
    page.addErrback(lambda failure: failure.check(Unavailable))
    before = pump.clock.monotonic()
    pump.run(grid.close())
    assert page.result == (PAIRS[:1] if there else Unavailable)
    assert pump.clock.monotonic() - before < 1
    with pytest.raises(Unavailable, match="not open"):
        pump.run(grid.page(CACHE))


def test_a_connection_that_breaks_while_closing_is_the_end(pump: FakePump, grid: IgniteGrid) -> None:
    """Nobody connects again for a page."""
    pump.servers.keep_pages = True
    (page,) = asked(pump, grid)
    page.addErrback(lambda failure: failure.check(Unavailable))
    closing = pump.start(grid.close())
    pump.settle()
    assert not closing.called
    pump.servers.down.update(pump.servers.gateways)
    pump.servers.cut()
    pump.until(lambda: closing.called)
    assert page.result is Unavailable
