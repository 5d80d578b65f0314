"""What the grid has room for, below what the configuration lets the log have.

A grid in memory is smaller than most disks, and is shared with other nodes and other records. So its log is given a
share of it, which changes with the servers and nodes that there are; and when the grid is nearly full all the same,
what is oldest goes, down to a rest that cannot be what fills it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

#: The log is dropped in so many steps: a generation is over when it has this part of what the log may have.
PARTS: Final = 8


class Ceiling:
    """Moved by whoever knows the grid; ``Retention`` and ``OwnCatalogue`` look at it."""

    __slots__ = ("bytes", "pressed")

    def __init__(self) -> None:
        #: Bytes that the log may have, all classes together; 0: no limit but theirs.
        self.bytes = 0
        #: Whether the grid is nearly full now.
        self.pressed: Callable[[], bool] = _never

    @property
    def generation_bytes(self) -> int:
        """When a generation is over; 0: never for its size."""
        return self.bytes // PARTS

    @property
    def rest(self) -> int:
        """Bytes that the log keeps however full the grid is."""
        return self.bytes // PARTS


def _never() -> bool:
    return False
