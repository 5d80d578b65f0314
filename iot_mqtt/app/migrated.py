"""A directory whose grid has gone into a cluster: no node may serve what is served there already.

::

    grid/MIGRATED     {"to": "10.0.0.1:10800, 10.0.0.2:10800", "at": 1785000000.0}
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from iot_mqtt.grid.faults import OpenFault
from iot_mqtt.whole_files import sync_directory

FILE: Final = "MIGRATED"


def note_migrated(grid: Path, to: str, at: float) -> None:
    """On the disk when this returns."""
    with (grid / FILE).open("w") as file:
        file.write(json.dumps({"to": to, "at": at}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    sync_directory(grid)


def refuse_migrated(grid: Path) -> None:
    """Raises ``OpenFault``."""
    try:
        text = (grid / FILE).read_text()
    except FileNotFoundError:
        return
    try:
        to = str(json.loads(text)["to"])
    except (ValueError, KeyError, TypeError):
        to = "a cluster"
    raise OpenFault(
        f"{grid}: everything in it has gone to {to} (iot-mqtt migrate), where it goes on. Whoever gives that up and "
        f"wants to go on here removes the file {FILE} in it, and GRID beside it"
    )
