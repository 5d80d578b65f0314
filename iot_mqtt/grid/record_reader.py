"""Records of any grid, as what they mean: decoded one by one, with those left out that cannot be."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from iot_mqtt.grid.records.base import Unreadable
from iot_mqtt.grid.records.keys import client_prefix, session_key
from iot_mqtt.ports.grid import CacheName, Grid
from iot_mqtt.ports.scanning import scan

log = logging.getLogger(__name__)

T = TypeVar("T")


class RecordReader:
    """A record that cannot be read stays where it is, and is told."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    async def entries(self, cache: CacheName, client_id: str | None = None) -> AsyncIterator[tuple[bytes, bytes]]:
        """Everybody's entries of a cache or, from the caches that have several of each, one client's."""
        async for entry in scan(self._grid, cache, b"" if client_id is None else client_prefix(client_id)):
            yield entry

    async def records(
        self, cache: CacheName, decode: Callable[[bytes], T], client_id: str | None = None
    ) -> AsyncIterator[tuple[bytes, T]]:
        """The same entries, decoded."""
        async for key, value in self.entries(cache, client_id):
            try:
                yield key, decode(value)
            except Unreadable as error:
                _tell(cache, error)

    async def single(
        self, cache: CacheName, decode: Callable[[bytes], T], client_id: str | None
    ) -> AsyncIterator[tuple[bytes, T]]:
        """Likewise of the caches whose keys are client ids: one client has one record."""
        if client_id is None:
            async for entry in self.records(cache, decode):
                yield entry
            return
        key = session_key(client_id)
        value = await self._grid.get(cache, key)
        if value is not None:
            try:
                yield key, decode(value)
            except Unreadable as error:
                _tell(cache, error)


def _tell(cache: CacheName, error: Unreadable) -> None:
    log.error("a record of %s can't be read: %s", cache.value, error)
