"""A table of RocksDB that cannot be read any more: what is lost is told, the rest goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from iot_mqtt.errors import Corrupt
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.faults import Damaged
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from tests.unit.grid.enginekit import engine

COUNT = 200


def table(directory: Path) -> Path:
    """The largest."""
    return max(directory.glob("*.sst"), key=lambda path: path.stat().st_size)


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    """A directory whose entries are in tables."""
    subject = engine(tmp_path)
    subject.open()
    for number in range(COUNT):
        subject.write({b"\x07%05d" % number: Random(number).randbytes(1000)})
    subject.close()
    return tmp_path


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 16
    path.write_bytes(data)


@pytest.fixture
def spoilt(grid: Path) -> Iterator[Engine]:
    """One bit is another one, in the middle."""
    path = table(grid)
    flip(path, path.stat().st_size // 2)
    subject = engine(grid)
    subject.open()
    yield subject
    subject.close()


def read(subject: Engine) -> int:
    found = 0
    for number in range(COUNT):
        try:
            found += subject.get(b"\x07%05d" % number) is not None
        except Corrupt:
            continue
    return found


def test_what_cannot_be_read_is_told_with_the_file(spoilt: Engine) -> None:
    """It is an alarm from then on; what is in other blocks is read."""
    assert not spoilt.alarms
    name = table(spoilt.directory).name
    keys = [b"\x07%05d" % number for number in range(COUNT)]
    with pytest.raises(Corrupt, match=rf"{name} is damaged \(block checksum.*restore a backup"):
        spoilt.get_many(keys)
    with pytest.raises(Corrupt, match=name):
        spoilt.page(b"\x07", b"\x07", COUNT, 1)
    assert COUNT - 20 < read(spoilt) < COUNT
    text = f"the grid is damaged: {name} cannot be read, and what is there is lost"
    assert spoilt.alarms == (Alarm(AlarmKind.GRID_DAMAGED, text),)


def test_a_damaged_table_is_not_merged_again_and_again(spoilt: Engine) -> None:
    """Each time no write would go on until the database is opened anew."""
    read(spoilt)
    spoilt.close()
    spoilt.open()
    for number in range(COUNT):
        spoilt.write({b"\x07%05d" % number: b"new"})
        if number % 20 == 0:
            spoilt._settle()
    assert spoilt.merge(b"") is None
    assert spoilt.get(b"\x07%05d" % 1) == b"new"
    assert spoilt.alarms


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_a_file_that_is_gone_is_named_at_the_start(grid: Path, name: str) -> None:
    """With what to do."""
    path = table(grid) if name == "*.sst" else next(grid.glob(name))
    path.unlink()
    with pytest.raises(Damaged, match=rf"{path.name} is missing.*restore a copy"):
        engine(grid).open()


def test_a_file_that_is_cut_is_named_at_the_start(grid: Path) -> None:
    """In one line."""
    path = table(grid)
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(Damaged, match=rf"{path.name} is damaged \(Sst file size mismatch.*restore a copy") as fault:
        engine(grid).open()
    assert "\n" not in str(fault.value)
