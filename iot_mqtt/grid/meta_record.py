"""One record of the cache ``meta``: fields as JSON, with a version."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch

log = logging.getLogger(__name__)

VERSION = 1
Value = TypeVar("Value")


class MetaRecord(Generic[Value]):
    """``read`` makes the value of its fields; of wrong ones it raises ValueError, TypeError or KeyError."""

    __slots__ = ("_grid", "_key", "_read", "_unreadable")

    def __init__(self, grid: Grid, key: bytes, read: Callable[[dict[str, Any]], Value], unreadable: str) -> None:
        """``unreadable``: what the log says then, before the reason."""
        self._grid = grid
        self._key = key
        self._read = read
        self._unreadable = unreadable

    async def load(self) -> Value | None:
        """None: there is none that can be read."""
        record = await self._grid.get(CacheName.META, self._key)
        if record is None:
            return None
        try:
            fields = json.loads(record)
            if fields["v"] != VERSION:
                raise ValueError(f"version {fields['v']!r}")
            return self._read(fields)
        except (ValueError, TypeError, KeyError) as error:
            log.error("%s: %s", self._unreadable, error)
            return None

    def stage(self, batch: WriteBatch, fields: Mapping[str, object]) -> None:
        """Write it with this batch."""
        batch.put(CacheName.META, self._key, json.dumps({"v": VERSION, **fields}).encode())
