"""The commit log: its segments, what a start makes of them, and a crash anywhere in between."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid import commit_log
from iot_mqtt.grid.commit_log import LARGE, STEP, CommitLog, pending, segments
from iot_mqtt.grid.commit_record import decode, encode, records
from iot_mqtt.grid.engine import APPLIED, UNWRITTEN, Engine
from iot_mqtt.grid.faults import Damaged, OpenFault
from iot_mqtt.native import write_at
from iot_mqtt.whole_files import sync_directory
from tests.contract.logfile import logs, snapshot, used, written
from tests.unit.grid.enginekit import engine

PAGE = 4096


def fill(log: CommitLog, first: int, last: int, size: int = 100) -> None:
    for lsn in range(first, last + 1):
        log.append(encode(log.salt, lsn, {b"%03d" % lsn: b"v" * size}, []), sync=True)


def found(directory: Path, applied: int = 0) -> list[int]:
    return [record.lsn for record in pending(directory, applied).records]


@pytest.fixture
def log(tmp_path: Path) -> CommitLog:
    subject = CommitLog(tmp_path)
    subject.restart(1)
    return subject


# Records.


@pytest.mark.parametrize(
    ("changes", "prefixes"),
    [
        ({}, []),
        ({b"k": b"v"}, []),
        ({b"k": None, b"l": b"", b"": b"x"}, []),
        ({}, [b"p", b""]),
        ({b"%d" % number: None if number % 3 else bytes(number) for number in range(500)}, [b"a", b"bc"]),
    ],
)
def test_a_batch_is_read_as_it_was_written(changes: dict[bytes, bytes | None], prefixes: list[bytes]) -> None:
    """Removals, empty keys and values; the changes in their order."""
    (record,) = records(encode(b"saltsalt", 7, changes, prefixes) + bytes(100), b"saltsalt")
    again = decode(record.body)
    assert record.lsn == 7
    assert again == (changes, prefixes)
    assert list(again[0]) == list(changes)


def test_records_behind_what_tables_have_are_found(log: CommitLog, tmp_path: Path) -> None:
    """Over several segments; and nothing where there is none."""
    assert found(tmp_path) == []
    fill(log, 1, 5)
    log.begin(6)
    fill(log, 6, 9)
    log.begin(10)
    assert found(tmp_path) == list(range(1, 10))
    assert found(tmp_path, 3) == list(range(4, 10))
    assert found(tmp_path, 7) == [8, 9]
    assert found(tmp_path, 9) == []
    assert found(tmp_path / "never") == []


def test_a_log_cut_anywhere_in_its_last_record_has_the_others(log: CommitLog, tmp_path: Path) -> None:
    """Whatever stands in the place of the rest."""
    fill(log, 1, 5, 50)
    (path,) = logs(tmp_path)
    data, last = path.read_bytes(), written(path)[-1]
    dice = Random(5)
    for cut in range(last.start, last.end):
        for rest in (b"", bytes(len(data) - cut), dice.randbytes(last.end - cut) + data[last.end :]):
            path.write_bytes(data[:cut] + rest)
            assert found(tmp_path) == [1, 2, 3, 4]


def test_a_bit_anywhere_in_front_of_the_last_record_is_noticed(log: CommitLog, tmp_path: Path) -> None:
    """Unless tables have what it belongs to."""
    fill(log, 1, 5, 50)
    (path,) = logs(tmp_path)
    data, whole = path.read_bytes(), written(path)
    for spot in range(whole[3].end):
        damaged = bytearray(data)
        damaged[spot] ^= 1 << spot % 8
        path.write_bytes(damaged)
        with pytest.raises(Damaged, match="acknowledged batches follow"):
            pending(tmp_path, 0)
        hit = next(record.lsn for record in whole if spot < record.end)
        assert found(tmp_path, hit) == list(range(hit + 1, 6))


def test_a_missing_end_or_segment_is_noticed_by_the_next(log: CommitLog, tmp_path: Path) -> None:
    """A segment is begun only after the one before it was synced."""
    fill(log, 1, 3)
    log.begin(4)
    fill(log, 4, 6)
    log.begin(7)
    first, second, _ = logs(tmp_path)
    whole = second.read_bytes()
    second.write_bytes(whole[: used(second) - 1])
    with pytest.raises(Damaged, match="batch 6 is missing"):
        pending(tmp_path, 0)
    second.unlink()
    with pytest.raises(Damaged, match="batch 4 is missing"):
        pending(tmp_path, 2)
    assert found(tmp_path, 6) == []
    second.write_bytes(whole)
    first.unlink()
    with pytest.raises(Damaged, match="batch 1 is missing"):
        pending(tmp_path, 0)


# Room.


def test_zeros_go_ahead_of_records(log: CommitLog, tmp_path: Path) -> None:
    """Once for as many as fit into them, so that a sync need not sync a longer file."""
    (path,) = logs(tmp_path)
    sizes = set()
    for lsn in range(1, 400):
        fill(log, lsn, lsn, 2000)
        sizes.add(path.stat().st_size)
    assert sizes == {STEP, 2 * STEP}
    assert not any(path.read_bytes()[used(path) :])


def test_a_large_record_gets_no_zeros(log: CommitLog, tmp_path: Path) -> None:
    """They would cost as much as they save."""
    (path,) = logs(tmp_path)
    fill(log, 1, 1, LARGE)
    assert path.stat().st_size == used(path)


def test_a_disk_without_room_for_zeros_takes_records_all_the_same(
    log: CommitLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it takes them."""
    pwrite = os.pwrite

    def full(file: int, data: bytes, offset: int) -> int:
        if len(data) == STEP:
            raise OSError("no space left on device")
        return pwrite(file, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    fill(log, 1, 3)
    assert found(tmp_path) == [1, 2, 3]


def test_half_a_record_is_a_failure_and_nothing_follows_it(
    log: CommitLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full takes as much as it can."""
    fill(log, 1, 3)
    with monkeypatch.context() as failing:
        failing.setattr(
            commit_log, "write_at", lambda file, data, at, sync: write_at(file, data[:50], at, sync) or errno.ENOSPC
        )
        with pytest.raises(OSError, match="No space"):
            fill(log, 4, 4)
    assert log.failed
    assert found(tmp_path) == [1, 2, 3]


# Segments that are not needed any more.


def test_a_segment_is_kept_until_its_memory_table_is_in_tables(log: CommitLog, tmp_path: Path) -> None:
    """Those tables follow each other; so what has n of them unwritten may need the n last seals, and no more."""

    def kept() -> list[int]:
        return [segment.first for segment in segments(tmp_path)]

    for number in range(1, 6):
        fill(log, 10 * number - 9, 10 * number)
        log.begin(10 * number + 1)
        log.seal()
    log.release(5)
    assert kept() == [1, 11, 21, 31, 41, 51]
    log.release(3)
    assert kept() == [21, 31, 41, 51]
    log.begin(52)
    log.release(0)
    # That one was not sealed: its memory table is open still.
    assert kept() == [51, 52]
    log.restart(53)
    assert kept() == [53]


def test_of_two_segments_with_one_number_neither_has_a_record(
    log: CommitLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start may find one that never took a record. It is gone for certain before the next one takes any."""
    seen: list[int] = []
    monkeypatch.setattr(commit_log, "sync_directory", lambda directory: seen.append(len(logs(directory))))
    CommitLog(tmp_path).restart(1)
    assert seen == [2, 1]


# With an engine in front.


def entries(directory: Path) -> list[bytes]:
    subject = engine(directory)
    subject.open()
    found = [key for key, _ in subject.page(b"\x07", b"\x07", 10_000, 1)]
    subject.close()
    return found


def put(subject: Engine, number: int, size: int = 1000) -> None:
    subject.write({b"\x07%05d" % number: Random(number).randbytes(size)})


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment has room for 50 batches or so."""
    monkeypatch.setattr(commit_log, "SEGMENT", 50_000)


class Crashes:
    """Copies of a directory before and behind each call that changes it, with what was acknowledged by then."""

    def __init__(self, live: Path, copies: Path) -> None:
        self._live = live
        self._copies = copies
        self.steps: list[tuple[str, Path, int]] = []
        self.acknowledged = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as watching:
            watching.setattr(commit_log, "write_at", self._around("write", write_at))
            watching.setattr(os, "open", self._around("open", os.open))
            watching.setattr(Path, "unlink", self._around("unlink", Path.unlink))
            watching.setattr(commit_log, "sync_directory", self._around("directory", sync_directory))
            watching.setattr(Engine, "_settle", self._around("settle", Engine._settle))
            yield

    def _around(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def wrapper(*arguments: object, **more: object) -> object:
            self._keep(f"before {name}")
            result = call(*arguments, **more)
            self._keep(f"behind {name}")
            return result

        return wrapper

    def _keep(self, step: str) -> None:
        self.steps.append((step, self._copies / f"{len(self.steps)}", self.acknowledged))
        snapshot(self._live, self.steps[-1][1])

    def check(self) -> None:
        for step, copy, count in self.steps:
            kept = entries(copy)
            # The batch that was on its way may be there, whole.
            assert len(kept) in (count, count + 1), step
            assert kept == [b"%05d" % number for number in range(len(kept))], step


@pytest.mark.usefixtures("small")
def test_a_crash_at_any_step_of_beginning_a_segment_loses_nothing(tmp_path: Path) -> None:
    """Before and behind each call that changes the disk."""
    subject, crashes = engine(tmp_path / "live"), Crashes(tmp_path / "live", tmp_path)
    subject.open()
    rotations = 0
    for number in range(260):
        with crashes.watched() if subject._log.full else nullcontext():
            rotations += subject._log.full
            put(subject, number)
        crashes.acknowledged = number + 1
    subject.close()
    assert rotations == 5
    assert {"behind open", "before directory", "behind write"} <= {step for step, _, _ in crashes.steps}
    crashes.check()


@pytest.mark.usefixtures("small")
def test_a_crash_at_any_step_of_a_start_loses_nothing(tmp_path: Path) -> None:
    """In an empty directory, in one whose process was killed, and in one that was being started when it was."""
    live, killed = tmp_path / "live", tmp_path / "killed"
    for life in range(3):
        crashes = Crashes(live, tmp_path / f"{life}")
        (tmp_path / f"{life}").mkdir()
        crashes.acknowledged = 30 * life
        with crashes.watched():
            subject = engine(live)
            subject.open()
        crashes.check()
        for number in range(30 * life, 30 * life + 30):
            put(subject, number)
        snapshot(live, killed)
        subject.close()
        shutil.rmtree(live)
        killed.rename(live)
        assert {"behind open", "behind settle", "behind directory"} <= {step for step, _, _ in crashes.steps}
    assert len(entries(live)) == 90


@pytest.mark.usefixtures("small")
def test_what_is_begun_stands_in_the_file_that_is_synced(tmp_path: Path) -> None:
    """Always, over many segments, though the directory's time stands still, as on file systems with coarse ones."""
    subject = engine(tmp_path)
    subject.open()
    begun = 0
    for number in range(1000):
        os.utime(tmp_path, ns=(10**18, 10**18))
        value = b"<%d>" % number
        file = subject.begin({b"\x07%05d" % number: value * 200})
        if file is None:
            subject.write({b"\x07%05d" % number: value * 200})
            continue
        begun += 1
        os.fdatasync(file)
        newest = logs(tmp_path)[-1]
        assert os.fstat(file).st_ino == newest.stat().st_ino
        assert value * 200 in newest.read_bytes()
    assert 950 < begun < 1000
    subject.close()


@pytest.mark.usefixtures("small")
def test_two_files_are_all_there_is_while_rocksdb_keeps_up(tmp_path: Path) -> None:
    """And a clean end leaves none: everything is in tables."""
    subject = engine(tmp_path)
    subject.open()
    for number in range(1500):
        put(subject, number)
        if number % 50 == 49:
            subject._ready().flush(True)
        assert len(logs(tmp_path)) <= 2
    subject.close()
    assert logs(tmp_path) == []
    assert len(entries(tmp_path)) == 1500


@pytest.mark.usefixtures("small")
def test_segments_stay_while_memory_tables_are_not_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever RocksDB says, or does not: nothing is removed without a proof."""
    live, copy = tmp_path / "live", tmp_path / "copy"
    subject = engine(live)
    subject.open()

    class Refusing:
        """Takes everything and writes nothing out."""

        def __init__(self, database: object) -> None:
            self._database = database

        def __getattr__(self, name: str) -> object:
            return getattr(self._database, name)

        def flush(self, wait: bool) -> None:
            raise Exception("Result incomplete: TryAgain")

    monkeypatch.setattr(subject, "_database", Refusing(subject._ready()))
    for number in range(300):
        put(subject, number)
    assert len(logs(live)) >= 6
    snapshot(live, copy)
    assert subject._ready().property_int_value(UNWRITTEN) == 0
    monkeypatch.undo()
    assert len(entries(copy)) == 300
    subject.close()


@pytest.mark.usefixtures("small")
def test_a_batch_that_tables_have_and_the_log_has_not_stays_whole(tmp_path: Path) -> None:
    """A memory table may be written out before the sync of its last batch is back. What the log has of earlier batches
    is not put over it.
    """
    live, copy = tmp_path / "live", tmp_path / "copy"
    subject = engine(live)
    subject.open()
    subject.write({b"\x07a": b"1", b"\x07b": b"1"})
    before = logs(live)[0].read_bytes()
    subject.write({b"\x07a": b"2", b"\x07b": b"2"})
    subject._ready().flush(True)
    snapshot(live, copy)
    subject.close()
    (path,) = logs(copy)
    path.write_bytes(before)
    subject = engine(copy)
    subject.open()
    assert subject.get_many([b"\x07a", b"\x07b"]) == [b"2", b"2"]
    assert subject.get(APPLIED) == (2).to_bytes(8)
    subject.write({b"\x07a": b"3"})
    assert found(copy, 2) == [3]
    subject.close()


def test_a_replay_that_is_cut_short_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the log goes before all of it is in tables; removals and prefixes come out the same."""
    live, copy = tmp_path / "live", tmp_path / "copy"
    subject = engine(live)
    subject.open()
    for number in range(100):
        put(subject, number)
    subject.write({}, [b"\x0700"])
    put(subject, 3)
    subject.write({b"\x07%05d" % 3: None, b"\x07%05d" % 4: b""})
    snapshot(live, copy)
    subject.close()
    subject = engine(copy)
    with monkeypatch.context() as failing:
        failing.setattr(Engine, "_count", lambda *_: 1)
        with pytest.raises(OpenFault, match="could not be written out"):
            subject.open()
    assert logs(copy)
    assert entries(copy) == [b"%05d" % 4]


def test_commits_of_all_sizes_stay_whole_over_several_segments(tmp_path: Path) -> None:
    """Smaller and larger than a step, from one memory table to the next."""
    live, copy = tmp_path / "live", tmp_path / "copy"
    dice = Random(7)
    sizes = [dice.choice((10, 1000, LARGE - 100, LARGE, STEP, 3 * STEP)) for _ in range(150)]
    subject = engine(live)
    subject.open()
    first = logs(live)[0]
    for number, size in enumerate(sizes):
        subject.write({b"\x07%03d" % number: dice.randbytes(8) * (size // 8)})
    snapshot(live, copy)
    assert first not in logs(live)
    kept = subject.page(b"\x07", b"\x07", 1000, 1)
    subject.close()
    again = engine(copy)
    again.open()
    assert again.page(b"\x07", b"\x07", 1000, 1) == kept
    assert [len(value) for _, value in kept] == [size // 8 * 8 for size in sizes]
    again.close()


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, range]:
    """Files after ten commits, and the offsets of the pages that an eleventh one of 60 kB has touched first."""
    live, copy = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("torn") / "grid"
    subject = engine(live)
    subject.open()
    for number in range(10):
        put(subject, number, 100)
    before = logs(live)[0].read_bytes()
    put(subject, 10, 60_000)
    after = logs(live)[0].read_bytes()
    snapshot(live, copy)
    subject.close()
    changed = [at for at in range(0, len(after), PAGE) if after[at : at + PAGE] != before[at : at + PAGE]]
    # The first has commits in it that were synced before.
    return copy, range(changed[1], changed[-1] + PAGE, PAGE)


def test_any_page_may_be_missing_from_the_last_commit(torn: tuple[Path, range], tmp_path: Path) -> None:
    """In a file that is long enough, the disk may write the pages of an unfinished sync in any order."""
    killed, pages = torn
    assert len(pages) >= 13
    for at in pages:
        copy = tmp_path / str(at)
        shutil.copytree(killed, copy)
        with logs(copy)[0].open("r+b") as file:
            file.seek(at)
            file.write(bytes(PAGE))
        subject = engine(copy)
        subject.open()
        assert len(subject.page(b"\x07", b"\x07", 100, 1)) == 10
        put(subject, 10)
        subject.close()
        assert len(entries(copy)) == 11


def test_a_segment_that_cannot_be_begun_is_a_failed_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And opening anew gets over it."""
    monkeypatch.setattr(commit_log, "SEGMENT", 50_000)
    subject = engine(tmp_path)
    subject.open()
    number = 0
    while not subject._log.full:
        put(subject, number)
        number += 1

    def failing(_: Path) -> None:
        raise OSError("Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(commit_log, "sync_directory", failing)
        with pytest.raises(Unavailable, match="Input/output"):
            put(subject, number)
    with pytest.raises(Unavailable):
        put(subject, number)
    subject.close()
    subject.open()
    put(subject, number)
    subject.close()
    assert len(entries(tmp_path)) == number + 1
