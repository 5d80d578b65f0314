"""Marks of the loss identity in the grid: one record for each node."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from iot_mqtt.grid.meta_record import MetaRecord
from iot_mqtt.ports.grid import Grid, WriteBatch
from iot_mqtt.ports.identity import Account, KeptAccount, Mark

#: Of nodes; after so many that have no mark nobody is expected.
LARGEST_NUMBER = 255
MOST_ABSENT = 8


class GridMarks:
    """``ports.identity.Marks`` of one node."""

    __slots__ = ("_record",)

    def __init__(self, grid: Grid, number: int) -> None:
        unreadable = "the kept sums of messages are unreadable and begin anew"
        self._record = MetaRecord(grid, b"identity/%d" % number, read_mark, unreadable)

    async def load(self) -> Mark | None:
        return await self._record.load()

    def stage(self, batch: WriteBatch, mark: Mark) -> None:
        self._record.stage(batch, asdict(mark))


async def kept_accounts(grid: Grid) -> tuple[KeptAccount, ...]:
    """Of all nodes of a cluster that have a mark; numbers are given out one by one."""
    found: list[KeptAccount] = []
    absent = 0
    # 0 is a sole node that was migrated into the cluster.
    for number in range(LARGEST_NUMBER + 1):
        mark = await GridMarks(grid, number).load()
        absent = absent + 1 if mark is None else 0
        if mark is not None:
            found.append(KeptAccount(number, mark.waiting, mark.account))
        if absent == MOST_ABSENT:
            break
    return tuple(found)


def read_mark(fields: dict[str, Any]) -> Mark:
    """From its record."""
    account = Account(**fields["account"])
    numbers = [value for name, value in fields["account"].items() if name not in ("began_at", "dropped")]
    in_memory = fields.get("in_memory", 0)
    if not all(type(number) is int for number in [*numbers, *account.dropped.values(), fields["waiting"], in_memory]):
        raise TypeError("fields of wrong types")
    return Mark(account, fields["waiting"], in_memory, bool(fields["stopped"]))
