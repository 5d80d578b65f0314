"""Small commits: written in the reactor's thread, synced in one that has no use for the interpreter lock."""

from __future__ import annotations

import errno
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from twisted.internet.epollreactor import EPollReactor

from iot_mqtt import native
from iot_mqtt.errors import Unavailable
from iot_mqtt.grid import commit_log, embedded, syncing
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.syncing import Syncing
from iot_mqtt.native import _pure_syncing
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.contract.driving import ReactorPump

CACHE = CacheName.QUEUE


class HeldSyncing(Syncing):
    """Syncs when it is told to, and fails when it is told to."""

    def __init__(self, watch: EPollReactor) -> None:
        super().__init__(watch)
        self.asked = 0
        self.hold = False
        self.result: int | None = None
        self._waiting: Callable[[], None] | None = None

    def sync(self, file: int, then: Callable[[int], None]) -> None:
        self.asked += 1
        told = then if self.result is None else lambda _: then(self.result or 0)
        if self.hold:
            self._waiting = lambda: super(HeldSyncing, self).sync(file, told)
        else:
            super().sync(file, told)

    def release(self) -> None:
        self.hold = False
        assert self._waiting is not None
        self._waiting()


class Counting(Engine):
    """Notes what is written without being synced, and what is written by the grid's thread."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.writers: list[str] = []
        #: So often RocksDB would have to wait; and whether it takes nothing at all.
        self.stalls = 0
        self.broken = False
        #: Whether it does not even begin.
        self.full = False

    def try_write(self, *arguments: object) -> bool:
        self.writers.append(threading.current_thread().name)
        return super().try_write(*arguments)  # type: ignore[arg-type]

    def begin(self, changes: dict[bytes, bytes | None]) -> int | None:
        if self.full:
            raise Unavailable("no space left on device")
        return super().begin(changes)

    def apply(self) -> bool:
        if self.broken:
            raise Unavailable("RocksDB takes nothing")
        if self.stalls:
            self.stalls -= 1
            return False
        return super().apply()


class Rig:
    """A grid with a reactor, and the outcome of every commit."""

    def __init__(self, directory: Path) -> None:
        self.pump = ReactorPump()
        self.now = 0.0
        self.engine, self.syncing = Counting(directory), HeldSyncing(self.pump.reactor)
        self.grid = EmbeddedGrid(
            self.engine, self.pump.cross, retry=(10.0, 40.0), monotonic=lambda: self.now, syncing=self.syncing
        )
        self.done: list[tuple[int, bool]] = []
        self.pump.run(self.grid.open())
        self.commit(0)
        assert self.until(1) == [True]
        self.engine.writers.clear()
        self.syncing.asked = 0

    def commit(self, number: int, size: int = 10) -> None:
        batch = WriteBatch()
        batch.put(CACHE, b"%d" % number, bytes(size))

        def done(error: BaseException | None) -> None:
            assert error is None or isinstance(error, Unavailable)
            self.done.append((number, error is None))

        self.grid.commit_soon(batch, done)

    def until(self, count: int) -> list[bool]:
        """Whether each of the first so many commits succeeded; they are in the order they were made."""
        self.pump.until(lambda: len(self.done) >= count)
        assert [number for number, _ in self.done] == list(range(count))
        return [good for _, good in self.done]

    def keys(self) -> list[int]:
        return sorted(int(key) for key, _ in self.pump.run(self.grid.page(CACHE)))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "grid")
    yield rig
    rig.pump.run(rig.grid.close())


@pytest.fixture(params=["compiled", "pure"])
def serving(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pure":
        monkeypatch.setattr(syncing, "serve", _pure_syncing.serve)
        monkeypatch.setattr(native, "write_at", _pure_syncing.write_at)


@pytest.mark.usefixtures("serving")
def test_a_file_is_synced_and_an_error_is_told(tmp_path: Path) -> None:
    """By its number; and the thread ends with its owner."""
    pump = ReactorPump()
    syncing = Syncing(pump.reactor)
    before = threading.active_count()
    syncing.open()
    results: list[int] = []
    with (tmp_path / "file").open("wb") as file:
        file.write(b"something")
        file.flush()
        syncing.sync(file.fileno(), results.append)
        pump.until(lambda: len(results) == 1)
    reading, writing = os.pipe()
    syncing.sync(reading, results.append)
    pump.until(lambda: len(results) == 2)
    assert results == [0, errno.EINVAL]
    syncing.close()
    pump.until(lambda: threading.active_count() == before)
    os.close(reading)
    os.close(writing)


@pytest.mark.usefixtures("serving")
def test_all_of_it_is_written_or_an_error_is_told(tmp_path: Path) -> None:
    """With the sync or without."""
    with (tmp_path / "file").open("wb") as file:
        assert native.write_at(file.fileno(), b"there", 4, False) == 0
        assert native.write_at(file.fileno(), b"here", 0, True) == 0
        assert native.write_at(file.fileno(), b"", 0, True) == 0
        number = file.fileno()
    assert (tmp_path / "file").read_bytes() == b"herethere"
    assert native.write_at(number, b"closed", 0, True) == errno.EBADF
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with (tmp_path / "file").open("r+b") as file:
            assert native.write_at(file.fileno(), bytes(10), 5, True) == errno.EFBIG
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_small_commit_needs_no_other_thread_but_for_its_sync(rig: Rig) -> None:
    """And is told later all the same, when it is synced."""
    rig.syncing.hold = True
    rig.commit(1)
    assert rig.syncing.asked == 1
    assert rig.engine.writers == []
    for _ in range(3):
        rig.pump.turn()
    assert rig.done == [(0, True)]
    rig.syncing.release()
    assert rig.until(2) == [True, True]
    assert rig.keys() == [0, 1]


def test_what_comes_during_a_sync_is_written_after_it_together(rig: Rig) -> None:
    """One batch in flight: a crash can spoil the last one and no other."""
    rig.syncing.hold = True
    for number in range(1, 50):
        rig.commit(number)
    assert rig.keys() == [0, 1]
    rig.syncing.release()
    assert all(rig.until(50))
    assert rig.engine.writers == ["grid"]
    rig.commit(50)
    assert rig.until(51)[-1]
    assert rig.syncing.asked == 2


def test_what_cannot_be_read_yet_is_not_over(rig: Rig) -> None:
    """RocksDB would have to wait: the thread does, and what came meanwhile is behind it."""
    rig.engine.stalls = 3
    rig.syncing.hold = True
    rig.commit(1)
    rig.commit(2)
    assert rig.keys() == [0]
    rig.syncing.release()
    assert rig.until(3) == [True, True, True]
    assert (rig.engine.stalls, rig.engine.writers, rig.syncing.asked) == (0, ["grid"], 1)
    assert rig.keys() == [0, 1, 2]


def test_closing_waits_for_what_cannot_be_read_yet(rig: Rig) -> None:
    """It was synced, and is told so."""
    rig.engine.stalls = 2
    rig.syncing.hold = True
    rig.commit(1)
    closing = rig.pump.start(rig.grid.close())
    rig.syncing.release()
    rig.pump.until(lambda: bool(closing.called))
    assert rig.done == [(0, True), (1, True)]
    rig.pump.run(rig.grid.open())
    assert rig.keys() == [0, 1]


def test_what_is_in_the_log_alone_has_failed_and_is_whole_or_not_there(rig: Rig) -> None:
    """RocksDB takes nothing more: nobody is told that it is safe, though it was synced."""
    rig.engine.broken = True
    rig.commit(1)
    rig.commit(2)
    assert rig.until(3) == [True, False, False]
    assert not rig.grid.available
    rig.engine.broken = False
    rig.now = 10.0
    rig.commit(3)
    assert rig.until(4)[-1]
    assert rig.keys() in ([0, 3], [0, 1, 3])


def test_a_large_commit_is_left_to_the_thread(rig: Rig) -> None:
    """By its bytes, or by its operations."""
    rig.commit(1, embedded.SMALL_BYTES + 1)
    assert rig.until(2)[-1]
    batch = WriteBatch()
    for number in range(embedded.SMALL_OPERATIONS + 1):
        batch.put(CacheName.DUP, b"%d" % number, b"")
    rig.pump.run(rig.grid.commit(batch))
    assert rig.engine.writers == ["grid", "grid"]
    assert rig.syncing.asked == 0


def test_a_sync_that_fails_fails_its_commit_and_what_came_behind_it(rig: Rig) -> None:
    """And the database is opened anew, as with every failure."""
    rig.syncing.hold, rig.syncing.result = True, errno.EIO
    rig.commit(1)
    rig.commit(2)
    rig.syncing.release()
    assert rig.until(3) == [True, False, False]
    assert not rig.grid.available
    rig.syncing.result = None
    rig.now = 10.0
    rig.commit(3)
    assert rig.until(4)[-1]
    assert rig.grid.available
    rig.commit(4)
    assert rig.until(5)[-1]


def test_a_write_that_fails_is_overtaken_by_nothing(rig: Rig) -> None:
    """What comes before the failure is told fails with it, though the disk would take it."""
    rig.engine.full = True
    rig.commit(1)
    rig.engine.full = False
    rig.commit(2)
    assert rig.until(3) == [True, False, False]
    rig.now = 10.0
    rig.commit(3)
    assert rig.until(4)[-1]
    assert rig.keys() == [0, 3]


def test_closing_waits_for_a_sync(rig: Rig) -> None:
    """Its file is the engine's."""
    rig.syncing.hold = True
    rig.commit(1)
    rig.commit(2)
    closing = rig.pump.start(rig.grid.close())
    for _ in range(3):
        rig.pump.turn()
    assert not closing.called
    rig.syncing.release()
    rig.pump.until(lambda: bool(closing.called))
    assert rig.done == [(0, True), (1, True), (2, True)]


def test_a_grid_that_was_closed_during_a_sync_can_be_opened_again(rig: Rig) -> None:
    """And stays open: that it was closing is over."""
    rig.syncing.hold = True
    rig.commit(1)
    closing = rig.pump.start(rig.grid.close())
    rig.syncing.release()
    rig.pump.until(lambda: bool(closing.called))
    rig.pump.run(rig.grid.open())
    for number in range(2, 6):
        rig.commit(number)
        assert rig.until(number + 1)[-1]
    assert rig.syncing.asked > 1


def test_a_batch_that_is_none_leaves_nobody_waiting(rig: Rig) -> None:
    """It fails where all are written, and the grid goes on afterwards."""
    batch = WriteBatch()
    batch.operations.append((CACHE, "text", b""))  # type: ignore[arg-type]
    rig.grid.commit_soon(batch, lambda error: rig.done.append((1, error is None)))
    assert rig.until(2) == [True, False]
    rig.now = 10.0
    rig.commit(2)
    assert rig.until(3)[-1]


def test_a_segment_is_begun_by_the_thread(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reactor's thread goes on in it: 2.4 MB go through segments of 64 KiB."""
    monkeypatch.setattr(commit_log, "SEGMENT", 1 << 16)
    logs: set[str] = set()
    for number in range(1, 200):
        rig.commit(number, 12_000)
        rig.until(number + 1)
        logs |= {path.name for path in rig.engine.directory.glob("commits-*")}
    begun = len(rig.engine.writers)
    assert begun == len(logs) - 1 > 20
    assert rig.syncing.asked == 199 - begun
    assert rig.keys() == list(range(200))
