"""Power cuts of a real broker under load, at some points; ``make powercut`` tries thousands (docs/adr/0069)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from systemkit.process import MOSQUITTO

from tests.powercut.campaign import Recording, cut, draw, in_memory, record
from tests.powercut.disk import Disk, Folder
from tests.powercut.journal import Kind
from tests.seeds import seeds_of

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="looks into the directory of our own engine")

#: Grids that are started on what a power cut has left. Whole brokers take seconds each: ``make powercut`` starts them.
GRIDS = 150


@pytest.fixture(scope="module")
def recording() -> Iterator[tuple[Recording, Path]]:
    """Three lives of a broker with small buffers, on a disk whose times are coarse; and a place to work in."""
    with in_memory() as folder:
        yield record(folder, "small", [0.7, 0.7, 0.7], Random(1), small=True, coarse=True), folder / "cut"


def test_the_recorded_broker_keeps_to_the_protocol(recording: tuple[Recording, Path]) -> None:
    """There was a load worth looking at, over a kill and a stop."""
    books = recording[0].books
    assert not books.faults
    assert len(books.acked) > 100, "hardly any load"


@pytest.mark.parametrize("seed", seeds_of("power cuts", 1))
def test_a_power_cut_at_any_moment_loses_nothing_acknowledged(recording: tuple[Recording, Path], seed: int) -> None:
    """Whatever of the unsynced writes and names is left: every start succeeds, and everything promised is there."""
    steps, folder = recording
    dice = Random(seed)
    result = cut(steps, draw(steps, GRIDS, 0, dice), folder, dice)
    print(result)
    assert not result.faults, f"seed {seed}:\n" + "\n".join(result.faults[:5])
    assert result.promises > GRIDS


def test_a_disk_that_does_not_sync_is_found_out(recording: tuple[Recording, Path]) -> None:
    """The judge can say no: where syncs of the commit log do nothing, acknowledged messages are missing."""
    steps, folder = recording
    dice = Random(2)
    points = draw(steps, 15, 0, dice)
    result = cut(steps, points, folder, dice, lies=lambda path: b"/commits-" in path)
    assert any("are lost" in fault for fault in result.faults), str(result)


@pytest.mark.parametrize("name", [b"grid", b"uplink", b"plugins"])
def test_the_name_of_a_directory_is_as_durable_as_what_is_in_it(recording: tuple[Recording, Path], name: bytes) -> None:
    """In the first life already: nothing but a sync of the data directory keeps it."""
    disk, lives = Disk(), 0
    for step in recording[0].steps:
        lives += step.kind is Kind.BEGIN
        if lives > 1:
            break
        disk.apply(step)
    data = disk.root.synced[b"data"]
    assert isinstance(data, Folder)
    assert name in data.synced
