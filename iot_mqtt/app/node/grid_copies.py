"""Copies of the embedded grid in the node's data directory: one at a time, for whoever makes a backup of it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from twisted.internet.threads import deferToThreadPool

from iot_mqtt.admin.backup_resources import BackupResources, Busy, CopyInfo
from iot_mqtt.app.config.folders import copies_dir
from iot_mqtt.app.config.sections import Config
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.owner_file import holder
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.grid import Grid

#: Seconds to open a copy, for whoever did not say which process will.
OPENED = 30.0


@dataclass(frozen=True, slots=True)
class _Copy:
    made: float
    #: The process that reads it; None: whoever opens it.
    reader: int | None


class GridCopies:
    """A copy takes room as the grid's files change: what nobody reads any more goes when the next one is made."""

    def __init__(self, grid: EmbeddedGrid, folder: Path, reactor: Any, clock: Clock) -> None:
        self._grid = grid
        self._folder = folder
        self._reactor = reactor
        self._clock = clock
        self._made: dict[str, _Copy] = {}
        self._making = False

    async def make(self, reader: int | None) -> CopyInfo:
        """Raises ``Busy`` and ``OSError``. ``reader``: the number of the process that reads it; it may be killed."""
        now = self._clock.monotonic()
        if self._making or any(self._is_read(id, copy, now) for id, copy in self._made.items()):
            raise Busy("a backup is being made")
        self._making = True
        try:
            self._made.clear()
            await self._removed(self._folder)
            id = token_hex(8)
            await self._grid.copy(self._folder / id)
            self._made[id] = _Copy(now, reader)
        finally:
            self._making = False
        return CopyInfo(id, str(self._folder / id))

    async def remove(self, id: str) -> bool:
        """Whether it was there."""
        if self._made.pop(id, None) is None:
            return False
        await self._removed(self._folder / id)
        return True

    def _is_read(self, id: str, copy: _Copy, now: float) -> bool:
        if copy.reader is not None:
            return _is_there(copy.reader)
        return now - copy.made < OPENED or self._is_open(id)

    def _is_open(self, id: str) -> bool:
        """Whether the process that opened it is there."""
        try:
            return _is_there(holder(self._folder / id))
        except (OSError, ValueError):
            return False

    async def _removed(self, folder: Path) -> None:
        pool = self._reactor.getThreadPool()
        await deferToThreadPool(self._reactor, pool, shutil.rmtree, folder, True)  # noqa: FBT003 - ignore_errors


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:
        return True  # another user's
    except (OSError, OverflowError):
        return False
    return True


def make_backups(config: Config, grid: Grid, reactor: Any, clock: Clock) -> list[BackupResources]:
    """What answers who makes a backup: only a grid in the node's data directory is copied by the node."""
    if not isinstance(grid, EmbeddedGrid):
        return []
    return [BackupResources(GridCopies(grid, copies_dir(config), reactor, clock))]
