"""Zeros ahead of the grid's log: where they go, and what a start makes of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from iot_mqtt.grid.ahead import LARGE, STEP, Ahead
from iot_mqtt.grid.engine import Engine

PAGE = 4096


def engine(directory: Path) -> Engine:
    return Engine(directory, lambda seconds: None)


def newest(directory: Path) -> Path:
    return max(directory.glob("*.log"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "000004.log"
    path.write_bytes(b"batches")
    return path


@pytest.fixture
def ahead(tmp_path: Path, log: Path) -> Iterator[Ahead]:
    subject = Ahead(tmp_path)
    yield subject
    subject.close()


def test_zeros_go_behind_what_is_there(ahead: Ahead, log: Path) -> None:
    """Once for as many commits as fit into them."""
    for _ in range(STEP // 1000):
        ahead.make(1000)
        assert log.read_bytes() == b"batches" + bytes(STEP)
    ahead.make(1000)
    assert log.stat().st_size == len(b"batches") + 2 * STEP


def test_a_log_that_is_longer_than_was_thought_is_not_written_into(ahead: Ahead, log: Path) -> None:
    """A commit may need more room than was said."""
    ahead.make(10)
    with log.open("ab") as file:
        file.write(b"more")
    ahead.make(LARGE)
    for _ in range(STEP // LARGE):
        ahead.make(LARGE)
    assert log.read_bytes() == b"batches" + bytes(STEP) + b"more" + bytes(STEP)


def test_a_large_commit_gets_no_zeros(ahead: Ahead, log: Path) -> None:
    """They would cost as much as they save."""
    ahead.make(LARGE + 1)
    assert log.read_bytes() == b"batches"


def test_the_next_log_is_followed(ahead: Ahead, log: Path, tmp_path: Path) -> None:
    """The one with the greatest number; what is not a log is let alone."""
    ahead.make(10)
    later = [tmp_path / name for name in ("000010.log", "000009.log", "LOG.old.log")]
    for path in later:
        path.write_bytes(b"")
    ahead.make(10)
    assert [path.stat().st_size for path in later] == [STEP, 0, 0]


def test_no_log_is_no_trouble(tmp_path: Path) -> None:
    """Whether there is room is for the commit to find."""
    Ahead(tmp_path).make(10)
    Ahead(tmp_path / "gone").make(10)


def test_a_killed_process_leaves_zeros_that_cost_nothing(tmp_path: Path) -> None:
    """Everything is there, and what is written after the start, too."""
    live, copy = tmp_path / "live", tmp_path / "copy"
    subject = engine(live)
    subject.open()
    for number in range(50):
        subject.write({b"\x07%03d" % number: b"v" * 100})
    shutil.copytree(live, copy)
    subject.close()
    assert newest(copy).read_bytes().endswith(bytes(STEP // 2))
    again = engine(copy)
    again.open()
    again.write({b"\x07050": b"later"})
    assert len(again.page(b"\x07", b"\x07", 100, 1)) == 51
    again.close()


def test_commits_of_all_sizes_stay_whole_over_several_logs(tmp_path: Path) -> None:
    """Smaller and larger than a step, from one memory table to the next."""
    live, copy = tmp_path / "live", tmp_path / "copy"
    dice = Random(7)
    sizes = [dice.choice((10, 1000, LARGE - 100, LARGE, STEP, 3 * STEP)) for _ in range(150)]
    subject = engine(live)
    subject.open()
    first = newest(live).name
    for number, size in enumerate(sizes):
        subject.write({b"\x07%03d" % number: dice.randbytes(8) * (size // 8)})
    shutil.copytree(live, copy)
    assert newest(copy).name > first
    written = subject.page(b"\x07", b"\x07", 1000, 1)
    subject.close()
    again = engine(copy)
    again.open()
    assert again.page(b"\x07", b"\x07", 1000, 1) == written
    assert [len(value) for _, value in written] == [size // 8 * 8 for size in sizes]
    again.close()


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, range]:
    """Files after ten commits, and the offsets of the pages that an eleventh one of 60 kB has touched first."""
    live, copy = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("torn") / "grid"
    subject = engine(live)
    subject.open()
    for number in range(10):
        subject.write({b"\x07%03d" % number: b"v" * 100})
    before = newest(live).read_bytes()
    subject.write({b"\x07010": b"w" * 60_000})
    after = newest(live).read_bytes()
    shutil.copytree(live, copy)
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
        with newest(copy).open("r+b") as file:
            file.seek(at)
            file.write(bytes(PAGE))
        subject = engine(copy)
        subject.open()
        assert [key for key, _ in subject.page(b"\x07", b"\x07", 100, 1)] == [b"%03d" % number for number in range(10)]
        subject.write({b"\x07010": b"again"})
        subject.close()
