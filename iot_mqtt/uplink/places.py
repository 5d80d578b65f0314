"""The place of the uplink in the grid: one record for each writer's log."""

from __future__ import annotations

import json
import logging

from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch
from iot_mqtt.ports.uplink import Place

log = logging.getLogger(__name__)

VERSION = 1


class GridPlaces:
    """``ports.uplink.Places`` for the log of one writer."""

    __slots__ = ("_grid", "_key")

    def __init__(self, grid: Grid, writer: int) -> None:
        self._grid = grid
        self._key = b"uplink/%d" % writer

    async def load(self) -> Place | None:
        record = await self._grid.get(CacheName.META, self._key)
        if record is None:
            return None
        try:
            return _read(json.loads(record))
        except (ValueError, TypeError, KeyError) as error:
            # Its sink may still know; a new spool sends nothing twice under an old id.
            log.error("the place of the uplink is unreadable, it begins anew: %s", error)
            return None

    def stage(self, batch: WriteBatch, place: Place) -> None:
        batch.put(CacheName.META, self._key, json.dumps({"v": VERSION, **place._asdict()}).encode())


def _read(fields: dict[str, object]) -> Place:
    if fields["v"] != VERSION:
        raise ValueError(f"version {fields['v']!r}")
    numbers = [fields[name] for name in Place._fields[1:]]
    spool = fields["spool"]
    if not isinstance(spool, str) or not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise ValueError("fields of wrong types")
    return Place(spool, *numbers)  # type: ignore[arg-type]
