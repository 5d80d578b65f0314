"""Retained messages whose time is over, taken out of a grid that several nodes share.

Each node forgets such a message by itself, and none removes its record then, because another node may have put the next
message in its place at that moment. So whoever cares for the grid removes what it has read, if it is still that; long
after its time, so that a node whose clock is fast takes nothing away.
"""

from __future__ import annotations

from typing import Final

from iot_mqtt.grid.records.base import Unreadable
from iot_mqtt.grid.records.retained import decode_retained
from iot_mqtt.ports.grid import CacheName, Grid

#: Seconds after its time.
AFTER_SECONDS: Final = 3600.0
#: Records that are decoded in one piece.
PAGE: Final = 200


class ExpiredRetained:
    """Of one process: where it is among all topics."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._after: bytes | None = None

    async def drop(self, wall: float, pages: int) -> int:
        """Look at so many more; how many of them were removed."""
        dropped = 0
        for _ in range(pages):
            pairs = await self._grid.page(CacheName.RETAINED, b"", self._after, PAGE)
            for key, record in pairs:
                if _is_over(record, wall - AFTER_SECONDS):
                    dropped += await self._grid.compare_and_set(CacheName.RETAINED, key, record, None)
            self._after = pairs[-1][0] if len(pairs) == PAGE else None
            if self._after is None:
                break
        return dropped


def _is_over(record: bytes, wall: float) -> bool:
    try:
        message, _, _ = decode_retained(record)
    except Unreadable:  # whoever loads it says so
        return False
    return message.expires_at is not None and message.expires_at <= wall
