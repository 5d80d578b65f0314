"""Which grid a data directory belongs to: its file ``GRID``, made when the first node has opened one from there.

::

    GRID     embedded     the directory has a grid of its own
    GRID     ignite       its node is one of a cluster

A start with another kind of grid, or without the directory's own one, would otherwise begin with nothing: where
somebody has forgotten the configuration of the cluster, or given it to a node by itself; where a disk is not mounted. A
directory without the file, of a version before there was one, gets it at the next start.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final, Literal

from iot_mqtt.app import data_id, migrated
from iot_mqtt.grid.engine import CURRENT
from iot_mqtt.grid.faults import OpenFault
from iot_mqtt.whole_files import new_file

log = logging.getLogger(__name__)

FILE: Final = "GRID"


def note_grid(grid: Path, kind: Literal["embedded", "ignite"]) -> None:
    """It is open. A disk that is full keeps nobody from starting."""
    note = grid.parent / FILE
    try:
        if _noted(grid) != kind:
            with new_file(note) as file:
                file.write(f"{kind}\n".encode())
    except OSError as error:
        text = "%s cannot be written, and a start does not notice if the grid is gone, or another: %s"
        log.warning(text, note, error.strerror)


def refuse_lost(grid: Path) -> None:
    """Raises ``OpenFault`` if there has been a grid, and is none; or if the directory is one of a cluster."""
    refuse_member(grid)
    note = grid.parent / FILE
    if note.exists() and not (grid / CURRENT).exists():
        raise OpenFault(
            f"{grid} has no grid, but there was one ({note} says so), with sessions, messages, users and bans: mount "
            f"it or put it back, or restore a backup; whoever wants to begin anew, without all of it, removes {note}"
        )


def refuse_member(grid: Path) -> None:
    """Raises ``OpenFault`` if the directory is that of a node of a cluster: it is to have no grid of its own."""
    if _noted(grid) == "ignite":
        raise OpenFault(
            f"{grid.parent} is the data directory of a node of a cluster ({grid.parent / FILE} says so), and grid.kind "
            "is embedded: nothing of the cluster would be there. Start the node with the configuration of the cluster "
            "(--config), or give it another node.data_dir"
        )


def refuse_sole(grid: Path) -> None:
    """Raises ``OpenFault`` if the directory has a grid of its own, whose node is to be one of a cluster."""
    noted = _noted(grid)
    if noted == "ignite" or (grid / migrated.FILE).exists():
        return
    if not noted and (grid.parent / data_id.FILE).exists():
        return  # of a version before there was the note, and in a cluster already
    if noted or (grid / CURRENT).exists():
        raise OpenFault(
            f"{grid.parent} is the data directory of a node by itself, and grid.kind is ignite: the sessions, messages "
            f"and users in {grid} would be hidden. iot-mqtt migrate {grid.parent} takes them into an empty cluster; or "
            f"give the node another node.data_dir. Whoever wants none of them moves {grid} and {FILE} beside it away"
        )


def _noted(grid: Path) -> str:
    """Nothing where there is no note."""
    try:
        return (grid.parent / FILE).read_text("ascii", "replace").strip()
    except FileNotFoundError:
        return ""
