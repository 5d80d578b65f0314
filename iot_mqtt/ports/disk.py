"""How much room what is kept takes, and how much is left; measured by whoever knows the files."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class DiskUse(NamedTuple):
    """Bytes."""

    #: That the grid takes on its file system.
    used: int
    #: That the file system still has.
    free: int


#: Asked now and then; raises ``OSError`` when it can't be told.
DiskMeter = Callable[[], DiskUse]
