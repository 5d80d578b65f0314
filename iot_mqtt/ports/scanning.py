"""Reading all that a cache of the grid has under a prefix."""

from __future__ import annotations

from collections.abc import AsyncIterator

from iot_mqtt.ports.grid import CacheName, Grid, Pair


async def scan(grid: Grid, cache: CacheName, prefix: bytes = b"", page: int = 1000) -> AsyncIterator[Pair]:
    """Every entry under a prefix, a page at a time."""
    after: bytes | None = None
    while True:
        entries = await grid.page(cache, prefix, after, page)
        for entry in entries:
            yield entry
        if len(entries) < page:
            return
        after = entries[-1][0]
