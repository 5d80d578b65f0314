"""The engine over real files: what RocksDB alone would not notice, and what it would hide."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from rocksdict import Options, Rdict

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid import engine as module
from iot_mqtt.grid.commit_record import Record, encode
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.engine_options import WRITE_BUFFER_BYTES
from iot_mqtt.grid.faults import Damaged
from iot_mqtt.grid.log.keys import page_key, stream_pages
from iot_mqtt.ports.log import WRITER_SHIFT
from tests.contract.logfile import logs, written
from tests.unit.grid.enginekit import engine, left_by_a_kill

BATCHES = 20


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files as a killed process leaves them: everything in one segment."""
    live, copy = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("killed") / "grid"
    return left_by_a_kill(live, copy, [b"v" * 100] * BATCHES)


DAMAGE: dict[str, Callable[[bytearray, Record], None]] = {
    "longer": lambda log, record: log.__setitem__(record.start + 18, 0x7F),
    "shorter": lambda log, record: log.__setitem__(record.start + 16, 3),
    "numbered otherwise": lambda log, record: log.__setitem__(record.start + 8, 0x7F),
    "of another segment": lambda log, record: log.__setitem__(record.start, log[record.start] ^ 1),
    "other content": lambda log, record: log.__setitem__(record.end - 1, log[record.end - 1] ^ 1),
    "zeroed": lambda log, record: log.__setitem__(slice(record.start, record.end), bytes(record.end - record.start)),
}


def open_spoilt(killed: Path, directory: Path, how: str, number: int) -> Engine:
    copy = directory / "grid"
    shutil.copytree(killed, copy)
    (path,) = logs(copy)
    log = bytearray(path.read_bytes())
    DAMAGE[how](log, written(path)[number])
    path.write_bytes(log)
    subject = engine(copy)
    subject.open()
    return subject


def keys(subject: Engine) -> list[bytes]:
    return [key for key, _ in subject.page(b"\x07", b"\x07", 1000, 1)]


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("number", [0, 1, BATCHES // 2, BATCHES - 2])
def test_damage_in_front_of_a_whole_record_is_reported(killed: Path, tmp_path: Path, how: str, number: int) -> None:
    """What follows was written after it had been acknowledged."""
    with pytest.raises(Damaged, match=r"commits-0+1-\w+ at byte \d+ is damaged and acknowledged batches follow it"):
        open_spoilt(killed, tmp_path, how, number)


@pytest.mark.parametrize("how", DAMAGE)
def test_damage_to_the_last_record_costs_that_batch(killed: Path, tmp_path: Path, how: str) -> None:
    """Nothing shows that it was ever acknowledged."""
    subject = open_spoilt(killed, tmp_path, how, BATCHES - 1)
    assert keys(subject) == [b"%03d" % number for number in range(BATCHES - 1)]
    subject.close()


def test_a_segment_whose_entries_are_in_tables_hides_nothing(killed: Path, tmp_path: Path) -> None:
    """A crash may bring an old one back that had been removed; it is damaged, and nobody needs it."""
    copy = tmp_path / "grid"
    shutil.copytree(killed, copy)
    (old,) = logs(copy)
    torn = bytearray(old.read_bytes())
    DAMAGE["zeroed"](torn, written(old)[5])
    subject = engine(copy)
    subject.open()
    for number in range(BATCHES, 2 * BATCHES):
        subject.write({b"\x07%03d" % number: b"v" * 100})
    crashed = tmp_path / "crashed"
    shutil.copytree(copy, crashed)
    subject.close()
    assert not old.exists()
    (crashed / old.name).write_bytes(torn)
    subject = engine(crashed)
    subject.open()
    assert len(keys(subject)) == 2 * BATCHES
    subject.close()


def test_a_record_that_a_client_has_sent_is_none(tmp_path: Path) -> None:
    """A payload that looks like a record of the segment, behind a torn place: it has not the segment's salt."""
    live, copy = tmp_path / "live", tmp_path / "copy"
    subject = engine(live)
    subject.open()
    forged = encode(b"guessed!", 3, {b"\x07forged": b""}, [])
    subject.write({b"\x07000": b"v"})
    subject.write({b"\x07001": bytes(5000) + forged})
    shutil.copytree(live, copy)
    subject.close()
    (path,) = logs(copy)
    log = bytearray(path.read_bytes())
    DAMAGE["numbered otherwise"](log, written(path)[1])
    path.write_bytes(log)
    subject = engine(copy)
    subject.open()
    assert keys(subject) == [b"000"]
    subject.close()


# Directories of versions that left the log to RocksDB.


def earlier(directory: Path, *, closed: bool, room: int = 0) -> Path:
    """As format 1 had it: 100 batches in RocksDB's own log, or in tables; and zeros behind the log."""
    live = directory / "live"
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    database = Rdict(str(live), options, {"default": options})
    database.put(b"\x01format", b"IMQG\x00\x01\x00\x00")
    for number in range(100):
        database.put(b"\x07%03d" % number, b"v" * 100)
    database.delete(b"\x07050")
    database.flush_wal(True)
    killed = directory / "grid"
    if not closed:
        shutil.copytree(live, killed)
    database.close()
    if closed:
        shutil.copytree(live, killed)
    newest = max(killed.glob("*.log"))
    assert closed == (not newest.stat().st_size)
    if room:
        newest.write_bytes(newest.read_bytes() + bytes(room))
    return killed


@pytest.mark.parametrize(("closed", "room"), [(True, 0), (False, 0), (False, 5000), (False, 600_000)])
def test_a_directory_of_an_earlier_version_is_read(tmp_path: Path, closed: bool, room: int) -> None:
    """Whether it was closed or killed; and once more when it was killed right after that."""
    directory = earlier(tmp_path, closed=closed, room=room)
    expected = [b"%03d" % number for number in range(100) if number != 50]
    subject = engine(directory)
    subject.open()
    assert keys(subject) == expected
    killed = tmp_path / "killed"
    shutil.copytree(directory, killed)
    subject.write({b"\x07100": b"later"})
    subject.close()
    for again, more in ((killed, []), (directory, [b"100"])):
        subject = engine(again)
        subject.open()
        assert keys(subject) == expected + more
        record = subject.get(b"\x01format")
        assert record is not None
        assert record[4:] == b"\x00\x02\x00\x00"
        subject.close()


def test_the_torn_end_of_an_earlier_versions_log_is_dropped(tmp_path: Path) -> None:
    """As it was by that version."""
    directory = earlier(tmp_path, closed=False)
    newest = max(directory.glob("*.log"))
    newest.write_bytes(newest.read_bytes()[:-3])
    subject = engine(directory)
    subject.open()
    assert len(keys(subject)) == 100
    subject.close()


def test_the_name_of_the_directory_is_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And that of the data directory, at every start: who made them may have lost power before they were."""
    synced: list[Path] = []
    monkeypatch.setattr(module, "sync_directory", synced.append)
    for _ in range(2):
        subject = engine(tmp_path / "data" / "grid")
        subject.open()
        subject.close()
    names = [path for path in synced if path != tmp_path / "data" / "grid"]
    assert names == [tmp_path / "data", tmp_path] * 2


def test_files_are_private(tmp_path: Path) -> None:
    """Whatever the umask."""
    before = os.umask(0)
    try:
        subject = engine(tmp_path / "grid")
        subject.open()
    finally:
        os.umask(before)
    assert stat.S_IMODE(subject.directory.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in logs(subject.directory)] == [0o600]
    subject.close()


@pytest.mark.parametrize("read", [lambda e: e.page(b"\x07", b"\x07", 9999, 1), lambda e: e.get(b"\x07100")])
def test_a_damaged_table_is_unavailable_not_empty(tmp_path: Path, read: Callable[[Engine], object]) -> None:
    """A flipped block is an error to whoever reads it, never an early end or an absent key."""
    subject = engine(tmp_path)
    subject.open()
    subject.write({b"\x07%03d" % number: Random(number).randbytes(1000) for number in range(500)})
    subject.close()
    table = max(tmp_path.glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    for offset in range(10_000, len(data) // 2, 200):
        data[offset] ^= 0xFF
    table.write_bytes(data)
    subject.open()
    with pytest.raises(Unavailable, match="cannot read"):
        read(subject)
    subject.close()


def test_a_batch_that_cannot_be_a_record_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before RocksDB has it, so the next batch gets its number."""
    subject = engine(tmp_path)
    subject.open()

    def refuse(*_: object) -> bytes:
        raise MemoryError

    with monkeypatch.context() as failing:
        failing.setattr(module, "encode", refuse)
        with pytest.raises(Unavailable):
            subject.write({b"\x07000": b"v"})
    assert keys(subject) == []
    subject.write({b"\x07001": b"v"})
    (path,) = logs(tmp_path)
    assert [record.lsn for record in written(path)] == [1]
    subject.close()


def test_what_is_appended_to_a_stream_finds_its_place_at_once(tmp_path: Path) -> None:
    """RocksDB took the option that rocksdict has no call for, and still has the others."""
    subject = engine(tmp_path / "grid")
    subject.open()
    subject.close()
    newest = max((tmp_path / "grid").glob("OPTIONS-*"))
    options = dict(line.strip().split("=", 1) for line in newest.read_text().splitlines() if "=" in line)
    key = page_key(1 << WRITER_SHIFT | 2, 3, 4, 5)
    assert stream_pages(1 << WRITER_SHIFT | 2, 3, 4) == key[:12]
    assert options["memtable_insert_with_hint_prefix_extractor"] == f"rocksdb.FixedPrefix.{1 + len(key) - 8}"
    assert options["allow_concurrent_memtable_write"] == "false"
    assert options["write_buffer_size"] == str(WRITE_BUFFER_BYTES)
    assert options["compression"] == "kLZ4Compression"
