"""A directory that has had a grid is not taken for a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.app.grid_note import FILE, note_grid, refuse_lost
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.faults import OpenFault


def test_who_has_had_a_grid_is_refused_without_it(tmp_path: Path) -> None:
    """Also where its directory is there; a new one, and one that a version before left, are not."""
    grid = tmp_path / "grid"
    refuse_lost(grid)
    engine = Engine(grid, pause=lambda _: None)
    engine.open()
    engine.close()
    refuse_lost(grid)
    note_grid(grid)
    refuse_lost(grid)
    for path in grid.iterdir():
        path.unlink()
    with pytest.raises(OpenFault, match=rf"grid has no grid, but .* removes {tmp_path}/{FILE}$"):
        refuse_lost(grid)
    grid.rmdir()
    with pytest.raises(OpenFault):
        refuse_lost(grid)
    (tmp_path / FILE).unlink()
    refuse_lost(grid)


def test_the_note_is_written_once(tmp_path: Path) -> None:
    """And where it cannot be, the node starts all the same."""
    note_grid(tmp_path / "grid")
    before = (tmp_path / FILE).stat().st_mtime_ns
    note_grid(tmp_path / "grid")
    assert (tmp_path / FILE).stat().st_mtime_ns == before
    note_grid(tmp_path / "nowhere" / "grid")
