"""A directory that has had a grid, or a node of a cluster, is not taken for a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.app.data_id import data_id
from iot_mqtt.app.grid_note import FILE, note_grid, refuse_lost, refuse_sole
from iot_mqtt.app.migrated import note_migrated
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.faults import OpenFault


def make_grid(grid: Path) -> None:
    """An embedded one."""
    engine = Engine(grid, pause=lambda _: None)
    engine.open()
    engine.close()


def test_who_has_had_a_grid_is_refused_without_it(tmp_path: Path) -> None:
    """Also where its directory is there; a new one, and one that a version before left, are not."""
    grid = tmp_path / "grid"
    refuse_lost(grid)
    make_grid(grid)
    refuse_lost(grid)
    note_grid(grid, "embedded")
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
    note_grid(tmp_path / "grid", "embedded")
    before = (tmp_path / FILE).stat().st_mtime_ns
    note_grid(tmp_path / "grid", "embedded")
    assert (tmp_path / FILE).stat().st_mtime_ns == before
    note_grid(tmp_path / "nowhere" / "grid", "embedded")


def test_a_directory_of_a_cluster_gets_no_grid_of_its_own(tmp_path: Path) -> None:
    """A start that has forgotten the configuration of the cluster would serve nobody's messages."""
    grid = tmp_path / "grid"
    note_grid(grid, "ignite")
    with pytest.raises(OpenFault, match=r"is the data directory of a node of a cluster .*--config"):
        refuse_lost(grid)
    refuse_sole(grid)


def test_a_grid_of_its_own_is_not_hidden_by_that_of_a_cluster(tmp_path: Path) -> None:
    """What is to be done is said; migrated, it may be a member, and is one from then on."""
    grid = tmp_path / "grid"
    refuse_sole(grid)
    make_grid(grid)
    with pytest.raises(OpenFault, match=rf"iot-mqtt migrate {tmp_path} takes them"):
        refuse_sole(grid)
    note_grid(grid, "embedded")
    with pytest.raises(OpenFault, match=r"another node\.data_dir"):
        refuse_sole(grid)
    note_migrated(grid, "127.0.0.1:10800", 0.0)
    refuse_sole(grid)
    note_grid(grid, "ignite")
    refuse_sole(grid)
    with pytest.raises(OpenFault, match="a node of a cluster"):
        refuse_lost(grid)


def test_a_member_of_a_release_before_starts_with_a_grid_beside_it(tmp_path: Path) -> None:
    """It had one before it joined; nothing of it was served since."""
    grid = tmp_path / "grid"
    make_grid(grid)
    data_id(tmp_path)
    refuse_sole(grid)
