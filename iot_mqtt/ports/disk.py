"""How much room what is kept takes, and how much is left; measured by whoever knows the files."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class DiskUse(NamedTuple):
    """Bytes, and inodes: a file system that has none left takes no new file, however many bytes are free."""

    #: Bytes that the grid takes on its file system.
    used: int
    #: Bytes that the file system still has.
    free: int
    #: Bytes that the grid may need for a while, beyond what it takes: it writes files anew before it removes the old.
    passing: int = 0
    #: Of the file system; 0: it does not count them.
    inodes: int = 0
    inodes_free: int = 0


#: Asked now and then; raises ``OSError`` when it can't be told.
DiskMeter = Callable[[], DiskUse]
