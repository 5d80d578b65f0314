"""The record of the grid's format: written by the first node, read by all, and a later one is refused in words."""

from __future__ import annotations

import json

import pytest

from iot_mqtt.cluster.grid_format import GridRefused, require
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.unit.broker.harness import run


def _grid() -> MemoryGrid:
    grid = MemoryGrid()
    run(grid.open())
    return grid


def _record(grid: MemoryGrid) -> bytes | None:
    return run(grid.get(CacheName.META, b"format"))


def _put(grid: MemoryGrid, record: bytes) -> None:
    batch = WriteBatch()
    batch.put(CacheName.META, b"format", record)
    run(grid.commit(batch))


def test_the_first_node_writes_the_format_and_the_next_ones_leave_it() -> None:
    """With the version that was first."""
    grid = _grid()
    run(require(grid, "1.0"))
    first = _record(grid)
    assert first is not None and json.loads(first) == {"format": 1, "written_by": "1.0"}
    run(require(grid, "1.1"))
    assert _record(grid) == first


def test_a_later_format_is_refused_with_both_versions() -> None:
    """And stays; a node that knows it goes on."""
    grid = _grid()
    run(require(grid, "3.0", 2))
    before = _record(grid)
    with pytest.raises(GridRefused, match=r"format 2, written by iot-mqtt 3\.0; this is 1\.0.* up to 1"):
        run(require(grid, "1.0"))
    assert _record(grid) == before
    run(require(grid, "3.1", 2))


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": 0, "written_by": "x"}', b"null"])
def test_a_record_that_cannot_be_read_is_refused(record: bytes) -> None:
    """Not taken for none."""
    grid = _grid()
    _put(grid, record)
    with pytest.raises(GridRefused):
        run(require(grid, "1.0"))
    assert _record(grid) == record
