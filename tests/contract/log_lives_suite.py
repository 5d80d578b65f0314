"""The log over several lives: starts, batches that arrived in part, retention, damage."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.errors import Corrupt, Unavailable
from iot_mqtt.grid.log import LogSettings, TopicRetention
from iot_mqtt.ports.grid import CacheName, WriteBatch
from iot_mqtt.ports.log import TURN_BITS, LogRun, Reference
from tests.contract.logkit import SETTINGS, Life, LogCase, Told, fill, run_of, told, wanted

#: Filters of readers: of one stream, of some, and of all.
READERS = (("m/7/v",), ("m/+/v",), ("#",))


async def _await(waiting: Deferred[None]) -> None:
    await waiting


class LogLivesSuite(LogCase):
    """Part of ``LogSuite``."""

    # Lives.

    @pytest.mark.parametrize("turns", [1, 255, 256, 257, 511, 512, 513, 800])
    def test_a_new_life_finds_everything(self, life: Life, turns: int) -> None:
        """Messages, counters, and an end that is not before the old one."""
        sent = fill(life, turns=turns)
        for _ in range(3):
            earlier = life
            life = life.next(SETTINGS)
            assert life.log.end >= earlier.log.end
            assert life.log.size == earlier.log.size
            assert [(one.id, one.first, one.messages, one.bytes) for one in life.log.generations()] == [
                (one.id, one.first, one.messages, one.bytes) for one in earlier.log.generations()
            ]
            assert sorted(life.streams()) == sorted(earlier.streams())
            assert told(life.everything("m/+/v")) == wanted(sent, "m/+/v")
            run = life.append("m/7/v", text="new")
            sent += told([run])
            life.commit()
        assert life.list(life.log.verify()) == []
        assert len(life.list(life.log.scan())) > 0

    def test_a_life_that_wrote_nothing_changes_nothing(self, life: Life) -> None:
        """Any number of them, also before the first message."""
        for _ in range(3):
            life = life.next(SETTINGS)
            assert (life.log.generations(), life.log.size) == ([], 0)
        sent = fill(life, turns=10)
        for _ in range(20):
            life = life.next(SETTINGS)
        assert told(life.everything("m/#")) == wanted(sent, "m/#")

    def test_what_was_not_committed_is_gone(self, life: Life) -> None:
        """Only that; and its positions are not used again, because others may have kept them."""
        life.append("a/b", text="kept")
        life.commit()
        life.between.holding = True
        lost = life.append("a/b", text="lost")
        life.store.flush()
        life = life.next(SETTINGS)
        assert [payload for _, payload in told(life.everything("a/b"))] == [b"kept"]
        assert life.fetch(lost.reference) == [None]
        assert life.append("a/b", text="new").position >= lost.end
        life.commit()
        assert [payload for _, payload in told(life.everything("a/b"))] == [b"kept", b"new"]

    @pytest.mark.parametrize("turns", [3, 254, 255, 256, 511])
    def test_any_part_of_a_batch_that_comes_first_is_harmless(self, life: Life, turns: int) -> None:
        """On a grid whose batches are not atomic: everything acknowledged is there, and the log goes on."""
        sent = fill(life, turns=turns)
        life.between.holding = True
        tail = [life.append(f"m/{number}/v", f"p{number}") for number in range(5)]
        life.store.flush()
        [(batch, _)] = life.between.waiting
        assert len(batch) > 5
        unacknowledged: list[Told] = []
        # All of a short one; of a long one, which repeats itself in the middle, both ends and some between.
        ends = {*range(6), *range(max(len(batch) - 25, 0), len(batch) + 1)}
        for count in sorted({*ends, *random.Random(turns).sample(range(len(batch)), min(len(batch), 8))}):
            self.apply(life, batch, count)
            after = life.next(SETTINGS)
            got = told(after.everything("m/+/v"))
            known = wanted(sent, "m/+/v")
            assert got[: len(known)] == known
            unacknowledged = got[len(known) :]
            assert unacknowledged == [message for message in told(tail) if message in unacknowledged]
            assert after.log.append(run_of(b"m/0/v", ["x"]), b"m/0/v", "p", 1.0).position >= tail[-1].end
            assert after.list(after.log.verify()) == []
        assert unacknowledged == told(tail)

    def apply(self, life: Life, batch: WriteBatch, count: int) -> None:
        """Only the first operations."""
        part = WriteBatch()
        part.operations = batch.operations[:count]
        life.pump.run(life.between.grid.commit(part))

    def test_a_life_goes_on_after_a_part_of_a_batch(self, life: Life) -> None:
        """What it appends is read behind what was there, and nothing of the part comes up later."""
        sent = fill(life, turns=260)
        for count in (1, 4, 9, 12):
            life.between.holding = True
            for number in range(5):
                life.append(f"m/{number}/v", f"p{number}", text="lost")
            life.store.flush()
            self.apply(life, life.between.waiting[0][0], count)
            life = life.next(SETTINGS)
            life.numbers = len(sent)
            kept = told(life.everything("#"))
            assert [message for message in kept if message[1] != b"lost"] == wanted(sent, "#")
            sent += fill(life, turns=30)
            assert told(life.everything("#"))[: len(kept)] == kept
            assert life.list(life.log.verify()) == []
        got = [message for message in told(life.everything("#")) if message[1] != b"lost"]
        assert got == wanted(sent, "#")

    def test_a_slow_grid_does_not_make_big_pages(self, life: Life) -> None:
        """What gathers while a batch is under way becomes several turns of one batch, any part of it harmless."""
        life.between.holding = True
        runs = [life.append(f"m/{number % 3}/v", count=4, text=f"{number:05}" * 5000) for number in range(60)]
        life.store.flush()
        [(batch, _)] = life.between.waiting
        sizes = [len(value) for cache, _, value in batch.operations if cache is CacheName.LOG and value is not None]
        assert sum(sizes) > 6_000_000 > 6 * max(sizes)
        tail = life.append("m/1/v", text="tail")
        assert told(life.everything("m/+/v", messages=7)) == told([*runs, tail])
        got: list[Told] = []
        for count in range(len(batch) + 1):
            self.apply(life, batch, count)
            after = life.next(SETTINGS)
            got = told(after.everything("m/+/v"))
            assert got == told(runs)[: len(got)]
            assert after.append("a/b").position > runs[-1].end
        assert len(got) == 240

    def test_the_number_of_shards_may_change(self, life: Life) -> None:
        """It says where new messages go; old ones stay where they are."""
        sent: list[Told] = []
        for shards in (4, 1, 7, 2):
            life = life.next(LogSettings(shards=shards))
            life.numbers = len(sent)
            sent += fill(life, turns=90)
            for filter in ("#", "m/7/v"):
                assert told(life.everything(filter)) == wanted(sent, filter)
        assert max(stream.shard for stream in life.streams()) > 3

    # Retention.

    def test_a_generation_is_due_when_its_time_is_over(self, life: Life) -> None:
        """Counted from its last message; an open one never is."""
        settings = LogSettings(generation_seconds=100, retention_seconds=1000)
        life = life.next(settings)
        start = life.clock.now
        for second in range(0, 300, 10):
            life.clock.now = start + second
            life.append("a/b", text=str(second))
            life.commit()
        assert [one.closed for one in life.log.generations()] == [True, True, False]
        assert [one.began_at - start for one in life.log.generations()] == [0, 100, 200]
        life.clock.now = start + 1089
        assert life.log.due(life.clock.now) == []
        life.clock.now += 1
        [due] = life.log.due(life.clock.now)
        assert (due.id, due.messages) == (life.log.generations()[0].id, 10)
        life.pump.run(life.log.drop(due.id))
        assert told(life.everything("a/b"))[0] == (b"a/b", b"100")
        # The last one is over too, though nobody appended anything that would have begun another.
        life.clock.now = start + 1290
        assert len(life.log.due(life.clock.now)) == 2
        life.commit()
        assert [one.closed for one in life.next(settings).log.generations()] == [True, True]

    def test_the_oldest_are_due_when_there_are_too_many_bytes(self, life: Life) -> None:
        """As many as it takes."""
        life = life.next(LogSettings(retention_bytes=100_000))
        while life.log.size < 150_000:
            life.append("a/b", text="x" * 1000)
            life.commit()
        generations = life.log.generations()
        assert len(generations) > 8
        due = life.log.due(life.clock.now)
        assert due == generations[: len(due)]
        for generation in due:
            life.pump.run(life.log.drop(generation.id))
        assert 100_000 - 12_500 - 2000 <= life.log.size <= 100_000
        assert life.log.due(life.clock.now) == []

    def test_the_oldest_are_due_when_the_grid_has_no_more_room(self, life: Life) -> None:
        """Whatever the configuration allows, in generations that are small enough for it; of all classes together."""
        life = life.next(LogSettings(topics=(TopicRetention("own/#", bytes=0, seconds=0),)))
        life.log.limit(100_000)
        for number in range(300):
            life.append(("a/b", "own/a")[number % 2], text="x" * 1000)
            life.commit()
        generations = life.log.generations()
        due = life.log.due(life.clock.now)
        assert [one.id for one in due] == [one.id for one in generations[: len(due)]]
        assert {one.retention_class for one in due} == {0, 1}
        for generation in due:
            life.pump.run(life.log.drop(generation.id))
        assert 100_000 - 2 * 12_500 - 2000 <= life.log.size <= 100_000
        assert life.log.due(life.clock.now) == []
        life.log.limit(0)
        life.append("a/b", text="x" * 50_000)
        life.commit()
        assert life.log.due(life.clock.now) == []

    def test_the_oldest_is_due_while_the_grid_is_nearly_full(self, life: Life) -> None:
        """One at a time; down to a rest that is not what fills the grid. What is open is closed for it."""
        life = life.next(LogSettings())
        life.log.limit(80_000)
        pressed = [False]
        life.log.ceiling.pressed = lambda: pressed[0]
        life.append("a/b", text="x" * 9_000)
        life.commit()
        assert life.log.due(life.clock.now) == []
        pressed[0] = True
        assert life.log.due(life.clock.now) == []
        assert not life.log.generations()[0].closed, "a rest is left alone"
        life.append("a/b", text="x" * 1_500)
        life.commit()
        assert life.log.due(life.clock.now) == []
        first = life.log.generations()[0]
        assert first.closed
        life.append("a/b", text="x" * 1_500)
        life.commit()
        assert [one.id for one in life.log.due(life.clock.now)] == [first.id]
        life.pump.run(life.log.drop(first.id))
        assert life.log.due(life.clock.now) == []

    def test_a_generation_makes_room_while_a_commit_cannot(self, life: Life) -> None:
        """A full grid takes nothing until there is room; the drop waits for no commit that has nothing of it."""
        life = life.next(LogSettings(generation_seconds=100))
        fill(life, turns=20)
        life.clock.now += 101
        life.append("a/b", text="new")
        life.commit()
        old, _ = life.log.generations()
        life.between.holding = True
        life.append("a/b", text="waits")
        life.store.flush()
        life.pump.run(life.log.drop(old.id))
        assert [one.id for one in life.log.generations()] != [old.id]
        life.between.release()
        life.commit()
        assert [payload for _, payload in told(life.everything("a/b"))] == [b"new", b"waits"]
        assert len(life.next(SETTINGS).log.generations()) == 1

    def test_a_generation_waits_for_a_commit_that_has_something_of_it(self, life: Life) -> None:
        """What would be written behind the removal would stay for ever."""
        life = life.next(LogSettings(generation_seconds=100))
        life.between.holding = True
        life.append("a/b", text="old")
        life.store.flush()
        life.clock.now += 101
        old = life.log.generations()[0]
        life.log.due(life.clock.now)
        dropping = Deferred.fromCoroutine(life.log.drop(old.id))
        assert not dropping.called
        life.between.release()
        life.pump.run(_await(dropping))
        assert life.log.generations() == []
        assert life.pump.run(life.between.page(CacheName.LOG)) == []

    def test_topics_may_have_a_retention_of_their_own(self, life: Life) -> None:
        """The first filter that matches counts; each class has generations of its own, also in another life."""
        settings = LogSettings(
            topics=(TopicRetention("fast/+", seconds=10), TopicRetention("fast/#", bytes=0, seconds=0)),
            retention_seconds=1000,
        )
        life = life.next(settings)
        for topic in ("fast/1", "fast/1/2", "slow"):
            life.append(topic)
        life.commit()
        assert [one.retention_class for one in life.log.generations()] == [1, 2, 0]
        life.clock.now += 3601
        assert life.log.due(life.clock.now - 3000) == []
        assert [one.retention_class for one in life.log.due(life.clock.now)] == [1, 0]
        life.commit()
        # The same classes in another order, and without one of them.
        life = life.next(LogSettings(topics=(TopicRetention("x"), TopicRetention("fast/#", seconds=5))))
        assert [one.retention_class for one in life.log.generations()] == [0, 2, 0]
        assert told(life.everything("#"))[0][0] == b"fast/1"

    def test_a_dropped_generation_leaves_nothing(self, life: Life) -> None:
        """Readers go on behind it, references find nothing, the others are as they were, and so in another life."""
        life = life.next(LogSettings(generation_seconds=100))
        fill(life, turns=300)
        first = life.append("a/b", text="old")
        fill(life, turns=300)
        assert len(times(life)) > 1
        life.clock.now += 101
        second = life.append("a/b", text="new")
        life.commit()
        old, new = life.log.generations()
        size = life.log.size
        assert life.fetch(first.reference)[0] is not None
        life.pump.run(life.log.drop(old.id))
        life.pump.run(life.log.drop(old.id))
        for _ in range(2):
            assert life.fetch(first.reference, second.reference)[0] is None
            assert life.log.generations() == [new]
            assert life.log.size == size - old.bytes
            assert told(life.everything("#", position=first.position)) == [(b"a/b", b"new")]
            assert life.list(life.log.verify()) == []
            life = life.next(SETTINGS)
        assert all(block >= new.first >> TURN_BITS + 8 for block in times(life))
        for cache in (CacheName.LOG, CacheName.LOG_INDEX):
            keys = [key for key, _ in life.pump.run(life.between.page(cache))]
            assert [key for key in keys if key.startswith(old.id.to_bytes(4, "big"))] == []

    def test_a_dropped_generation_is_gone_for_who_has_read_it(self, life: Life) -> None:
        """Whichever of its blocks and pages were remembered; what came after it is read as before."""
        life = life.next(LogSettings(generation_seconds=100))
        fill(life, turns=700)
        life.clock.now += 101
        kept = fill(life, turns=3)
        life.commit()
        old = life.log.generations()[0]
        for filters in READERS:
            assert len(told(life.everything(*filters))) > len(wanted(kept, *filters))
        life.pump.run(life.log.drop(old.id))
        for filters in READERS:
            assert told(life.everything(*filters)) == wanted(kept, *filters)
        assert life.list(life.log.verify()) == []

    def test_an_open_generation_is_not_dropped(self, life: Life) -> None:
        """Messages are on their way to it."""
        life.append("a/b")
        life.commit()
        with pytest.raises(ValueError, match="still takes messages"):
            life.pump.run(life.log.drop(life.log.generations()[0].id))
        assert len(life.everything("a/b")) == 1

    @pytest.mark.parametrize("removals", range(4))
    def test_an_interrupted_drop_is_finished_later(self, life: Life, removals: int) -> None:
        """By the next attempt, in this life or another; meanwhile nobody reads half a generation."""
        settings = LogSettings(generation_seconds=100)
        life = life.next(settings)
        fill(life, turns=20)
        life.clock.now += 101
        life.append("a/b", text="new")
        life.commit()
        old = life.log.generations()[0]
        life.between.removals = removals
        with pytest.raises(Unavailable):
            life.pump.run(life.log.drop(old.id))
        for _ in range(2):
            assert told(life.everything("#")) == [(b"a/b", b"new")]
            assert life.list(life.log.verify()) == []
            assert [one.id for one in life.log.due(life.clock.now)] == [old.id]
            life = life.next(settings)
        life.pump.run(life.log.drop(old.id))
        assert [one.id for one in life.log.generations()] == [old.id + 1]
        assert [one.id for one in life.next(settings).log.generations()] == [old.id + 1]

    # Damage.

    def _before_damage(self, life: Life) -> tuple[Life, LogRun]:
        """Three messages, each in a page of its own; another life, and the one that is to be damaged."""
        appended = []
        for text in ("1", "2", "3"):
            appended.append(life.append("a/b", text=text))
            life.commit()
        return life.next(SETTINGS), appended[1]

    def test_a_flipped_bit_is_found_and_skipped(self, life: Life) -> None:
        """Its page's messages are missing, counted once; everything else is read."""
        life, damaged = self._before_damage(life)
        pairs = life.pump.run(life.between.page(CacheName.LOG))
        key, page = next(pair for pair in pairs if turn_of(pair[0]) == damaged.position >> TURN_BITS)
        for spot in range(len(page)):
            batch = WriteBatch()
            batch.put(CacheName.LOG, key, page[:spot] + bytes((page[spot] ^ 0x10,)) + page[spot + 1 :])
            life.pump.run(life.between.grid.commit(batch))
            [found] = life.list(life.log.verify())
            assert (found.stream, found.turn) == (damaged.reference.stream, damaged.position >> TURN_BITS)
            assert found.generation == damaged.reference.generation
        assert [payload for _, payload in told(life.everything("a/b"))] == [b"1", b"3"]
        assert [payload for _, payload in told(life.everything("a/b"))] == [b"1", b"3"]
        assert life.fetch(damaged.reference) == [None]
        assert life.log.figures.damaged_pages == 1

    def test_what_the_grid_cannot_read_is_skipped(self, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file of its is damaged: the page's messages are missing, and everything else is read and checked."""
        life, damaged = self._before_damage(life)
        between = life.between
        pairs = life.pump.run(between.page(CacheName.LOG))
        spoilt = next(key for key, _ in pairs if turn_of(key) == damaged.position >> TURN_BITS)
        get, get_many = between.get, between.get_many

        async def one(cache: CacheName, key: bytes) -> bytes | None:
            if (cache, key) == (CacheName.LOG, spoilt):
                raise Corrupt("000009.sst is damaged")
            return await get(cache, key)

        async def many(cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
            if cache is CacheName.LOG and spoilt in keys:
                raise Corrupt("000009.sst is damaged")
            return await get_many(cache, keys)

        monkeypatch.setattr(between, "get", one)
        monkeypatch.setattr(between, "get_many", many)
        [found] = life.list(life.log.verify())
        assert found.what == "the grid cannot read the page"
        for _ in range(2):
            assert [payload for _, payload in told(life.everything("a/b"))] == [b"1", b"3"]
        assert life.log.figures.damaged_pages == 1

    def test_a_missing_page_is_damage(self, life: Life) -> None:
        """The index promises it."""
        life.append("a/b")
        life.commit()
        [(key, _)] = life.pump.run(life.between.page(CacheName.LOG))
        life.pump.run(life.between.grid.remove_prefix(CacheName.LOG, key))
        [damage] = life.list(life.log.verify())
        assert "missing" in damage.what

    def test_a_grid_that_is_away_is_not_an_empty_log(self, life: Life) -> None:
        """The reader hears of it, and gets everything when it is back."""
        sent = fill(life, turns=5)
        life.pump.run(life.between.grid.close())
        for call in (life.log.read(["#"], 0, 10, 10), life.log.fetch([life_reference(life)])):
            with pytest.raises(Unavailable):
                life.pump.run(call)
        life.pump.run(life.between.grid.open())
        assert told(life.everything("m/#")) == wanted(sent, "m/#")


def life_reference(life: Life) -> Reference:
    """Of a page that is on the grid."""
    [stream, *_] = life.streams()
    return Reference(stream.generation, stream.id, life.log.generations()[0].first, 1)


def times(life: Life) -> list[int]:
    """The blocks whose times are kept."""
    return [int.from_bytes(key[-8:], "big") for key, _ in life.pump.run(life.between.page(CacheName.LOG_META, b"w"))]


def turn_of(key: bytes) -> int:
    return int.from_bytes(key[-8:], "big")
