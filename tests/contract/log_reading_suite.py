"""Reading the log: order, filters, amounts, the end, references, tools."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.grid.log import LogSettings
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.ports.log import LogRun, Reading, Reference
from tests.contract.logkit import SETTINGS, Life, LogCase, Told, fill, run_of, told, wanted

FILTERS = ["#", "m/+/v", "m/7/v", "m/7/#", "+/7/+", "other/#", "$SYS/#", "m/7/v/deep", "nothing/here"]


class LogReadingSuite(LogCase):
    """Part of ``LogSuite``."""

    # Order.

    def test_messages_come_in_the_order_of_arrival(self, life: Life) -> None:
        """Of all topics, publishers and turns, as they were: topic, payload, publisher, time."""
        sent = fill(life, turns=40)
        assert told(life.everything("#")) == wanted(sent, "#")
        first = life.append("a/b", "somebody", 3)
        assert (first.topic, first.publisher, first.arrived) == (b"a/b", "somebody", life.clock.now)
        life.commit()
        [again] = life.read("a/b").runs
        assert again is not first
        assert (again.reference, again.run, again.topic) == (first.reference, first.run, b"a/b")
        assert (again.publisher, again.arrived) == ("somebody", life.clock.now)

    def test_positions_grow(self, life: Life) -> None:
        """Within a turn by the number of messages, and over turns; the end is behind all of them."""
        end = life.log.end
        for _ in range(3):
            for count in (1, 5, 2):
                run = life.append("a/b", count=count)
                assert run.position >= end
                assert (run.end, life.log.end) == (run.position + count, run.end)
                end = run.end
            life.commit()
            assert life.log.end >= end

    def test_properties_and_forms_are_kept(self, life: Life) -> None:
        """MQTT 5 beside MQTT 3, expiry included."""
        five = run_of(b"a/b", ["five"], five=True, properties=b"\x02\x00\x00\x00\x3c\x26\x00\x01k\x00\x01v")
        life.log.append(five, b"a/b", "p", 1.5)
        life.append("a/b", text="three")
        life.commit()
        runs = life.read("a/b").runs
        assert [(run.run.five, run.run.payloads()) for run in runs] == [(True, [b"five"]), (False, [b"three"])]
        assert runs[0].run == five
        assert runs[0].run.properties.message_expiry_interval == 60

    # Selective reading.

    def test_a_filter_gets_what_it_matches(self, life: Life) -> None:
        """Everything, nothing else, in order; in memory, from the grid, and in another life."""
        sent = fill(life, turns=600)
        for _ in range(2):
            for filter in FILTERS:
                assert told(life.everything(filter)) == wanted(sent, filter), filter
            life = life.next(SETTINGS)

    def test_several_filters_get_their_union_once(self, life: Life) -> None:
        """However much they overlap."""
        sent = fill(life, turns=30)
        filters = ("m/7/v", "m/+/v", "other/#")
        assert told(life.everything(*filters)) == wanted(sent, *filters)

    def test_a_selective_reader_reads_little_more_than_it_needs(self, life: Life) -> None:
        """One topic of a thousand costs a small part of the bytes, and one that never was costs next to nothing."""
        for turn in range(600):
            for number in range(20):
                life.append(f"m/{(turn * 20 + number) % 1000}/v", text="x" * 100)
            life.commit()
        life = life.next(SETTINGS)
        runs = life.everything("m/77/v")
        needed = sum(len(run.run.wire) for run in runs)
        assert len(runs) == 12
        assert life.log.figures.bytes_read < 5 * needed
        before = life.log.figures.bytes_read
        assert life.everything("elsewhere/77/v") == []
        assert life.log.figures.bytes_read == before

    def test_a_topic_moves_when_its_structure_is_learned(self, life: Life) -> None:
        """Its messages are found in both streams."""
        sent = [life.append(f"m/{number}/v") for number in (*range(40), 0)]
        life.commit()
        structures = {stream.id: stream.structure for stream in life.streams()}
        assert [structures[run.reference.stream] for run in (sent[0], sent[-1])] == ["m/0/v", "m/+/v"]
        assert told(life.everything("m/0/v")) == told([sent[0], sent[-1]])

    def test_too_many_streams_share_one(self, tmp_path: Path) -> None:
        """Reading is slower then, and just as right."""
        pump = self.pump()
        grid = self.make(tmp_path / "grid", pump)
        pump.run(grid.open())
        settings = LogSettings(max_streams=10, shards=2)
        life = Life(grid, pump, settings)
        sent = fill(life, turns=20)
        assert len(life.streams()) <= 12
        for _ in range(2):
            for filter in FILTERS:
                assert told(life.everything(filter)) == wanted(sent, filter)
            life = life.next(settings)
        pump.run(grid.close())

    # Amounts.

    def test_a_read_stops_at_about_the_asked_amount(self, life: Life) -> None:
        """By messages or bytes, whichever comes first, but with at least one run."""
        for _ in range(5):
            for _ in range(10):
                life.append("a/b", count=2, text="x" * 100)
            life.commit()
        assert sum(run.run.count for run in life.read("a/b", messages=7).runs) == 8
        assert len(life.read("a/b", budget=1).runs) == 1
        assert len(life.read("a/b", budget=700).runs) == 4
        reading = life.read("a/b", messages=100)
        assert (len(reading.runs), reading.at_end) == (50, True)

    def test_a_reader_may_begin_inside_of_a_run(self, life: Life) -> None:
        """It gets the rest of it, in memory and from the grid."""
        run = life.append("a/b", count=5)
        for _ in range(2):
            [rest] = life.read("a/b", position=run.position + 3).runs
            assert told([rest]) == told([run])[3:]
            assert (rest.position, rest.end) == (run.position + 3, run.end)
            life.commit()

    # The end.

    def test_what_is_not_committed_is_read_too(self, life: Life) -> None:
        """What gathers, and what is under way."""
        life.append("a/b", text="1")
        life.commit()
        life.between.holding = True
        life.append("a/b", text="2")
        life.store.flush()
        life.append("a/b", text="3")
        for _ in range(2):
            reading = life.read("a/b")
            assert [payload for _, payload in told(reading.runs)] == [b"1", b"2", b"3"]
            assert (reading.at_end, reading.position) == (True, life.log.end)
            life.between.release()
            life.commit()

    def test_a_reader_at_the_end_needs_no_grid(self, life: Life) -> None:
        """And goes on with what comes."""
        fill(life, turns=300)
        position = life.read("m/7/v").position
        before = life.log.figures.bytes_read
        assert life.read("m/7/v", position=position) == ([], life.log.end, True)
        other = life.append("m/8/v")
        mine = life.append("m/7/v")
        reading = life.read("m/7/v", position=position)
        assert told(reading.runs) == told([mine])
        assert reading.at_end
        assert reading.position >= mine.end > other.end
        assert life.log.figures.bytes_read == before

    def test_readers_and_the_writer_at_once(self, life: Life, course: int) -> None:
        """Reads of any size between appends, commits that take their time, and lives: nobody misses or repeats."""
        rng = random.Random(course)
        sent: list[Told] = []
        asked = [[filter] for filter in FILTERS] + [["m/#", "other/1/w"]]
        readers: list[tuple[list[str], int, list[Told]]] = [(filters, 0, []) for filters in asked]
        for _ in range(700):
            for _ in range(rng.randrange(4)):
                topic = rng.choice(["m/{}/v", "other/{}/w", "m/{}/v/deep", "$SYS/{}"]).format(rng.randrange(25))
                run = life.append(topic, f"p{rng.randrange(5)}", rng.randrange(1, 4))
                sent += told([run])
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
                life = life.next(LogSettings(shards=rng.randrange(1, 6)))
                life.numbers = len(sent)
            index = rng.randrange(len(readers))
            filters, position, got = readers[index]
            reading = life.read(*filters, position=position, messages=rng.choice([1, 3, 1000]))
            got += told(reading.runs)
            if reading.at_end:
                assert got == wanted(sent, *filters)
            readers[index] = filters, reading.position, got
        for filters, position, got in readers:
            got += told(life.everything(*filters, position=position))
            assert got == wanted(sent, *filters)

    def test_reads_that_take_their_time(self, life: Life, course: int) -> None:
        """Several at once, with appends and commits between a question and its answer."""
        rng = random.Random(course)
        sent: list[Told] = []
        got: dict[str, list[Told]] = {filter: [] for filter in FILTERS}
        positions = dict.fromkeys(FILTERS, 0)
        under_way: dict[str, Deferred[Reading]] = {}
        reads: list[Deferred[None]] = []
        life.between.reads = reads
        for _ in range(1500):
            for _ in range(rng.randrange(3)):
                topic = rng.choice(["m/{}/v", "other/{}/w", "$SYS/{}"]).format(rng.randrange(9))
                sent += told([life.append(topic, f"p{rng.randrange(5)}", rng.randrange(1, 4))])
            if rng.random() < 0.5:
                life.store.flush()
            if rng.random() < 0.3:
                life.between.holding = not life.between.holding
                if not life.between.holding:
                    life.between.release()
            filter = rng.choice(FILTERS)
            if filter not in under_way:
                coroutine = life.log.read([filter], positions[filter], rng.choice([1, 5, 1000]), 1 << 30)
                under_way[filter] = life.pump.start(coroutine)
            if reads and rng.random() < 0.7:
                reads.pop(rng.randrange(len(reads))).callback(None)
            for filter in [filter for filter, read in under_way.items() if read.called]:
                reading = life.pump.run(_result(under_way.pop(filter)))
                got[filter] += told(reading.runs)
                positions[filter] = reading.position
        life.between.reads = None
        life.between.release()
        for read in reads:
            read.callback(None)
        for filter in FILTERS:
            if filter in under_way:
                reading = life.pump.run(_result(under_way[filter]))
                got[filter] += told(reading.runs)
                positions[filter] = reading.position
            got[filter] += told(life.everything(filter, position=positions[filter]))
            assert got[filter] == wanted(sent, filter)

    # Fetching.

    def test_references_fetch_their_messages(self, life: Life) -> None:
        """In the order asked for, whole and in part, committed or not."""
        runs = [life.append(f"m/{number % 3}/v", f"p{number % 4}", 4) for number in range(10)]
        for _ in range(2):
            asked = [runs[7].reference, runs[2].reference.part(1, 3), runs[7].reference, runs[0].reference.part(3, 4)]
            found = [run for run in life.fetch(*asked) if run is not None]
            assert [run.reference for run in found] == asked
            assert [told([run]) for run in found] == [
                told([runs[7]]),
                told([runs[2]])[1:3],
                told([runs[7]]),
                told([runs[0]])[3:],
            ]
            life.commit()
        life = life.next(SETTINGS)
        assert told([run for run in life.fetch(runs[3].reference) if run is not None]) == told([runs[3]])

    def test_what_is_not_there_is_none(self, life: Life) -> None:
        """An unknown generation, stream or turn."""
        generation, stream, position, length = life.append("a/b").reference
        life.commit()
        assert life.fetch(
            Reference(generation + 1, stream, position, length),
            Reference(generation, stream + 1, position, length),
            Reference(generation, stream, position + 1, length),
            Reference(generation, stream, position, length),
        )[:3] == [None, None, None]
        assert life.fetch() == []

    # Tools.

    @pytest.mark.parametrize("turns", [20, 700])
    def test_a_time_has_a_position(self, life: Life, turns: int) -> None:
        """Everything behind it arrived at that time or later, and nothing before it did."""
        start = life.clock.now
        runs: list[LogRun] = []
        for turn in range(turns):
            life.clock.now = start + turn
            runs += [life.append(f"m/{turn % 9}/v", f"p{turn % 5}", text=str(turn)) for _ in range(2)]
            life.commit()
        for _ in range(2):
            for wall in (0, start, start + 0.5, start + turns // 3, start + turns - 1.5, start + turns - 1):
                expected = next(run.position for run in runs if run.arrived >= wall)
                assert life.pump.run(life.log.position_at(wall)) == expected
            assert life.pump.run(life.log.position_at(start + turns)) == life.log.end
            life = life.next(SETTINGS)

    def test_a_scan_finds_everything(self, life: Life) -> None:
        """Of all generations or of one, from a position on."""
        life = life.next(LogSettings(generation_seconds=100))
        sent = fill(life, turns=30)
        life.clock.now += 101
        later = life.append("a/b")
        old, new = life.log.generations()
        assert sorted(told(life.list(life.log.scan()))) == sorted(sent + told([later]))
        assert sorted(told(life.list(life.log.scan(old.id)))) == sorted(sent)
        assert told(life.list(life.log.scan(new.id))) == told([later])
        assert told(life.list(life.log.scan(position=later.position))) == told([later])

    def test_figures_count(self, life: Life) -> None:
        """Messages, pages and bytes, of the log, its generations and its streams alike."""
        sent = fill(life, turns=30)
        figures, [generation] = life.log.figures, life.log.generations()
        streams = life.streams()
        assert figures.messages_appended == generation.messages == len(sent)
        assert figures.messages_appended == sum(stream.messages for stream in streams)
        assert figures.pages_written == sum(stream.pages for stream in streams)
        assert figures.bytes_appended == generation.bytes == sum(stream.bytes for stream in streams) == life.log.size
        assert (generation.first, generation.streams) == (life.read("#").runs[0].position, len(streams))
        pages = life.pump.run(life.between.page(CacheName.LOG, limit=10_000))
        assert (len(pages), sum(len(page) for _, page in pages)) == (figures.pages_written, figures.bytes_appended)


async def _result(read: Deferred[Reading]) -> Reading:
    return await read
