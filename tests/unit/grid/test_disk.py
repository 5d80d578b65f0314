"""The room that a grid takes, and that it is given back."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.disk import measure
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.engine import FAILURES, Engine
from iot_mqtt.grid.faults import OpenFault
from iot_mqtt.grid.tags import TAGS
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.contract.driving import Pump

MB = 1_000_000


def test_blocks_count_not_lengths(tmp_path: Path) -> None:
    """A file with a hole takes what is written of it; one that is reserved ahead takes all of it."""
    empty = measure(tmp_path).used
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(50 * MB)
    assert measure(tmp_path).used - empty < MB
    with (tmp_path / "reserved").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 2 * MB)
    assert 2 * MB <= measure(tmp_path).used - empty < 3 * MB


def test_the_file_system_says_what_is_left(tmp_path: Path) -> None:
    """Without what only root may use."""
    system = os.statvfs(tmp_path)
    assert measure(tmp_path).free == pytest.approx(system.f_bavail * system.f_frsize, rel=0.1)


def test_inodes_are_those_of_the_file_system(tmp_path: Path) -> None:
    """As ``df -i`` has them."""
    system, use = os.statvfs(tmp_path), measure(tmp_path)
    assert use.inodes == system.f_files
    assert use.inodes_free == pytest.approx(system.f_favail, rel=0.1)


@pytest.mark.parametrize(
    ("inodes", "said"), [((256, 0), "8192 bytes and 0 inodes are free"), ((0, 0), "8192 bytes are free")]
)
def test_a_grid_that_has_no_space_to_open_says_of_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inodes: tuple[int, int], said: str
) -> None:
    """The system calls both the same."""
    monkeypatch.setattr("iot_mqtt.grid.disk.statvfs", lambda _: statvfs_of(*inodes))
    with pytest.raises(OpenFault, match=f"No space left on device; {said}$"):
        Full(tmp_path / "grid").open()


def statvfs_of(inodes: int, free: int) -> SimpleNamespace:
    """With two blocks of 4096 bytes that are free."""
    return SimpleNamespace(f_bavail=2, f_frsize=4096, f_files=inodes, f_favail=free)


class Full(Engine):
    """As where a file cannot be made."""

    def _recover(self) -> None:
        raise Unavailable("x") from OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class GivenUp(Engine):
    """RocksDB has found no space while it merged, and writes no more tables until it is opened anew."""

    given_up = False

    def open(self) -> None:
        self.given_up = False
        super().open()

    def _count(self, name: str) -> int:
        return 1 if self.given_up and name == FAILURES else super()._count(name)


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """The caller keeps its last figures."""
    with pytest.raises(FileNotFoundError):
        measure(tmp_path / "nowhere")


def test_a_link_takes_no_room_but_its_own(tmp_path: Path) -> None:
    """Whatever it leads to."""
    (tmp_path / "grid").mkdir()
    (tmp_path / "large").write_bytes(os.urandom(2 * MB))
    (tmp_path / "grid" / "link").symlink_to(tmp_path / "large")
    assert measure(tmp_path / "grid").used < MB


def test_what_was_removed_under_a_prefix_gives_its_room_back(tmp_path: Path) -> None:
    """And only that: what stands beside it is still there."""
    engine = Engine(tmp_path / "grid")
    engine.open()
    tag = TAGS[CacheName.LOG]
    for part in range(100):
        engine.write({tag + bytes([part % 2, part, number]): os.urandom(10_000) for number in range(40)})
    before = measure(engine.directory).used
    engine.write({}, [tag + b"\x00"])
    engine.reclaim(tag + b"\x00")
    assert before - measure(engine.directory).used > 15 * MB
    assert len(engine.page(tag, tag, 10_000, 0)) == 2000
    engine.close()


def test_a_grid_gives_the_room_of_a_generation_back(tmp_path: Path) -> None:
    """Removing a prefix of the log is enough."""
    pump = Pump()
    grid = EmbeddedGrid(Engine(tmp_path / "grid"), pump.cross)
    pump.run(grid.open())
    for number in range(30):
        batch = WriteBatch()
        batch.put(CacheName.LOG, b"\x01%d" % number, os.urandom(MB))
        pump.run(grid.commit(batch))
    before = grid.disk_use().used
    pump.run(grid.remove_prefix(CacheName.LOG, b"\x01"))
    assert before > 25 * MB
    assert grid.disk_use().used < 5 * MB
    pump.run(grid.close())


def test_removed_and_overwritten_entries_give_their_room_back_when_it_is_asked_for(tmp_path: Path) -> None:
    """Whatever they are; and what is left is still there."""
    pump = Pump()
    grid = EmbeddedGrid(Engine(tmp_path / "grid"), pump.cross)
    pump.run(grid.open())
    for turn in range(3):
        for number in range(30):
            batch = WriteBatch()
            batch.put(CacheName.RETAINED, b"%d" % number, b"%d" % turn + os.urandom(MB))
            pump.run(grid.commit(batch))
    batch = WriteBatch()
    for number in range(5, 30):
        batch.remove(CacheName.RETAINED, b"%d" % number)
    pump.run(grid.commit(batch))
    assert grid.disk_use().used > 25 * MB
    pump.run(grid.make_room())
    assert 5 * MB < grid.disk_use().used < 7 * MB
    assert 5 * MB < grid.disk_use().passing < 6 * MB
    assert [value[:1] for _, value in pump.run(grid.page(CacheName.RETAINED))] == [b"2"] * 5
    pump.run(grid.close())


def test_a_database_that_has_given_up_merging_is_opened_anew(tmp_path: Path) -> None:
    """Whether or not there is space again."""
    pump, engine = Pump(), GivenUp(tmp_path / "grid")
    grid = EmbeddedGrid(engine, pump.cross, retry=(0.01, 0.05))
    pump.run(grid.open())
    batch = WriteBatch()
    batch.put(CacheName.RETAINED, b"t", b"kept")
    pump.run(grid.commit(batch))
    engine.given_up = True
    with pytest.raises(Unavailable):
        pump.run(grid.make_room())
    pump.until(lambda: grid.available)
    pump.run(grid.make_room())
    assert pump.run(grid.get(CacheName.RETAINED, b"t")) == b"kept"
    pump.run(grid.close())
