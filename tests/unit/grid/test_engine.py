"""The engine over real files: what RocksDB alone would not notice, and what it would hide."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.faults import Damaged
from tests.contract.logfile import headers

BATCHES = 20


def engine(directory: Path) -> Engine:
    return Engine(directory, lambda seconds: None)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files as a killed process leaves them: everything in one log, within one block, the last of the file."""
    live, copy = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("killed") / "grid"
    subject = engine(live)
    subject.open()
    for number in range(BATCHES):
        subject.write({b"\x07%03d" % number: b"v" * 100})
    shutil.copytree(live, copy)
    subject.close()
    return copy


def log_of(directory: Path) -> Path:
    return max(directory.glob("*.log"))


DAMAGE: dict[str, Callable[[bytearray, int], None]] = {
    "longer": lambda log, spot: log.__setitem__(spot + 5, 0x7F),
    "shorter": lambda log, spot: log.__setitem__(spot + 4, 3),
    "no kind": lambda log, spot: log.__setitem__(spot + 6, 0),
    "zeroed": lambda log, spot: log.__setitem__(slice(spot, spot + 7), bytes(7)),
}


def open_spoilt(killed: Path, directory: Path, how: str, record: int) -> Engine:
    copy = directory / "grid"
    shutil.copytree(killed, copy)
    log = bytearray(log_of(copy).read_bytes())
    DAMAGE[how](log, headers(log)[record])
    log_of(copy).write_bytes(log)
    subject = engine(copy)
    subject.open()
    return subject


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("record", [0, 1, BATCHES // 2, BATCHES - 1])
def test_a_broken_header_in_the_last_block_is_reported(killed: Path, tmp_path: Path, how: str, record: int) -> None:
    """RocksDB takes it for the end of the log, in its strictest mode, too, and starts without what follows."""
    with pytest.raises(Damaged, match=r"is damaged and acknowledged batches follow it|Corruption"):
        open_spoilt(killed, tmp_path, how, record)


@pytest.mark.parametrize("how", DAMAGE)
def test_a_broken_header_of_the_last_batch_costs_that_batch(killed: Path, tmp_path: Path, how: str) -> None:
    """Nothing shows that it was ever acknowledged."""
    subject = open_spoilt(killed, tmp_path, how, BATCHES)
    assert [key for key, _ in subject.page(b"\x07", b"\x07", 100, 1)] == [b"%03d" % n for n in range(BATCHES - 1)]
    subject.close()


def test_a_log_whose_entries_are_in_tables_hides_nothing(killed: Path, tmp_path: Path) -> None:
    """A crash may bring an old log back that had been removed; it is damaged, and nobody needs it."""
    copy = tmp_path / "grid"
    shutil.copytree(killed, copy)
    old = log_of(copy)
    torn = bytearray(old.read_bytes())
    torn[headers(torn)[5] + 5] = 0x7F
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
    assert len(subject.page(b"\x07", b"\x07", 100, 1)) == 2 * BATCHES
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
