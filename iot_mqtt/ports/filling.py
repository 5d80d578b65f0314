"""The mark of a grid that a command fills from somewhere else: until that is over the grid is nobody's.

::

    META      migration     {"v": 1, "by": "iot-mqtt backup restore", "source": "...", "token": "..."}
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple, Self

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.grid import CacheName, Grid

#: ``iot-mqtt migrate`` was the first to leave it.
FILLING_KEY: Final = b"migration"
VERSION: Final = 1


class Unfinished(Exception):
    """Nobody uses this grid before the command is run to its end; for people."""


class Filler(NamedTuple):
    """Who fills a grid, and what goes on with it after an interruption."""

    by: str
    #: Another source does not finish what was begun from this one.
    source: str

    def __str__(self) -> str:
        return f"{self.by} from {self.source}" if self.source else self.by

    @classmethod
    def of(cls, record: bytes) -> Self:
        """What a mark says, also one that a later version wrote."""
        try:
            fields = json.loads(record)
            return cls(str(fields.get("by", "iot-mqtt migrate")), str(fields["source"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls("a command", "somewhere that this version cannot read")


class Mark:
    """Of one attempt."""

    def __init__(self, grid: Grid, filler: Filler, token: str) -> None:
        self._grid = grid
        self._filler = filler
        self._record = json.dumps({"v": VERSION, **filler._asdict(), "token": token}).encode()

    async def begin(self) -> bool:
        """Whether an earlier attempt was interrupted: what it has left is to be removed."""
        before = await self._grid.get(CacheName.META, FILLING_KEY)
        if before is not None and (earlier := Filler.of(before)) != self._filler:
            raise Unavailable(f"{earlier} was filling this grid, and was interrupted: finish that first")
        if not await self._grid.compare_and_set(CacheName.META, FILLING_KEY, before, self._record):
            raise Unavailable("another command has just begun to fill this grid")
        return before is not None

    async def end(self) -> None:
        """The grid may be used."""
        if not await self._grid.compare_and_set(CacheName.META, FILLING_KEY, self._record, None):
            raise Unavailable("another command has begun to fill this grid meanwhile")


async def refuse_unfinished(grid: Grid) -> None:
    """Raises ``Unfinished``."""
    record = await grid.get(CacheName.META, FILLING_KEY)
    if record is not None:
        filler = Filler.of(record)
        raise Unfinished(f"{filler.by} is filling this grid, or was interrupted: run it again, to its end")
