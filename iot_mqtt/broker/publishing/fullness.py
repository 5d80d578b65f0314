"""How full something is that has a limit, and when that is an alarm; it is not left for a trifle."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

#: The share of the limit at which the alarm begins, and below which it ends.
ALARM_SHARE: Final = 0.80
CALM_SHARE: Final = 0.78
#: What is full has room again when this share of its limit is free of it, or as much as is enough.
ROOM_SHARE: Final = 0.03


class DiskLevel(StrEnum):
    """How full it is, in this order."""

    NONE = "none"
    ALARM = "alarm"
    FULL = "full"


class Fullness:
    """Of one thing."""

    def __init__(self, enough: int) -> None:
        """``enough`` is room again, however small a share of the limit it is."""
        self._enough = enough
        self.level = DiskLevel.NONE

    def look(self, used: int, limit: int) -> None:
        """So much of the limit is used now."""
        room = limit - used
        if room <= 0 or (self.level is DiskLevel.FULL and room < min(limit * ROOM_SHARE, self._enough)):
            self.level = DiskLevel.FULL
        else:
            share = ALARM_SHARE if self.level is DiskLevel.NONE else CALM_SHARE
            self.level = DiskLevel.ALARM if used >= limit * share else DiskLevel.NONE


def fullest(*several: Fullness) -> DiskLevel:
    """Of all of them."""
    levels = list(DiskLevel)
    return max((one.level for one in several), key=levels.index)
