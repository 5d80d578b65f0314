"""The format of everything that the nodes keep in the shared grid: one record, looked at before a node joins.

    META  format    {"format": 1, "written_by": "0.1.0"}

The first node writes it. A node that finds a later one does not join, and says which version wrote it. Records have
versions of their own besides: this one is for what changes as a whole.
"""

from __future__ import annotations

import json
from typing import Final

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.grid import CacheName, Grid

FORMAT: Final = 1
_KEY: Final = b"format"
_ATTEMPTS: Final = 100


class GridRefused(Exception):
    """The grid is not for this version of the program, or its record cannot be read."""


async def require(grid: Grid, version: str, format: int = FORMAT) -> None:
    """Have the grid in this format. ``version``: of this program. Raises ``GridRefused`` and leaves it as it is."""
    for _ in range(_ATTEMPTS):
        record = await grid.get(CacheName.META, _KEY)
        if record is not None:
            _check(record, version, format)
            return
        written = json.dumps({"format": format, "written_by": version}).encode()
        if await grid.compare_and_set(CacheName.META, _KEY, None, written):
            return
    raise Unavailable("the grid takes no record of its format")


def _check(record: bytes, version: str, format: int) -> None:
    try:
        fields = json.loads(record)
        found, written_by = fields["format"], str(fields["written_by"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise GridRefused(f"the grid's record of its format cannot be read: {error}") from error
    if type(found) is not int or found < 1:
        raise GridRefused(f"the grid has no format that there can be: {found!r}")
    if found > format:
        raise GridRefused(
            f"the grid has format {found}, written by iot-mqtt {written_by}; this is {version}, which knows formats up "
            f"to {format}: start that version, or a cluster with another grid"
        )
