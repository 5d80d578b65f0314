"""A restore that ends anywhere: the grid says so from before the first entry, nobody uses it, the next begins anew."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import pytest

from iot_mqtt.app.backup.errors import BackupError
from iot_mqtt.app.backup.grids import is_own, whole
from iot_mqtt.app.backup.work import put_back
from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.archive import ArchiveReader, ArchiveWriter, BadArchive, Header, copy_from, copying, sums_of
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.ports.filling import Filler, Mark, Unfinished, refuse_unfinished
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch
from tests.contract.driving import Pump
from tests.unit.app.backup.cutkit import Failing

CLIENTS = 60


def opened(pump: Pump) -> MemoryGrid:
    grid = MemoryGrid()
    pump.run(grid.open())
    return grid


def archive(pump: Pump, clients: int = CLIENTS) -> bytes:
    grid, batch = opened(pump), WriteBatch()
    for number in range(clients):
        batch.put(CacheName.SESSIONS, b"client-%d" % number, b"session")
        batch.put(CacheName.QUEUE, b"client-%d" % number, b"message" * 9000)
    batch.put(CacheName.META, b"something", b"of the grid")
    pump.run(grid.commit(batch))
    file = BytesIO()
    writer = ArchiveWriter(file, Header("embedded", "1.2.3", 1_700_000_000.0, "node-1"), None)
    pump.run(copy_from(grid, writer, is_own))
    writer.close()
    return file.getvalue()


def restore(pump: Pump, grid: Grid, file: bytes) -> None:
    pump.run(put_back(grid, ArchiveReader(BytesIO(file), None), lambda *_: None))


@pytest.mark.parametrize("answers_lost", [False, True])
def test_one_that_is_cut_off_anywhere_may_be_run_again(answers_lost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a write, or before its answer: who would start on the grid finds nothing in it, all, or the mark."""
    monkeypatch.setattr(copying, "_BATCH_ENTRIES", 16)
    pump = Pump()
    file, grid = archive(pump), opened(pump)
    restore(pump, grid, file)
    wanted, cuts = pump.run(sums_of(grid, is_own)).told(), 0
    while True:
        grid = opened(pump)
        failing = Failing(grid)
        failing.left, failing.answers_lost = cuts, answers_lost
        try:
            restore(pump, failing, file)
            break
        except Unavailable:
            cuts += 1
        found = pump.run(sums_of(grid, is_own)).told()
        try:
            pump.run(refuse_unfinished(grid))
            assert not found or found == wanted
        except Unfinished as error:
            assert "iot-mqtt backup restore" in str(error)
            with pytest.raises(BackupError, match="iot-mqtt backup restore"):
                pump.run(whole(grid))
            restore(pump, grid, file)
        if found:
            assert pump.run(sums_of(grid, is_own)).told() == wanted
    pump.run(whole(grid))
    assert cuts > 8


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file[: len(file) * 7 // 10],
        lambda file: (
            file[: len(file) * 7 // 10] + bytes([file[len(file) * 7 // 10] ^ 1]) + file[len(file) * 7 // 10 + 1 :]
        ),
        lambda file: file + b"x",
    ],
    ids=["cut", "flipped", "longer"],
)
def test_a_damaged_backup_leaves_a_grid_that_nobody_uses_and_a_good_one_fills(
    damage: Callable[[bytes], bytes],
) -> None:
    pump = Pump()
    file, less, grid = archive(pump), archive(pump, CLIENTS // 2), opened(pump)
    with pytest.raises(BadArchive):
        restore(pump, grid, damage(file))
    with pytest.raises(Unfinished, match="run it again"):
        pump.run(refuse_unfinished(grid))
    restore(pump, grid, less)
    pump.run(refuse_unfinished(grid))
    assert pump.run(sums_of(grid, is_own)).told()["sessions"]["entries"] == CLIENTS // 2


def test_a_grid_that_another_command_fills_is_left_to_it() -> None:
    pump = Pump()
    grid = opened(pump)
    pump.run(Mark(grid, Filler("iot-mqtt migrate", "here:/var/lib/iot-mqtt"), "1").begin())
    with pytest.raises(Unavailable, match="iot-mqtt migrate from here:/var/lib/iot-mqtt was filling this grid"):
        restore(pump, grid, archive(pump))


def test_what_is_there_already_is_no_unfinished_restore() -> None:
    pump = Pump()
    file, grid = archive(pump), opened(pump)
    restore(pump, grid, file)
    with pytest.raises(BackupError, match="the grid is not empty"):
        restore(pump, grid, file)
    pump.run(refuse_unfinished(grid))
