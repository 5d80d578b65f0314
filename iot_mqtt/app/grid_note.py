"""That a data directory has a grid of its own: its file ``GRID``, made when the first node has opened one there.

::

    GRID     embedded

A start that finds the file, and no grid, would otherwise begin with nothing where a disk is not mounted, or where
somebody has cleared away too much. A directory without the file, of a version before there was one, gets it at the next
start.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from iot_mqtt.grid.engine import CURRENT
from iot_mqtt.grid.faults import OpenFault
from iot_mqtt.whole_files import new_file

log = logging.getLogger(__name__)

FILE: Final = "GRID"


def note_grid(grid: Path) -> None:
    """It is open. A disk that is full keeps nobody from starting."""
    note = grid.parent / FILE
    try:
        if not note.exists():
            with new_file(note) as file:
                file.write(b"embedded\n")
    except OSError as error:
        log.warning("%s cannot be written, and a start does not notice if the grid is gone: %s", note, error.strerror)


def refuse_lost(grid: Path) -> None:
    """Raises ``OpenFault`` if there has been a grid, and is none."""
    note = grid.parent / FILE
    if note.exists() and not (grid / CURRENT).exists():
        raise OpenFault(
            f"{grid} has no grid, but there was one ({note} says so), with sessions, messages, users and bans: mount "
            f"it or put it back, or restore a backup; whoever wants to begin anew, without all of it, removes {note}"
        )
