"""Group commit, and what becomes of commits when the disk fails."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid import embedded, engine
from iot_mqtt.grid.commit_record import records as records_of
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.tags import TAGS
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.contract import child
from tests.contract.driving import Pump

CACHE = CacheName.QUEUE


class Disk(Engine):
    """An engine that counts its writes and can be held or broken."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.writes: list[int] = []
        self.opens = 0
        self.entered = threading.Semaphore(0)
        self.free = threading.Event()
        self.free.set()
        self.failures = 0
        self.closed_to_openers = False
        self.full = False

    def open(self) -> None:
        self.opens += 1
        if self.closed_to_openers:
            raise OSError("read-only file system")
        super().open()

    def probe(self) -> None:
        if self.full:
            raise OSError("no space left on device")
        super().probe()

    def try_write(self, changes: dict[bytes, bytes | None], prefixes: Sequence[bytes] = ()) -> bool:
        if self.opens:
            self.entered.release()
        assert self.free.wait(30)
        if self.failures:
            self.failures -= 1
            raise Unavailable("no space left on device")
        self.writes.append(len(changes))
        return super().try_write(changes, prefixes)


class Rig:
    """A grid over a ``Disk`` with the outcome of every commit, and a clock turned by hand."""

    def __init__(self, directory: Path, retry: tuple[float, float] = (10.0, 40.0)) -> None:
        self.pump = Pump()
        self.now = 0.0
        self.disk = Disk(directory)
        self.grid = EmbeddedGrid(self.disk, self.pump.cross, retry=retry, monotonic=lambda: self.now)
        self.done: list[tuple[int, BaseException | None]] = []
        self.pump.run(self.grid.open())
        # The format record's.
        self.disk.writes.clear()
        self.disk.entered = threading.Semaphore(0)

    def commit(self, number: int) -> None:
        batch = WriteBatch()
        batch.put(CACHE, b"%d" % number, b"")
        self.grid.commit_soon(batch, lambda error: self.done.append((number, error)))

    def held(self) -> None:
        """Wait until a write has begun, and is being held."""
        assert self.disk.entered.acquire(timeout=30)

    def until(self, count: int) -> list[bool]:
        """Whether each of the first so many commits succeeded; they are in the order they were made."""
        self.pump.until(lambda: len(self.done) >= count)
        assert [number for number, _ in self.done] == list(range(count))
        assert all(error is None or isinstance(error, Unavailable) for _, error in self.done)
        return [error is None for _, error in self.done]

    def keys(self) -> list[int]:
        return sorted(int(key) for key, _ in self.pump.run(self.grid.page(CACHE)))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.disk.free.set()
    rig.disk.closed_to_openers = False
    rig.pump.run(rig.grid.close())


def test_commits_made_during_a_write_share_the_next(rig: Rig) -> None:
    """That is the group commit: two syncs for a hundred commits."""
    rig.disk.free.clear()
    rig.commit(0)
    rig.held()
    for number in range(1, 100):
        rig.commit(number)
    assert rig.done == []
    rig.disk.free.set()
    assert all(rig.until(100))
    assert rig.disk.writes == [1, 99]


def test_a_group_ends_at_its_limit(rig: Rig) -> None:
    """So that no write keeps the interpreter for long."""
    rig.disk.free.clear()
    rig.commit(0)
    rig.held()
    for number in range(1, 5001):
        rig.commit(number)
    rig.disk.free.set()
    assert all(rig.until(5001))
    assert max(rig.disk.writes) <= embedded.TURN_OPERATIONS
    assert sum(rig.disk.writes) == 5001


def test_a_key_written_twice_in_a_group_is_written_once(rig: Rig) -> None:
    """Sent and acknowledged within a turn costs one record."""
    rig.disk.free.clear()
    rig.commit(0)
    rig.held()
    for _ in range(10):
        rig.grid.commit_soon(_put(b"k"), lambda _: None)
    rig.commit(1)
    rig.disk.free.set()
    rig.until(2)
    assert rig.disk.writes == [1, 2]


def test_nothing_is_complete_before_its_write(rig: Rig) -> None:
    """Whatever the reactor does meanwhile."""
    rig.disk.free.clear()
    rig.commit(0)
    rig.held()
    assert rig.pump.calls.empty()
    assert rig.done == []
    rig.disk.free.set()
    assert rig.until(1) == [True]


def test_a_failed_write_fails_its_commits(rig: Rig) -> None:
    """With ``Unavailable``, and the grid not available."""
    rig.disk.failures = 1
    rig.commit(0)
    assert rig.until(1) == [False]
    assert not rig.grid.available


def test_no_commit_overtakes_a_failed_one(tmp_path: Path) -> None:
    """What was committed before the failure was known fails with it, though the disk would take it again."""
    rig = Rig(tmp_path, retry=(0.0, 0.0))
    rig.disk.free.clear()
    rig.disk.failures = 1
    rig.commit(0)
    rig.held()
    rig.commit(1)
    rig.disk.free.set()
    assert rig.until(2) == [False, False]
    assert rig.disk.opens == 2
    rig.commit(2)
    assert rig.until(3) == [False, False, True]
    assert rig.keys() == [2]
    rig.pump.run(rig.grid.close())


def test_commits_fail_at_once_until_it_is_time_to_try_again(rig: Rig) -> None:
    """No opening anew for each of them."""
    rig.disk.failures = 1
    for number in range(5):
        rig.commit(number)
        assert rig.until(number + 1)[-1] is False
    assert rig.disk.opens == 1
    rig.now = 10.0
    rig.commit(5)
    assert rig.until(6)[-1] is True
    assert rig.disk.opens == 2
    assert rig.grid.available


def test_attempts_grow_rarer(rig: Rig) -> None:
    """After 10 seconds, then 20, 40 and 40 more."""
    rig.disk.failures = 1
    rig.disk.closed_to_openers = True
    rig.commit(0)
    rig.until(1)
    attempts = []
    for number in range(1, 140):
        rig.now = float(number)
        before = rig.disk.opens
        rig.commit(number)
        rig.until(number + 1)
        if rig.disk.opens > before:
            attempts.append(number)
    assert attempts == [10, 30, 70, 110]
    rig.disk.closed_to_openers = False
    rig.now = 150.0
    rig.commit(140)
    assert rig.until(141)[-1] is True


def test_what_was_acknowledged_before_a_failure_is_there_after_it(rig: Rig) -> None:
    """Opening anew reads the log back."""
    for number in range(50):
        rig.commit(number)
    rig.until(50)
    rig.disk.failures = 1
    rig.commit(50)
    rig.until(51)
    rig.now = 10.0
    rig.commit(51)
    rig.until(52)
    assert rig.keys() == [*range(50), 51]


def test_reading_goes_on_while_the_disk_is_full(rig: Rig) -> None:
    """And nothing is closed until a new start has the room it needs."""
    rig.commit(0)
    rig.until(1)
    rig.disk.failures = 1
    rig.disk.full = True
    rig.commit(1)
    rig.until(2)
    rig.now = 10.0
    rig.commit(2)
    assert rig.until(3) == [True, False, False]
    assert rig.keys() == [0]
    assert rig.disk.opens == 1
    rig.disk.full = False
    rig.now = 30.0
    rig.commit(3)
    assert rig.until(4)[-1] is True


def test_a_disk_with_less_than_the_grid_needs_to_go_on_has_nothing_free(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes no writes: it is full, though not to the last byte."""
    left = SimpleNamespace(f_bavail=2, f_frsize=4096, f_files=0, f_favail=0)
    monkeypatch.setattr("iot_mqtt.grid.disk.statvfs", lambda _: left)
    rig.commit(0)
    rig.until(1)
    assert rig.grid.disk_use().free == 8192
    rig.disk.failures = 1
    rig.commit(1)
    assert rig.until(2) == [True, False]
    assert rig.grid.disk_use().free == 0
    rig.now = 10.0
    rig.commit(2)
    assert rig.until(3)[-1]
    assert rig.grid.disk_use().free == 8192


def test_reads_of_a_grid_that_could_not_open_again_are_unavailable(rig: Rig) -> None:
    """Never "absent"."""
    rig.commit(0)
    rig.until(1)
    rig.disk.failures = 1
    rig.disk.closed_to_openers = True
    rig.commit(1)
    rig.until(2)
    rig.now = 10.0
    rig.commit(2)
    rig.until(3)
    with pytest.raises(Unavailable):
        rig.pump.run(rig.grid.get(CACHE, b"0"))


def test_a_grid_nobody_commits_to_recovers_by_itself(tmp_path: Path) -> None:
    """And says so."""
    pump = Pump()
    disk = Disk(tmp_path)
    grid = EmbeddedGrid(disk, pump.cross, retry=(0.001, 0.002))
    pump.run(grid.open())
    disk.failures = 1
    with pytest.raises(Unavailable):
        pump.run(grid.commit(_put(b"k")))
    pump.until(lambda: grid.available)
    pump.run(grid.commit(_put(b"k")))
    pump.run(grid.close())


def test_a_mistake_in_a_batch_leaves_nobody_waiting(rig: Rig) -> None:
    """A key that is no bytes fails its group; the grid goes on afterwards."""
    rig.grid.commit_soon(_put("text"), lambda error: rig.done.append((0, error)))  # type: ignore[arg-type]
    assert rig.until(1) == [False]
    rig.now = 10.0
    rig.commit(1)
    assert rig.until(2) == [False, True]


def test_every_cache_has_a_tag_of_its_own() -> None:
    """One byte, and the ones given out so far for ever."""
    assert {cache: TAGS[cache].hex() for cache in CacheName} == {
        "meta": "01",
        "sessions": "02",
        "channels": "03",
        "subscriptions": "04",
        "routes": "05",
        "retained": "06",
        "queue": "07",
        "dup": "08",
        "pubrel": "09",
        "received": "0a",
        "wills": "0b",
        "log": "0c",
        "log_index": "0d",
        "log_meta": "0e",
        "log_turns": "0f",
        "progress": "10",
        "segments": "11",
        "groups": "12",
        "shares": "13",
        "devices": "14",
        "shadows": "15",
        "commands": "16",
        "plugins": "17",
    }


class Database:
    """Stands in for ``Rdict``: notes the calls, stalls a few times."""

    def __init__(self, calls: list[str], stalls: int = 0) -> None:
        self.calls = calls
        self.stalls = stalls

    def write(self, batch: object, options: object) -> None:
        if self.stalls:
            self.stalls -= 1
            raise Exception("Result incomplete: Write stall")
        assert options.disable_wal  # type: ignore[attr-defined]
        self.calls.append(f"write {len(batch)} wait={not options.no_slowdown}")  # type: ignore[attr-defined, arg-type]


class Log:
    """Stands in for ``CommitLog``."""

    def __init__(self, calls: list[str], *, full: bool = False, failure: str | None = None) -> None:
        self.calls = calls
        self.full = full
        self.failure = failure
        self.failed = False
        self.file = 5
        self.salt = b"saltsalt"

    def append(self, record: bytes, *, sync: bool) -> None:
        (found,) = records_of(record, self.salt)
        self.calls.append(f"append {found.lsn}{', sync' if sync else ''}")
        if self.failure is not None:
            self.failed = True
            raise OSError(self.failure)


class EngineRig:
    """An engine over those, its calls, and how long it paused."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, stalls: int = 0, full: bool = False, failure: str | None = None
    ) -> None:
        self.calls: list[str] = []
        self.pauses: list[float] = []
        self.engine = Engine(Path("unused"), pause=self.pauses.append)
        monkeypatch.setattr(self.engine, "_database", Database(self.calls, stalls))
        monkeypatch.setattr(self.engine, "_log", Log(self.calls, full=full, failure=failure))


def test_a_write_is_in_memory_and_in_the_log_and_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this order; with the number of the batch as one more entry."""
    rig = EngineRig(monkeypatch)
    rig.engine.write({b"a": b"1", b"b": None})
    rig.engine.write({b"a": b"2"})
    assert rig.calls == ["write 3 wait=False", "append 1, sync", "write 2 wait=False", "append 2, sync"]
    assert rig.pauses == []


def test_a_stalled_write_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting where it holds nothing up, with the whole batch each time, which has its number only once."""
    rig = EngineRig(monkeypatch, stalls=3)
    rig.engine.write({b"a": b"1"})
    assert rig.pauses == [engine.STALL_PAUSE] * 3
    assert rig.calls == ["write 2 wait=False", "append 1, sync"]


def test_a_stall_without_end_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """After half a minute of waiting."""
    rig = EngineRig(monkeypatch, stalls=1_000_000)
    with pytest.raises(Unavailable, match="too far behind"):
        rig.engine.write({b"a": b"1"})
    assert sum(rig.pauses) == pytest.approx(30.0)


def test_a_failed_sync_is_a_failed_write_and_nothing_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the write itself went well: what stands in the file is not certain."""
    rig = EngineRig(monkeypatch, failure="fdatasync")
    with pytest.raises(Unavailable, match="fdatasync"):
        rig.engine.write({b"a": b"1"})
    with pytest.raises(Unavailable, match="not read again"):
        rig.engine.write({b"a": b"2"})
    assert rig.calls == ["write 2 wait=False", "append 1, sync"]


def test_what_is_begun_is_synced_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is the one that the record stands in; RocksDB has it when there is time."""
    rig = EngineRig(monkeypatch)
    assert rig.engine.begin({b"a": b"1"}) == 5
    assert rig.calls == ["append 1"]
    assert rig.engine.behind
    assert rig.engine.apply()
    assert rig.calls == ["append 1", "write 2 wait=False"]
    assert not rig.engine.behind


def test_what_would_need_another_segment_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may wait does it."""
    rig = EngineRig(monkeypatch, full=True)
    assert rig.engine.begin({b"a": b"1"}) is None
    assert (rig.calls, rig.pauses) == ([], [])


def test_what_is_begun_waits_for_compaction_where_waiting_is_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the log by then, and gets no second record."""
    rig = EngineRig(monkeypatch, stalls=3)
    assert rig.engine.begin({b"a": b"1"}) == 5
    assert not rig.engine.apply()
    assert (rig.engine.behind, rig.pauses) == (True, [])
    rig.engine.follow()
    assert rig.calls == ["append 1", "write 2 wait=False"]
    assert (rig.engine.behind, rig.pauses) == (False, [engine.STALL_PAUSE] * 2)


@pytest.mark.parametrize("begun", [True, False])
def test_nothing_overtakes_what_is_begun(monkeypatch: pytest.MonkeyPatch, *, begun: bool) -> None:
    """Neither on its way to the log nor on its way to RocksDB."""
    rig = EngineRig(monkeypatch, stalls=1)
    rig.engine.begin({b"a": b"1"})
    assert not rig.engine.apply()
    if begun:
        assert rig.engine.begin({b"a": b"2", b"b": b"2"}) == 5
        rig.engine.follow()
        assert rig.calls == ["append 1", "write 2 wait=False", "append 2", "write 3 wait=False"]
    else:
        rig.engine.write({b"a": b"2", b"b": b"2"})
        assert rig.calls == ["append 1", "write 2 wait=False", "write 3 wait=False", "append 2, sync"]


def test_what_is_begun_is_found_by_a_start(tmp_path: Path) -> None:
    """Though RocksDB never got it: a clean end brings it there, and any other end leaves it in the log."""
    for clean in (True, False):
        subject = Engine(tmp_path / f"{clean}", pause=lambda _: None)
        subject.open()
        assert subject.begin({b"\x07a": b"1"}) is not None
        assert subject.get(b"\x07a") is None
        where = tmp_path / f"{clean}"
        if not clean:
            where = tmp_path / "killed"
            shutil.copytree(tmp_path / f"{clean}", where)
        subject.close()
        subject = Engine(where, pause=lambda _: None)
        subject.open()
        assert subject.get(b"\x07a") == b"1"
        subject.close()


def test_a_full_disk_is_told_and_got_over(tmp_path: Path) -> None:
    """In a process whose files stop growing in the middle of a record and then may grow again."""
    assert run("tests.unit.grid.full_disk", tmp_path) == "failed=True recovered=True lost=0"


@pytest.mark.alone
def test_an_idle_grid_is_small_and_starts_fast(tmp_path: Path) -> None:
    """At most 40 MiB with the library itself, and 0.3 seconds with the first commit."""
    seconds, mebibytes = map(float, run("tests.unit.grid.footprint", tmp_path).split())
    assert seconds < 0.3
    assert mebibytes < 40


def run(module: str, directory: Path) -> str:
    command = child.command(module, str(directory))
    return subprocess.run(command, capture_output=True, check=True, text=True, timeout=60).stdout.strip()


def _put(key: bytes) -> WriteBatch:
    batch = WriteBatch()
    batch.operations.append((CACHE, key, b""))
    return batch
