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
    #: That the grid may need for a while, beyond what it takes: it writes files anew before it removes the old ones.
    passing: int = 0


#: Asked now and then; raises ``OSError`` when it can't be told.
DiskMeter = Callable[[], DiskUse]
