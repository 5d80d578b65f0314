"""The end of a commit log: what a crash leaves is dropped, what no crash leaves is told and kept."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.faults import Damaged
from iot_mqtt.grid.owner_file import OWNER
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from tests.contract.logfile import logs, written
from tests.unit.grid.enginekit import engine, left_by_a_kill

COUNT = 30
#: Of a value: a batch has more than a page.
SIZE = 6000


def count(subject: Engine) -> int:
    return len(subject.page(b"\x07", b"\x07", 1000, 1))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files as a killed process leaves them: everything in one segment."""
    live, copy = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("killed") / "grid"
    return left_by_a_kill(live, copy, (Random(number).randbytes(SIZE) for number in range(COUNT)))


@pytest.fixture
def grid(killed: Path, tmp_path: Path) -> Path:
    """A directory of that kind."""
    return Path(shutil.copytree(killed, tmp_path / "grid"))


def spoil(grid: Path, change: Callable[[bytearray], object]) -> Path:
    (path,) = logs(grid)
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)
    return path


def test_a_record_behind_a_damaged_one_need_not_be_whole(grid: Path) -> None:
    """It was begun behind one that had been synced. So the last but one was acknowledged."""
    last, end = written(logs(grid)[0])[-2:]

    def both(data: bytearray) -> None:
        data[last.start + 100] ^= 1
        data[end.end - 1] ^= 1

    spoil(grid, both)
    with pytest.raises(Damaged, match=r"at byte \d+ is damaged, and another batch was begun behind it.*restore"):
        engine(grid).open()


def over(start: int, end: int) -> Callable[[bytearray], object]:
    noise = Random(1).randbytes(end - start)
    return lambda data: data.__setitem__(slice(start, end), noise)


@pytest.mark.parametrize("first", [0, COUNT // 2])
def test_an_end_that_no_crash_leaves_is_kept_and_told(grid: Path, first: int) -> None:
    """Noise over all of it, or over the second half. The start goes on: no later batch proves a loss."""
    (path,) = logs(grid)
    whole = written(path)
    spoil(grid, over(whole[first].start, whole[-1].end))
    before = path.read_bytes()
    subject = engine(grid)
    subject.open()
    assert count(subject) == first
    kept = path.with_name(f"{path.name}.damaged")
    assert kept.read_bytes() == before
    text = f"the grid's log was damaged, and batches that were acknowledged may be lost: it is kept as {kept}"
    assert subject.alarms == (Alarm(AlarmKind.GRID_LOG_DAMAGED, text),)
    subject.close()
    again = engine(grid)
    again.open()
    assert len(again.alarms) == 1
    kept.unlink()
    assert not again.alarms
    again.close()


def test_noise_behind_the_end_that_the_last_batch_tells_is_none_of_a_crash(grid: Path) -> None:
    """That batch may have been torn; what is behind it was not written by anybody."""
    last = written(logs(grid)[0])[-1]
    path = spoil(grid, over(last.start + 1000, last.end + 10_000))
    subject = engine(grid)
    subject.open()
    assert count(subject) == COUNT - 1
    assert not path.exists()
    assert path.with_name(f"{path.name}.damaged").exists()
    subject.close()


@pytest.mark.parametrize("gone", ["head", "rest"])
def test_a_torn_batch_is_dropped_without_more(grid: Path, gone: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its first sector is there, or others are. Nobody knows whether it was acknowledged, so nobody says that."""
    last = written(logs(grid)[0])[-1]
    start, end = (last.start, last.start + 512) if gone == "head" else (last.start + 512, last.end - 512)
    spoil(grid, lambda data: data.__setitem__(slice(start, end), bytes(end - start)))
    subject = engine(grid)
    subject.open()
    assert count(subject) == COUNT - 1
    assert subject.alarms == ()
    assert "ends in a batch that is not whole" in caplog.text
    subject.close()


def test_a_log_that_is_gone_is_missed(grid: Path) -> None:
    """Unless an earlier version had the directory last, which left no word of it."""
    (path,) = logs(grid)
    path.unlink()
    for _ in range(2):
        with pytest.raises(Damaged, match=r"its log \(commits-\*\) is gone.*restore a copy"):
            engine(grid).open()
    (grid / OWNER).write_text("4711\n")
    subject = engine(grid)
    subject.open()
    subject.close()


def test_after_a_clean_end_no_log_is_missed(tmp_path: Path) -> None:
    """That end leaves none."""
    for number in range(3):
        subject = engine(tmp_path)
        subject.open()
        assert count(subject) == number
        subject.write({b"\x07%03d" % number: b""})
        subject.close()
        assert logs(tmp_path) == []
