"""Between a grid and an archive.

On a grid that others write meanwhile, each cache is read at a moment of its own. What refers to something is read
before that: progress before the log. And the log is cut at one turn of each writer (``grid.log.cutting``). So the copy
is a state that a crash could have left behind, no older than its beginning: what was acknowledged before that is in
it, and what clients acknowledged while it was made may come once more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

from iot_mqtt.grid.archive.records import ArchiveReader, ArchiveWriter, Sums
from iot_mqtt.grid.log.cutting import Cut
from iot_mqtt.ports.grid import CacheName, Grid, Pair, WriteBatch
from iot_mqtt.ports.scanning import scan

#: What refers to others comes before them.
ORDER: Final = (
    CacheName.META,
    CacheName.CHANNELS,
    CacheName.PROGRESS,
    CacheName.SHARES,
    CacheName.GROUPS,
    CacheName.PUBREL,
    CacheName.DUP,
    CacheName.RECEIVED,
    CacheName.QUEUE,
    CacheName.WILLS,
    CacheName.SUBSCRIPTIONS,
    CacheName.ROUTES,
    CacheName.SESSIONS,
    CacheName.RETAINED,
    CacheName.DEVICES,
    CacheName.SHADOWS,
    CacheName.COMMANDS,
    CacheName.PLUGINS,
    CacheName.SEGMENTS,
    CacheName.LOG_TURNS,
    CacheName.LOG_META,
    CacheName.LOG_INDEX,
    CacheName.LOG,
)
#: An entry of these may be as large as a page of the log.
_BULKY: Final = frozenset((CacheName.LOG, CacheName.LOG_INDEX, CacheName.PLUGINS))
_PAGE: Final = 1000
_BULKY_PAGE: Final = 32
#: A batch on its way into a grid.
_BATCH_ENTRIES: Final = 1000
_BATCH_BYTES: Final = 1 << 20

#: Whether an entry stays out, because each grid makes its own.
Skip = Callable[[CacheName, bytes], bool]


class NotEmpty(Exception):
    """The grid has entries already."""


async def copy_from(grid: Grid, archive: ArchiveWriter, skip: Skip) -> None:
    """All entries of the grid, each once."""
    async for cache, key, value in entries_of(grid, skip):
        archive.add(cache, key, value)


async def entries_of(grid: Grid, skip: Skip) -> AsyncIterator[tuple[CacheName, bytes, bytes]]:
    """All entries of the grid, each once, in the order in which they may be written elsewhere."""
    cut, generations = Cut(grid), dict[bytes, bytes]()
    for cache in ORDER:
        if cache is CacheName.LOG_TURNS:
            for key, value in await cut.begin():
                yield cache, key, value
            continue
        async for key, value in _entries(grid, cache, skip):
            if not cut.keeps(cache, key, value):
                continue
            if cache is CacheName.LOG_META:
                generations[key] = value
            else:
                yield cache, key, value
    generations.update(await cut.changed())
    for key, value in generations.items():
        yield CacheName.LOG_META, key, value


async def copy_into(grid: Grid, archive: ArchiveReader, take_file: Callable[[str, bytes], None]) -> None:
    """All entries of the archive, into a grid that has none (``filling``); raises ``BadArchive``."""
    loading = Loading(grid)
    for place, key, value in archive:
        if place is None:
            take_file(key.decode(), value)
        else:
            await loading.put(place, key, value)
    await loading.end()


async def refuse_entries(grid: Grid, skip: Skip) -> None:
    """Raises ``NotEmpty`` if the grid has any."""
    for cache in ORDER:
        async for _ in _entries(grid, cache, skip):
            raise NotEmpty(f"the grid is not empty: there is something in {cache.value}")


class Loading:
    """Puts entries into a grid, many in a batch."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._batch = WriteBatch()
        self._size = 0

    async def put(self, cache: CacheName, key: bytes, value: bytes) -> None:
        """Now, or with those that come after it."""
        self._batch.put(cache, key, value)
        self._size += len(key) + len(value)
        if len(self._batch) >= _BATCH_ENTRIES or self._size >= _BATCH_BYTES:
            await self.end()

    async def end(self) -> None:
        """Everything that was put is safe when this returns."""
        batch, self._batch, self._size = self._batch, WriteBatch(), 0
        if batch:
            await self._grid.commit(batch)


async def sums_of(grid: Grid, skip: Skip) -> Sums:
    """What an archive of it would say at its end, but for files."""
    sums = Sums()
    for cache in ORDER:
        async for key, value in _entries(grid, cache, skip):
            sums.add_entry(cache, key, value)
    return sums


async def _entries(grid: Grid, cache: CacheName, skip: Skip) -> AsyncIterator[Pair]:
    async for key, value in scan(grid, cache, page=_BULKY_PAGE if cache in _BULKY else _PAGE):
        if not skip(cache, key):
            yield key, value
