"""Looks after the disk of a node's own grid: its directory is to be there, and while the disk is full, the grid gives
back what removed entries take.

RocksDB does that by itself when enough was written, and nobody writes where there is no room.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.grid import Grid

log = logging.getLogger(__name__)

#: After a merge the next one waits so many times as long as that took: most of the disk's time is for others.
REST: Final = 5.0


class DiskRoom:
    """One life of a node. Everything runs in the reactor's thread."""

    def __init__(self, grid: EmbeddedGrid, budget: Budget, counters: Counters, clock: Clock) -> None:
        self._grid = grid
        self._budget = budget
        self._counters = counters
        self._clock = clock
        self._merging = False
        self._began = self._next_at = clock.monotonic()

    def look(self) -> None:
        """See that the grid is there, measure the disk, and have room made if it is full. Called every second or so.
        Where inodes lack, there are none for a merge.
        """
        self._grid.check()
        self._budget.measure()
        now = self._clock.monotonic()
        if self._budget.lacks_bytes and not self._merging and now >= self._next_at:
            self._merging, self._began = True, now
            drive(self._merge(), self._ended, self._failed)

    async def _merge(self) -> None:
        before = self._grid.disk_use().used
        await self._grid.make_room()
        given_back = max(0, before - self._grid.disk_use().used)
        self._counters.disk_merges += 1
        self._counters.disk_given_back_bytes += given_back
        seconds = round(self._clock.monotonic() - self._began, 3)
        log.info("the full disk was given back what removed entries took", extra={"bytes": given_back, "took": seconds})

    def _ended(self, _: None) -> None:
        now = self._clock.monotonic()
        self._merging, self._next_at = False, now + REST * (now - self._began)
        self._budget.measure()

    def _failed(self, error: BaseException) -> None:
        self._ended(None)
        log.info("the full disk was not given back what removed entries took: %s", error)


def make_disk_look(grid: Grid, budget: Budget, counters: Counters, clock: Clock) -> Callable[[], None]:
    """What looks at the disk every second or so. Only a node's own grid can have room made."""
    return DiskRoom(grid, budget, counters, clock).look if isinstance(grid, EmbeddedGrid) else budget.measure
