"""Marks of the loss identity in the grid: one record for each node."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from typing import Any

from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch
from iot_mqtt.ports.identity import Account, Mark

log = logging.getLogger(__name__)

VERSION = 1


class GridMarks:
    """``ports.identity.Marks`` of one node."""

    __slots__ = ("_grid", "_key")

    def __init__(self, grid: Grid, number: int) -> None:
        self._grid = grid
        self._key = b"identity/%d" % number

    async def load(self) -> Mark | None:
        record = await self._grid.get(CacheName.META, self._key)
        if record is None:
            return None
        try:
            return _read(json.loads(record))
        except (ValueError, TypeError, KeyError) as error:
            log.error("the kept sums of messages are unreadable and begin anew: %s", error)
            return None

    def stage(self, batch: WriteBatch, mark: Mark) -> None:
        batch.put(CacheName.META, self._key, json.dumps({"v": VERSION, **asdict(mark)}).encode())


def _read(fields: dict[str, Any]) -> Mark:
    if fields["v"] != VERSION:
        raise ValueError(f"version {fields['v']!r}")
    account = Account(**fields["account"])
    numbers = [value for name, value in fields["account"].items() if name not in ("began_at", "dropped")]
    if not all(type(number) is int for number in [*numbers, *account.dropped.values(), fields["waiting"]]):
        raise TypeError("fields of wrong types")
    return Mark(account, fields["waiting"], bool(fields["stopped"]))
