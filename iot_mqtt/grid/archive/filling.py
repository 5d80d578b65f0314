"""Filling a grid that has nothing: marked before the first entry, so that nobody takes a part of it for the whole."""

from __future__ import annotations

from typing import Final

from iot_mqtt.grid.archive.copying import Skip, refuse_entries
from iot_mqtt.ports.filling import FILLING_KEY, Mark
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch, remove_all
from iot_mqtt.ports.scanning import scan

#: Removed at once of what an interrupted attempt has left.
_PAGE: Final = 500


async def begin_filling(grid: Grid, mark: Mark, skip: Skip) -> bool:
    """Marked and empty when this returns; whether something was removed that an interrupted attempt has left.

    ``skip`` is also to leave the mark out. Raises ``NotEmpty``, ``Unavailable``.
    """
    if await grid.get(CacheName.META, FILLING_KEY) is None:
        await refuse_entries(grid, skip)
    again = await mark.begin()
    if again:
        await _remove_all(grid, skip)
    await refuse_entries(grid, skip)
    return again


async def _remove_all(grid: Grid, skip: Skip) -> None:
    for cache in CacheName:
        if cache is not CacheName.META:
            await grid.remove_prefix(cache, b"")
    keys = [key async for key, _ in scan(grid, CacheName.META) if not skip(CacheName.META, key)]
    for start in range(0, len(keys), _PAGE):
        batch = WriteBatch()
        remove_all(batch, CacheName.META, keys[start : start + _PAGE])
        await grid.commit(batch)
