"""The place of the uplink in the grid: one record for each writer's log."""

from __future__ import annotations

from typing import Any

from iot_mqtt.grid.meta_record import MetaRecord
from iot_mqtt.ports.grid import Grid, WriteBatch
from iot_mqtt.ports.uplink import Place


class GridPlaces:
    """``ports.uplink.Places`` for the log of one writer."""

    __slots__ = ("_record",)

    def __init__(self, grid: Grid, writer: int) -> None:
        # Its sink may still know; a new spool sends nothing twice under an old id.
        unreadable = "the place of the uplink is unreadable, it begins anew"
        self._record = MetaRecord(grid, b"uplink/%d" % writer, _read, unreadable)

    async def load(self) -> Place | None:
        return await self._record.load()

    def stage(self, batch: WriteBatch, place: Place) -> None:
        self._record.stage(batch, place._asdict())

    async def swap(self, before: Place, after: Place) -> bool:
        """Of a writer that is gone: move it, unless somebody else has."""
        return await self._record.swap(before, after._asdict())


def _read(fields: dict[str, Any]) -> Place:
    numbers = [fields[name] for name in Place._fields[1:]]
    spool = fields["spool"]
    if not isinstance(spool, str) or not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise ValueError("fields of wrong types")
    return Place(spool, *numbers)
