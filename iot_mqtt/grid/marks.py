"""Marks of the loss identity in the grid: one record for each node."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from iot_mqtt.grid.meta_record import MetaRecord
from iot_mqtt.ports.grid import Grid, WriteBatch
from iot_mqtt.ports.identity import Account, Mark


class GridMarks:
    """``ports.identity.Marks`` of one node."""

    __slots__ = ("_record",)

    def __init__(self, grid: Grid, number: int) -> None:
        unreadable = "the kept sums of messages are unreadable and begin anew"
        self._record = MetaRecord(grid, b"identity/%d" % number, _read, unreadable)

    async def load(self) -> Mark | None:
        return await self._record.load()

    def stage(self, batch: WriteBatch, mark: Mark) -> None:
        self._record.stage(batch, asdict(mark))


def _read(fields: dict[str, Any]) -> Mark:
    account = Account(**fields["account"])
    numbers = [value for name, value in fields["account"].items() if name not in ("began_at", "dropped")]
    if not all(type(number) is int for number in [*numbers, *account.dropped.values(), fields["waiting"]]):
        raise TypeError("fields of wrong types")
    return Mark(account, fields["waiting"], bool(fields["stopped"]))
