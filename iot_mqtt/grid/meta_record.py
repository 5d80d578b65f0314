"""One record of the cache ``meta``: fields as JSON, with a version."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from iot_mqtt.errors import Unavailable
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
        """None: there is none, or it is damaged. ``Unavailable``: a later version wrote it, and it is not to be begun
        anew.
        """
        record = await self._grid.get(CacheName.META, self._key)
        if record is None:
            return None
        try:
            fields = json.loads(record)
            refuse_later(fields, f"the record {self._key.decode()} of META")
            if fields["v"] != VERSION:
                raise ValueError(f"version {fields['v']!r}")
            return self._read(fields)
        except (ValueError, TypeError, KeyError) as error:
            log.error("%s: %s", self._unreadable, error)
            return None

    async def swap(self, before: Value, fields: Mapping[str, object]) -> bool:
        """Write it where it still says what it said ``before``."""
        record = await self._grid.get(CacheName.META, self._key)
        if record is None or await self.load() != before:
            return False
        return await self._grid.compare_and_set(CacheName.META, self._key, record, _encoded(fields))

    def stage(self, batch: WriteBatch, fields: Mapping[str, object]) -> None:
        """Write it with this batch."""
        batch.put(CacheName.META, self._key, _encoded(fields))


def refuse_later(fields: Any, what: str) -> None:
    """Raises ``Unavailable`` if a later version wrote them."""
    version = fields["v"]
    if type(version) is int and version > VERSION:
        raise Unavailable(f"{what} was written by a later version (format {version}; this one reads {VERSION})")


def _encoded(fields: Mapping[str, object]) -> bytes:
    return json.dumps({"v": VERSION, **fields}).encode()
