"""Several writers in one grid, and the log of one read by others while it grows."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter, itemgetter

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.log import LogSettings, PageCache, drop_over
from iot_mqtt.grid.log.keys import MAX_TURNS, begun_key, ring_prefix
from iot_mqtt.ports.grid import CacheName, WriteBatch
from iot_mqtt.ports.log import TURN_BITS, LogRun, Reading, Reference, writer_of
from tests.contract.logkit import SETTINGS, Follower, Life, LogCase, Told, fill, told, wanted
from tests.seeds import seeds_of

FILTERS = ["#", "m/+/v", "m/7/v", "+/7/+", "other/#", "$SYS/#", "nothing/here"]
ONE = "m/7/v"
_position = attrgetter("position")


async def nobody_counts(generation: int) -> None:
    """Nobody is owed anything of it."""


class LogFollowingSuite(LogCase):
    """Subclass, and define ``make``. Writer and followers have the same grid object below them."""

    # Writers.

    def test_writers_share_nothing(self, life: Life) -> None:
        """Each reads what it wrote, in every life, whatever the others do."""
        lives = [life, life.other(1), life.other(255)]
        sent: list[list[Told]] = [[], [], []]
        for turn in range(300):
            for index, one in enumerate(lives):
                run = one.append(f"m/{turn % 11}/v", f"p{turn % 3}", text=f"{index} {turn}")
                sent[index] += told([run])
                assert run.reference.writer == writer_of(run.reference.generation) == one.log.writer
                if turn % (index + 1) == 0:
                    one.commit()
        for one in lives:
            one.commit()
        for _ in range(2):
            for one, messages in zip(lives, sent, strict=True):
                assert told(one.everything("#")) == messages
                assert told(one.everything(ONE)) == wanted(messages, ONE)
                assert one.list(one.log.verify()) == []
                assert {writer_of(generation.id) for generation in one.log.generations()} == {one.log.writer}
                assert sum(generation.messages for generation in one.log.generations()) == len(messages)
            lives = [one.next(SETTINGS) for one in lives]

    def test_the_log_of_a_dead_writer_has_its_retention_too(self, life: Life) -> None:
        """Others drop what is over by time, its last generation included, and nothing of anybody else."""
        settings = LogSettings(generation_seconds=100, retention_seconds=1000)
        dead, other = life.other(7, settings), life.other(8, settings)
        first, mine = dead.append("a/b", text="old"), other.append("a/b", text="mine")
        dead.commit()
        other.commit()
        life.clock.now += 500
        second = dead.append("a/b", text="new")
        dead.commit()
        reader = Follower(dead, settings)

        def take_care() -> list[int]:
            return life.pump.run(drop_over(life.between, settings, 7, life.clock.now, nobody_counts))

        assert take_care() == []
        # A period may have taken its last message at its end: that one is kept as long as it was promised, too.
        life.clock.now += 599
        assert take_care() == []
        life.clock.now += 1
        assert take_care() == [first.reference.generation]
        assert [run.position for run in dead.next(settings).everything("#")] == [second.position]
        reader.refresh()
        assert reader.fetch(first.reference, second.reference)[0] is None
        life.clock.now += 500
        assert take_care() == [second.reference.generation]
        assert take_care() == []
        for cache in (CacheName.LOG, CacheName.LOG_INDEX):
            keys = [key for key, _ in life.pump.run(life.between.page(cache))]
            assert {key[0] for key in keys} <= {8}
        assert other.fetch(mine.reference)[0] is not None

    def test_a_dropped_generation_is_of_one_writer(self, life: Life) -> None:
        """The others keep theirs of the same number."""
        settings = LogSettings(generation_seconds=100)
        lives = [life.other(writer, settings) for writer in (0, 1, 2)]
        sent = [fill(one, turns=300) for one in lives]
        life.clock.now += 101
        lives[1].append("a/b")
        lives[1].commit()
        life.pump.run(lives[1].log.drop(lives[1].log.generations()[0].id))
        for one, messages in list(zip(lives, sent, strict=True))[::2]:
            for each in (one, one.next(settings)):
                assert told(each.everything("#")) == wanted(messages, "#")
                assert each.list(each.log.verify()) == []
        assert [topic for topic, _ in told(lives[1].next(settings).everything("#"))] == [b"a/b"]

    def test_the_committed_end_moves_with_commits(self, life: Life) -> None:
        """Everything before it is safe, and it reaches the end."""
        assert life.log.committed_end == life.log.end
        first = life.append("a/b")
        assert life.log.committed_end <= first.position
        life.between.holding = True
        life.store.flush()
        second = life.append("a/b")
        assert life.log.committed_end <= first.position
        life.between.release()
        life.commit()
        assert life.log.committed_end == life.log.end >= second.end

    # Following.

    def test_a_follower_sees_what_is_committed_and_no_more(self, life: Life) -> None:
        """As soon as it is announced."""
        follower = Follower(life)
        assert follower.read("#") == ([], follower.log.end, True)
        life.append("a/b", text="1")
        life.commit()
        life.between.holding = True
        life.append("a/b", text="2")
        life.store.flush()
        life.append("a/b", text="3")
        for expected in ([b"1"], [b"1", b"2", b"3"]):
            follower.hear(life)
            assert [payload for _, payload in told(follower.everything("a/b"))] == expected
            life.between.release()
            life.commit()

    def test_a_look_at_the_end_shows_nothing(self, life: Life) -> None:
        """It says where the log ends by now; what is read ends where it was announced."""
        follower = Follower(life)
        for _ in range(40):
            life.append("a/b", text="1")
            life.commit()
        announced = follower.log.end
        assert life.pump.run(follower.log.look()) == life.log.committed_end > announced
        assert follower.log.end == announced
        assert follower.everything("#") == []
        follower.hear(life)
        assert life.pump.run(follower.log.look()) == follower.log.end
        assert len(follower.everything("#")) == 40

    @pytest.mark.parametrize("turns", [1, 3, 255, 256, 257, 511, 512, 513, 800, 1100])
    def test_a_follower_may_begin_late(self, life: Life, turns: int) -> None:
        """It finds the end by itself, and everything before it."""
        sent = fill(life, turns=turns)
        follower = Follower(life, LogSettings(shards=1))
        assert follower.log.end == life.log.committed_end
        for filter in FILTERS:
            assert told(follower.everything(filter)) == wanted(sent, filter)
        assert follower.list(follower.log.verify()) == []
        assert sorted(follower.streams()) == sorted(life.streams())
        assert follower.log.generations() == life.log.generations()

    @pytest.mark.parametrize("step", [1, 7, 100, 256, 300, 511, 512, 513, 700])
    def test_a_follower_goes_on_however_far_it_is_behind(self, life: Life, step: int) -> None:
        """Summaries that are written over, and streams that came unseen: all is found in the index."""
        follower, position, got = Follower(life), 0, dict.fromkeys(FILTERS, 0)
        sent: list[Told] = []
        for turn in range(1500):
            for _ in range(2):
                # Other topics come later on.
                topic = f"m/{turn % 29}/v" if turn % 2 else f"other/{turn // 300}/{turn % 7}"
                sent += told([life.append(topic, f"p{turn % 5}", text=str(turn))])
            life.commit()
            if turn % step == step - 1:
                follower.hear(life)
                reading = follower.read("#", position=position)
                assert reading.at_end
                position = reading.position
                got["#"] += len(told(reading.runs))
                assert got["#"] == len(sent)
        follower.hear(life)
        for filter in FILTERS:
            assert told(follower.everything(filter)) == wanted(sent, filter)
        assert sorted(follower.streams()) == sorted(life.streams())
        assert follower.log.generations() == life.log.generations()
        assert follower.log.figures.damaged_pages == 0

    def test_a_follower_outlives_the_writer(self, life: Life) -> None:
        """Starts that leave turns out, with more shards or fewer, and starts that write nothing."""
        follower, sent = Follower(life), list[Told]()
        for shards, turns, idle in ((4, 3, 0), (1, 90, 5), (7, 300, 0), (2, 700, 1), (6, 1, 3), (3, 2, 0)):
            for _ in range(idle + 1):
                life = life.next(LogSettings(shards=shards))
                follower.hear(life)
                assert told(follower.everything(ONE)) == wanted(sent, ONE)
            life.numbers = len(sent)
            sent += fill(life, turns=turns)
            follower.hear(life)
            for one in (follower, Follower(life)):
                assert one.log.end == life.log.committed_end
                for filter in ("#", ONE):
                    assert told(one.everything(filter)) == wanted(sent, filter)
                assert one.list(one.log.verify()) == []

    def test_a_follower_reads_what_an_earlier_version_wrote(self, life: Life) -> None:
        """It did not note how many shards there are."""
        life = life.next(LogSettings(shards=7))
        sent = fill(life, turns=300)
        batch = WriteBatch()
        for cache, prefix in (
            (CacheName.LOG_META, begun_key(self.writer)),
            (CacheName.LOG_TURNS, ring_prefix(self.writer)),
        ):
            for key, record in life.pump.run(life.between.page(cache, prefix, limit=10_000)):
                assert record[0] == 0x11
                batch.put(cache, key, b"\x10" + record[1:-2])
        life.pump.run(life.between.grid.commit(batch))
        for _ in range(2):
            follower = Follower(life)
            assert follower.log.end == life.log.committed_end
            assert told(follower.everything("#")) == wanted(sent, "#")
            life = life.next(SETTINGS)
            life.numbers = len(sent)
            sent += fill(life, turns=20)
            follower.hear(life)
            assert told(follower.everything("#")) == wanted(sent, "#")

    def test_an_announcement_may_be_inside_of_a_turn(self, life: Life) -> None:
        """What is behind it is not shown, until more is announced."""
        follower = Follower(life)
        runs = [life.append(f"m/{number % 5}/v", f"p{number}", 3) for number in range(10)]
        life.commit()
        position, got = 0, list[Told]()
        for run in runs:
            for end in (run.position, run.position + 2, run.end):
                follower.log.announce(end)
                assert follower.log.end == end
                follower.log.announce(end - 1)
                reading = follower.read("#", position=position)
                assert all(one.end <= end for one in reading.runs)
                assert (reading.position, reading.at_end) == (end, True)
                got += told(reading.runs)
                position = end
        assert got == told(runs)

    # Generations.

    def test_generations_come_and_go(self, life: Life) -> None:
        """New ones are met in summaries; dropped ones are skipped by readers, and their references are removed."""
        life = life.next(LogSettings(generation_seconds=100))
        # What is in memory may still be read: here nothing is.
        follower, late = (Follower(life, cache=PageCache(0)) for _ in range(2))
        sent: list[Told] = []
        runs: list[LogRun] = []
        for period in range(6):
            for turn in range(150):
                run = life.append(f"m/{turn % 20}/v" if period % 2 else f"x/{turn % 20}", text=f"{period} {turn}")
                runs.append(run)
                sent += told([run])
                life.commit()
            follower.hear(life)
            assert told(follower.everything("#")) == sent
            assert follower.log.generations() == life.log.generations()
            life.clock.now += 101
        follower.hear(life)
        oldest, kept = runs[0].reference, runs[-1].reference
        for period, generation in enumerate(life.log.generations()[:5]):
            life.pump.run(life.log.drop(generation.id))
            left = [message for message in sent if int(message[1].split()[0]) > period]
            late.hear(life)
            for one in (follower, late):
                assert told(one.everything("#")) == left
                assert told(one.everything("m/7/v", "x/7")) == wanted(left, "m/7/v", "x/7")
                assert [found is None for found in one.fetch(oldest, kept)] == [True, False]
                assert one.log.figures.damaged_pages == 0
                one.refresh()
                assert one.log.generations() == life.log.generations()
                assert one.list(one.log.verify()) == []

    @pytest.mark.parametrize("dead", [False, True])
    def test_a_follower_notes_what_was_dropped(self, life: Life, *, dead: bool) -> None:
        """By the writer, or by who cares for its log; from then on nothing of it is read that was in memory."""
        settings = LogSettings(generation_seconds=100, retention_seconds=1000)
        life = life.other(7, settings)
        fill(life, turns=700)
        old = life.append("m/7/v")
        life.commit()
        life.clock.now += 800
        kept = fill(life, turns=600)
        follower = Follower(life, settings)
        for filters in (["m/7/v"], ["m/+/v"], ["#"]):
            assert len(told(follower.everything(*filters))) > len(wanted(kept, *filters))
        assert None not in follower.fetch(old.reference)
        end = follower.log.end
        if dead:
            life.clock.now += 300
            dropped = life.pump.run(drop_over(life.between, settings, 7, life.clock.now, nobody_counts))
            assert dropped == [old.reference.generation]
        else:
            life.pump.run(life.log.drop(old.reference.generation))
            life.append("m/7/v")
            life.commit()
        life.pump.run(follower.log.note_drops())
        assert follower.log.end == end
        for filters in (["m/7/v"], ["m/+/v"], ["#"]):
            assert told(follower.everything(*filters)) == wanted(kept, *filters)
        assert follower.fetch(old.reference) == [None]
        assert follower.log.figures.damaged_pages == 0

    def test_what_is_given_up_is_read_by_nobody_but_who_counts_it(self, life: Life) -> None:
        """Whatever its record says, until it is dropped; and what its writer has of that number afterwards is new."""
        settings = LogSettings(generation_seconds=100)
        life = life.other(7, settings)
        old = fill(life, turns=20)
        generation = life.log.generations()[0].id
        life.clock.now += 101
        new = fill(life, turns=20)
        follower = Follower(life, settings)
        assert told(follower.everything("#")) == wanted(old + new, "#")
        whole = life.pump.run(follower.log.give_up(generation))
        assert whole is not None
        assert sorted(told(life.list(whole.scan(generation)))) == sorted(old)
        for _ in range(2):
            assert told(follower.everything("#")) == wanted(new, "#")
            life.pump.run(follower.log.note_drops())
            follower.refresh()
            assert life.pump.run(follower.log.give_up(generation)) is None
        life.pump.run(life.log.drop(generation))
        follower.refresh()
        assert told(follower.everything("#")) == wanted(new, "#")
        assert life.pump.run(follower.log.give_up(generation)) is None

    @pytest.mark.parametrize("removals", range(4))
    def test_nobody_reads_half_a_generation(self, life: Life, removals: int) -> None:
        """While it is being dropped it is gone already, also for who did not hear of it."""
        life = life.next(LogSettings(generation_seconds=100))
        fill(life, turns=20)
        old = life.append("m/7/v")
        life.commit()
        follower, other = (Follower(life, cache=PageCache(0)) for _ in range(2))
        assert len(follower.everything("#")) > 20
        life.clock.now += 101
        life.append("a/b", text="new")
        life.commit()
        life.between.removals = removals
        with pytest.raises(Unavailable):
            life.pump.run(life.log.drop(life.log.generations()[0].id))
        if removals == 0:
            follower.refresh()
        for one in (follower, other, Follower(life)):
            one.hear(life)
            if removals or one is not other:
                assert one.fetch(old.reference) == [None]
                assert told(one.everything("#")) == [(b"a/b", b"new")]
                assert one.list(one.log.verify()) == []
                assert one.log.figures.damaged_pages == 0

    def test_numbers_of_generations_may_be_used_again(self, life: Life) -> None:
        """A writer whose whole log was dropped begins anew; so do its followers."""
        settings = LogSettings(generation_seconds=100)
        life = life.next(settings)
        life.append("a/1", "p1")
        life.append("b/2", "p2")
        life.commit()
        old_run = life.read("#").runs[0]
        followers = [Follower(life, cache=PageCache(0)) for _ in range(2)]
        assert len(followers[0].everything("#")) == 2
        life.clock.now += 101
        life.log.due(life.clock.now)
        life.commit()
        old = life.log.generations()[0]
        life.pump.run(life.log.drop(old.id))
        life = life.next(LogSettings(shards=3))
        run = life.append("c/3", "p3")
        life.commit()
        assert run.reference.generation == old.id
        for one in (*followers, Follower(life)):
            one.log.announce(life.log.committed_end)
            assert told(one.everything("#")) == told([run])
            assert one.fetch(old_run.reference) == [None]
            assert one.log.generations() == life.log.generations()
            assert one.log.figures.damaged_pages == 0
        life = life.next(SETTINGS)
        assert told(life.everything("#")) == told([run])
        assert life.fetch(old_run.reference) == [None]
        assert life.log.figures.damaged_pages == 0

    # References.

    def test_references_are_fetched_wherever_the_end_is(self, life: Life) -> None:
        """What others kept of a log may be newer than what was announced."""
        follower = Follower(life)
        runs = [life.append(f"m/{number % 3}/v", f"p{number % 4}", 4) for number in range(10)]
        life.commit()
        asked = [runs[7].reference, runs[2].reference.part(1, 3), runs[0].reference]
        found = [run for run in follower.fetch(*asked) if run is not None]
        assert [run.reference for run in found] == asked
        assert told(found) == [*told([runs[7]]), *told([runs[2]])[1:3], *told([runs[0]])]
        more = life.append("elsewhere", "p9")
        life.commit()
        generation, stream, position, length = more.reference
        assert [found is None for found in follower.fetch(more.reference)] == [False]
        assert follower.fetch(
            Reference(generation + 1, stream, position, length),
            Reference(generation, stream + 1, position, length),
            Reference(generation + (1 << TURN_BITS), stream, position, length),
        ) == [None, None, None]
        assert follower.read("#") == ([], follower.log.end, True)
        follower.hear(life)
        assert told(follower.everything("#")) == told([*runs, more])

    # A writer that says nothing.

    def test_what_was_not_announced_is_found(self, life: Life) -> None:
        """By who asks for it: little, much, and nothing; in this life of the writer and the next."""
        follower, sent = Follower(life), list[Told]()
        for turns in (1, 15, 16, 17, 0, 100, 500, 520, 1, 900):
            life.numbers = len(sent)
            if turns:
                sent += fill(life, turns=turns)
            assert follower.refresh() == follower.log.end == life.log.committed_end
            assert told(follower.everything("#")) == wanted(sent, "#")
            if turns == 100:
                life = life.next(SETTINGS)

    @pytest.mark.parametrize("turns", [3, 255, 511])
    @pytest.mark.parametrize(("seed", "lives"), list(zip(seeds_of("in part", 3), (True, False, False), strict=True)))
    def test_what_is_written_in_part_is_never_passed_over(
        self, life: Life, turns: int, seed: int, *, lives: bool
    ) -> None:
        """Summaries come in any order: who read when some were there reads the rest when it is there, if the writer
        lives to write it.
        """
        rng = random.Random(seed)
        sent = fill(life, turns=turns)
        follower = Follower(life)
        assert told(follower.everything("#")) == wanted(sent, "#")
        position = follower.log.end
        life.between.holding = True
        tail: list[LogRun] = []
        for number in range(24):
            tail.append(life.append(f"m/{number % 3}/v", f"p{number}", text=f"{number:04}" * 60_000))
        life.store.flush()
        [(batch, _)] = life.between.waiting
        others = [one for one in batch.operations if one[0] is not CacheName.LOG_TURNS]
        summaries = [one for one in batch.operations if one[0] is CacheName.LOG_TURNS]
        assert len(summaries) > 12
        rng.shuffle(summaries)
        dying = rng.randrange(len(summaries))
        got: list[Told] = []
        for count, operation in enumerate([*others, *summaries]):
            if count == len(others) + dying:
                break
            self._apply(life, [operation])
            if count >= len(others):
                follower.refresh()
                reading = follower.read("#", position=position)
                assert reading.at_end
                got, position = got + told(reading.runs), reading.position
                assert got == told(tail)[: len(got)]
        if lives:
            self._apply(life, summaries)
            assert follower.refresh() >= tail[-1].end
            assert got + told(follower.everything("#", position=position)) == told(tail)
        after = life.next(SETTINGS)
        run = after.append("new")
        after.commit()
        follower.hear(after)
        got += told(follower.everything("#", position=position))
        assert got == told(after.everything("#", position=tail[0].position))
        assert got[-1:] == told([run])

    def _apply(self, life: Life, operations: Sequence[tuple[CacheName, bytes, bytes | None]]) -> None:
        """A part of a batch."""
        part = WriteBatch()
        part.operations = list(operations)
        life.pump.run(life.between.grid.commit(part))

    @pytest.mark.parametrize(("seed", "lives"), [(1, True), (2, False)])
    @pytest.mark.parametrize("more", [0, 700])
    def test_streams_that_are_written_in_any_order_are_all_found(
        self, life: Life, seed: int, more: int, *, lives: bool
    ) -> None:
        """By whoever looked at them while some were there: later, wherever the turns that name them are by then."""
        rng = random.Random(seed)
        sent = told([life.append("one")])
        life.commit()
        followers = [Follower(life)]
        life.between.holding = True
        tail = told([life.append(f"{'deep/' * number}m", f"p{number}") for number in range(16)])
        life.store.flush()
        [(batch, _)] = life.between.waiting
        parts = [list(part) for _, part in groupby(batch.operations, key=itemgetter(0))]
        (streams,) = (part for part in parts if part[0][0] is CacheName.LOG_META)
        rng.shuffle(streams)
        for operation in streams[: None if lives else 8]:
            self._apply(life, [operation])
            follower = Follower(life)
            assert told(follower.everything("#")) == sent
            followers.append(follower)
        if lives:
            life.between.release()
            life.commit()
            sent += tail
        else:
            life = life.next(SETTINGS)
        sent += told([life.append(f"{'other/' * number}m", f"p{number}") for number in range(8)])
        life.commit()
        for _ in range(more):
            sent += told([life.append("one")])
            life.commit()
        for follower in followers:
            follower.hear(life)
            assert told(follower.everything("#")) == sent
            assert follower.log.figures.damaged_pages == 0

    # All at once.

    def test_followers_and_the_writer_at_once(self, life: Life, course: int) -> None:
        """Any schedule: each reads what was committed before its end, in order, once."""
        rng = random.Random(course)
        runs: list[LogRun] = []
        settings = LogSettings(generation_seconds=rng.choice([50, 1000]))
        life = life.next(settings)
        cache = PageCache(1 << 20)
        followers = [(Follower(life, cache=cache), filters, [0], list[Told]()) for filters in ([f] for f in FILTERS)]
        for _ in range(900):
            life.clock.now += 1
            for _ in range(rng.randrange(4)):
                topic = rng.choice(["m/{}/v", "other/{}/w", "m/{}/v/deep", "$SYS/{}"]).format(rng.randrange(25))
                runs.append(life.append(topic, f"p{rng.randrange(5)}", rng.randrange(1, 4)))
            step = rng.randrange(12)
            if step == 0:
                life.between.holding = True
            elif step == 1:
                life.between.release()
            elif step < 8:
                life.store.flush()
            elif step == 8 and rng.random() < 0.2:
                life.between.release()
                life.commit()
                numbers = life.numbers
                life = life.next(LogSettings(shards=rng.randrange(1, 6), generation_seconds=50))
                life.numbers = numbers
            follower, filters, place, got = rng.choice(followers)
            if rng.random() < 0.7:
                follower.hear(life)
            elif rng.random() < 0.2 and runs and runs[-1].end > life.log.committed_end:
                follower.log.announce(rng.choice([run.end for run in runs if run.end <= life.log.committed_end] or [0]))
            elif rng.random() < 0.1:
                assert follower.refresh() <= life.log.end
            before = place[0]
            reading = follower.read(*filters, position=before, messages=rng.choice([1, 3, 1000]))
            got += told(reading.runs)
            place[0] = reading.position
            end = follower.log.end
            assert all(run.end <= end for run in reading.runs)
            assert reading.at_end == (reading.position >= end)
            first, behind = (bisect_left(runs, at, key=_position) for at in (before, reading.position))
            assert told(reading.runs) == wanted(told(runs[first:behind]), *filters)
        life.between.release()
        life.commit()
        for follower, filters, place, got in followers:
            follower.hear(life)
            got += told(follower.everything(*filters, position=place[0]))
            assert got == wanted(told(runs), *filters)
            assert follower.log.figures.damaged_pages == 0

    def test_reads_that_take_their_time(self, life: Life, course: int) -> None:
        """Several at once through one follower, with appends, commits and announcements between."""
        rng = random.Random(course)
        life = life.next(LogSettings(generation_seconds=200))
        follower = Follower(life)
        sent: list[Told] = []
        got: dict[str, list[Told]] = {filter: [] for filter in FILTERS}
        positions = dict.fromkeys(FILTERS, 0)
        under_way: dict[str, Deferred[Reading]] = {}
        reads: list[Deferred[None]] = []
        follower.between.reads = reads
        for _ in range(2500):
            life.clock.now += 1
            for _ in range(rng.randrange(3)):
                topic = rng.choice(["m/{}/v", "other/{}/w", "$SYS/{}"]).format(rng.randrange(9))
                sent += told([life.append(topic, f"p{rng.randrange(5)}", rng.randrange(1, 4))])
            if rng.random() < 0.5:
                life.store.flush()
            if rng.random() < 0.5:
                follower.hear(life)
            filter = rng.choice(FILTERS)
            if filter not in under_way:
                coroutine = follower.log.read([filter], positions[filter], rng.choice([1, 5, 1000]), 1 << 30)
                under_way[filter] = life.pump.start(coroutine)
            if reads and rng.random() < (0.7 if course % 2 else 0.1):
                reads.pop(rng.randrange(len(reads))).callback(None)
            for filter in [filter for filter, read in under_way.items() if read.called]:
                reading = life.pump.run(_result(under_way.pop(filter)))
                got[filter] += told(reading.runs)
                positions[filter] = reading.position
        follower.between.reads = None
        life.commit()
        follower.hear(life)
        while reads:
            reads.pop().callback(None)
        for filter in FILTERS:
            if filter in under_way:
                reading = life.pump.run(_result(under_way[filter]))
                got[filter] += told(reading.runs)
                positions[filter] = reading.position
            got[filter] += told(follower.everything(filter, position=positions[filter]))
            assert got[filter] == wanted(sent, filter)
        assert follower.log.figures.damaged_pages == 0

    # What it costs.

    def test_a_follower_at_the_end_needs_no_grid(self, life: Life) -> None:
        """Announcements cost nothing, and catching up costs few questions however many turns it is about."""
        fill(life, turns=300)
        follower = Follower(life)
        position = follower.read("m/7/v").position
        follower.between.asked = 0
        for _ in range(3):
            follower.hear(life)
            assert follower.read("m/7/v", position=position) == ([], follower.log.end, True)
        assert follower.between.asked == 0
        for turns, questions in ((1, 3), (10, 3), (MAX_TURNS, 4), (450, 6)):
            sent = fill(life, turns=turns)
            follower.hear(life)
            assert follower.between.asked == 0
            reading = follower.read("#", position=position, messages=1_000_000)
            assert told(reading.runs) == wanted(sent, "#")
            assert follower.between.asked <= questions + len(reading.runs) // 100
            position, follower.between.asked = reading.position, 0

    def test_a_grid_that_is_away_is_not_an_empty_log(self, life: Life) -> None:
        """Nor is one that a later version wrote: the reader hears of it, and gets everything later."""
        follower = Follower(life)
        sent = fill(life, turns=300)
        follower.hear(life)
        life.pump.run(life.between.grid.close())
        for call in (follower.log.read(["#"], 0, 10, 10), follower.log.refresh()):
            with pytest.raises(Unavailable):
                life.pump.run(call)
        life.pump.run(life.between.grid.open())
        key, record = life.pump.run(life.between.page(CacheName.LOG_TURNS, limit=1))[0]
        for value in (b"\x20" + record[1:], record):
            batch = WriteBatch()
            batch.put(CacheName.LOG_TURNS, key, value)
            life.pump.run(life.between.grid.commit(batch))
            if value is not record:
                with pytest.raises(Unavailable, match="cannot be read"):
                    follower.read("#")
        assert told(follower.everything("#")) == wanted(sent, "#")

    # Tools.

    def test_a_follower_counts_and_finds_as_the_writer_does(self, life: Life) -> None:
        """Positions of times, scans, verification; figures are of this reader alone."""
        life = life.next(LogSettings(generation_seconds=400))
        follower = Follower(life)
        start, runs = life.clock.now, list[LogRun]()
        for turn in range(900):
            life.clock.now = start + turn
            runs += [life.append(f"m/{turn % 9}/v", f"p{turn % 5}", text=str(turn)) for _ in range(2)]
            life.commit()
        follower.hear(life)
        for wall in (0, start, start + 0.5, start + 300, start + 898.5, start + 899):
            expected = next(run.position for run in runs if run.arrived >= wall)
            assert life.pump.run(follower.log.position_at(wall)) == expected
        assert life.pump.run(follower.log.position_at(start + 900)) == follower.log.end
        assert sorted(told(follower.list(follower.log.scan()))) == sorted(told(runs))
        [_, second, _] = follower.log.generations()
        expected_runs = [run for run in runs if run.reference.generation == second.id]
        assert sorted(told(follower.list(follower.log.scan(second.id)))) == sorted(told(expected_runs))
        assert follower.log.figures.pages_read >= 900
        assert (follower.log.figures.pages_written, life.log.figures.pages_read) == (0, 0)
        page = life.pump.run(life.between.page(CacheName.LOG, limit=1))[0][0]
        life.pump.run(life.between.grid.remove_prefix(CacheName.LOG, page))
        [damage] = follower.list(follower.log.verify())
        assert "missing" in damage.what

    def test_logs_of_one_node_may_share_their_pages(self, life: Life) -> None:
        """One bound for all of them, and each gets its own."""
        other = life.other(9)
        cache = PageCache(1 << 20)
        followers = [Follower(one, cache=cache) for one in (life, other)]
        for number, one in enumerate((life, other)):
            for turn in range(50):
                one.append("a/b", text=f"{number} {turn}")
                one.commit()
        for _ in range(2):
            for number, (follower, one) in enumerate(zip(followers, (life, other), strict=True)):
                follower.hear(one)
                got = [payload.decode() for _, payload in told(follower.everything("a/b"))]
                assert got == [f"{number} {turn}" for turn in range(50)]
        assert [follower.log.figures.pages_read for follower in followers] == [50, 50]


async def _result(read: Deferred[Reading]) -> Reading:
    return await read
