"""What was written last is read from memory: as much as there is room for, and nothing that was dropped."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.codec import Decoder, PublishRun, encode_publish
from iot_mqtt.grid.log import LogSettings, PageCache
from iot_mqtt.grid.log.generation import Generation, Stream
from iot_mqtt.grid.log.records import DROPPING
from iot_mqtt.grid.log.structures import Learner
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.ports.log import LogRun, Reference
from iot_mqtt.values import ProtocolVersion
from tests.contract.driving import Pump
from tests.contract.logkit import Life, fill, told, wanted

T = TypeVar("T")


def life_of(limit: int, settings: LogSettings | None = None) -> Life:
    """A log whose cache takes so many bytes."""
    pump, grid = Pump(), MemoryGrid()
    pump.run(grid.open())
    return Life(grid, pump, settings or LogSettings(), cache=PageCache(limit))


def test_what_was_written_last_is_not_read_back() -> None:
    """It is what was appended, in its order; another life reads it from the grid, and finds the same."""
    life = life_of(1 << 24)
    sent = fill(life, turns=300)
    assert told(life.everything("#")) == wanted(sent, "#")
    assert life.log.figures.pages_read == 0
    later = life.next(LogSettings())
    assert told(later.everything("#")) == wanted(sent, "#")
    assert later.log.figures.pages_read > 0


@pytest.mark.parametrize("limit", [0, 5_000, 100_000])
def test_what_does_not_fit_is_read_from_the_grid(limit: int) -> None:
    """The newest turns are kept; all of it is found, whatever is asked for."""
    life = life_of(limit)
    sent = fill(life, turns=300)
    for filter in ("#", "m/7/v", "+/7/+"):
        assert told(life.everything(filter)) == wanted(sent, filter)
    assert life.log.figures.pages_read > 0
    read = life.log.figures.pages_read
    last = life.append("last/one", text="it")
    life.commit()
    assert [payload for _, payload in told(life.everything("last/one", position=last.position))] == [b"it"]
    assert life.log.figures.pages_read == read + (not limit)


def test_readers_of_what_is_older_get_half_of_the_room() -> None:
    """While there are none, what was written last has all of it; and has half in any case."""
    cache, stream = PageCache(40_000), stream_of(Generation(1, 0, "", 0.0, 0))
    for turn in range(100):
        cache.keep_turn(turn, {stream: []}, 1_000)
        cache.fit()
    assert [turn for turn in range(100) if cache.get((stream, turn)) is not None] == list(range(60, 100))
    for turn in range(50):
        cache.keep((stream, turn), [], 700)
    assert [turn for turn in range(100) if cache.get((stream, turn)) is not None] == [*range(30, 50), *range(80, 100)]
    cache.keep_turn(100, {stream: []}, 1_000)
    cache.fit()
    assert [turn for turn in range(101) if cache.get((stream, turn)) is not None] == [*range(30, 50), *range(81, 101)]


PROPERTIES = pytest.mark.parametrize(
    ("pairs", "payload", "count"),
    [(0, 20, 1_400), (0, 2_000, 450), (8, 100, 700), (100, 100, 90), (1_000, 10, 16)],
    ids=["small", "large", "a few properties", "many properties", "a thousand properties"],
)


def held_by(keeping: Callable[[int], None], count: int) -> int:
    """Bytes that are left of keeping so many turns."""
    gc.collect()
    tracemalloc.start()
    begin = tracemalloc.get_traced_memory()[0]
    for turn in range(count):
        keeping(turn)
    held = tracemalloc.get_traced_memory()[0] - begin
    tracemalloc.stop()
    return held


@PROPERTIES
def test_turns_weigh_what_they_take(pairs: int, payload: int, count: int) -> None:
    """Within a factor of two, whatever the messages are: properties take most of it where there are many."""
    limit, cache, stream = 1 << 20, PageCache(1 << 20), stream_of(Generation(1, 0, "", 0.0, 0))

    def keeping(turn: int) -> None:
        run = run_with(turn, pairs, payload)
        cache.keep_turn(turn, {stream: [logged(run, turn)]}, len(run.wire) + 50)
        cache.fit()

    held = held_by(keeping, count)
    assert limit / 2 < held < limit * 2


@PROPERTIES
def test_decoded_pages_weigh_what_they_take(pairs: int, payload: int, count: int) -> None:
    """As turns do: the readers of what is older have properties, too."""
    limit, cache, stream = 1 << 20, PageCache(1 << 20), stream_of(Generation(1, 0, "", 0.0, 0))

    def keeping(turn: int) -> None:
        run = run_with(turn, pairs, payload)
        cache.keep((stream, turn), [logged(run, turn)], len(run.wire) + 50)

    held = held_by(keeping, count)
    assert limit / 2 < held < limit * 2


def stream_of(generation: Generation) -> Stream:
    """Its first stream."""
    return Stream(1, generation, 0, Learner().place(b"t/x"), 0)


def run_with(number: int, pairs: int, payload: int) -> PublishRun:
    """A message with user properties that no other has, as it is once it was delivered."""
    block = b"".join(
        b"\x26" + len(name).to_bytes(2, "big") + name + b"\0\x14" + b"v" * 20
        for name in (f"key{number}-{pair}".encode() for pair in range(pairs))
    )
    wire = encode_publish(
        f"t/{number}".encode(),
        b"x" * payload,
        five=True,
        qos=1,
        retain=False,
        dup=False,
        packet_id=number % 60_000 + 1,
        properties=block,
    )
    (run,) = Decoder(version=ProtocolVersion.V5).feed(wire)
    assert isinstance(run, PublishRun)
    assert len(run.properties.user_properties) == pairs
    assert run.forwardable == block
    assert run.payloads() == [b"x" * payload]
    return run


def logged(run: PublishRun, turn: int) -> LogRun:
    """As the log has it."""
    return LogRun(Reference(1, 1, turn << 24, run.count), run, run.topic, "publisher", 1_000.0 + turn)


def test_a_topic_of_which_only_the_newest_is_in_memory_is_read_in_order() -> None:
    """What is in memory is not read from the grid; from whatever place on, and however much is asked for at once."""
    life = life_of(100_000)
    fill(life, turns=290)
    for number in range(60):
        life.append("one/topic", text=f"{number}-0" * 50)
        life.append("one/topic", text=f"{number}-1" * 50)
        life.commit()
    whole = list(life.everything("one/topic"))
    assert [payload for _, payload in told(whole)] == [f"{at // 2}-{at % 2}".encode() * 50 for at in range(120)]
    assert 0 < life.log.figures.pages_read < 50
    for start in (0, 1, 2, 77, 118, 119):
        found = life.everything("one/topic", position=whole[start].position)
        assert told(found) == told(whole[start:])
    first = life.pump.run(life.log.read(["one/topic"], whole[3].position, 7, 1 << 20))
    assert told(first.runs) == told(whole[3:10])
    assert not first.at_end
    small = life.pump.run(life.log.read(["one/topic"], whole[3].position, 1000, 400))
    assert told(small.runs) == told(whole[3 : 3 + len(small.runs)])
    assert 0 < len(small.runs) < 10


def test_what_was_dropped_is_not_in_memory() -> None:
    """Neither by its topic nor by its place."""
    life = life_of(1 << 24, LogSettings(generation_seconds=100))
    run = life.append("a/b", text="old")
    life.commit()
    life.clock.now += 101
    life.append("a/b", text="new")
    life.commit()
    old, _ = life.log.generations()
    life.pump.run(life.log.drop(old.id))
    assert [payload for _, payload in told(life.everything("a/b"))] == [b"new"]
    assert life.fetch(run.reference) == [None]


def test_what_was_dropped_gives_its_room_back() -> None:
    """Of a turn that has more than one generation, too; and what others have in it stays."""
    old, new = (stream_of(Generation(id, 0, "", 0.0, 0)) for id in (1, 2))
    cache = PageCache(1 << 17)
    for turn in range(40):
        run = logged(run_with(turn, 0, 100), turn)
        cache.keep_turn(turn, {old: [run], new: [run]} if turn % 2 else {old: [run]}, 200)
        cache.keep((old, 100 + turn), b"x" * 100, 100)
        cache.keep((new, 100 + turn), b"x" * 100, 100)
    before = cache.size
    cache.forget(old.generation)
    assert [turn for turn in range(200) if cache.get((old, turn)) is not None] == []
    assert [turn for turn in range(200) if cache.get((new, turn)) is not None] == [*range(1, 40, 2), *range(100, 140)]
    assert 0 < cache.size < before / 2
    cache.forget(new.generation)
    assert cache.size == 0
    new.generation.state = DROPPING
    cache.keep((new, 1), b"x", 1)
    assert cache.size == 0


def test_a_dropped_generation_leaves_memory() -> None:
    """Retention removes old messages everywhere; a node that has little to do keeps none of them for weeks."""
    pump, grid, cache = Pump(), MemoryGrid(), PageCache(1 << 24)
    pump.run(grid.open())
    life = Life(grid, pump, LogSettings(generation_seconds=100), cache=cache)
    fill(life, turns=50)
    life.clock.now += 101
    life.append("a/b", text="new")
    life.commit()
    old, _ = life.log.generations()
    assert cache.size > 10_000
    life.pump.run(life.log.drop(old.id))
    assert 0 < cache.size < 2_000
    assert [payload for _, payload in told(life.everything("#"))] == [b"new"]


@pytest.mark.parametrize(("filter", "left"), [("a/b", []), ("#", [b"new"])])
@pytest.mark.parametrize("limit", [2_600, 0])
def test_a_read_that_is_under_way_has_nothing_of_what_is_dropped(filter: str, left: list[bytes], limit: int) -> None:
    """Neither what has come already, nor what was in memory (of all turns but the first, or of none): it goes whole."""
    life = life_of(limit, LogSettings(generation_seconds=100))
    old = []
    for topic in ("a/b", "other/c/d", "a/b"):
        old.append(life.append(topic, text="old"))
        life.commit()
    life.clock.now += 101
    life.append("other/c/d", text="new")
    life.commit()
    waiting: list[Deferred[None]] = []
    life.between.reads = waiting
    reading = life.pump.start(life.log.read([filter], 0, 100, 1 << 20))
    fetching = life.pump.start(life.log.fetch([run.reference for run in old]))
    assert len(waiting) == 2
    life.between.reads = None
    life.pump.run(life.log.drop(old[0].reference.generation))
    for answered in waiting:
        answered.callback(None)
    assert [payload for _, payload in told(life.pump.run(result(reading)).runs)] == left
    assert life.pump.run(result(fetching)) == [None, None, None]


def test_nobody_looks_for_what_was_dropped() -> None:
    """Who has read it knows its pages from the index, and asks for none of them again."""
    life = life_of(0, LogSettings(generation_seconds=100))
    fill(life, turns=700)
    old = life.log.generations()[0]
    life.clock.now += 101
    life.append("m/7/v", text="new")
    life.commit()
    assert len(life.everything("m/+/v")) > 1
    life.pump.run(life.log.drop(old.id))
    read = life.log.figures.pages_read
    assert [payload for _, payload in told(life.everything("m/+/v"))] == [b"new"]
    assert life.log.figures.pages_read == read + 1


async def result(deferred: Deferred[T]) -> T:
    """As a coroutine, which a pump runs."""
    return await deferred
