"""The retention of a log whose writer is gone: nobody else would ever drop what is in it.

Only what is over by time is dropped, counted from when a generation can have taken its last message; so it does no harm
if the writer lives after all: it would have dropped the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from iot_mqtt.grid.log.generation import Generation, read_generation, stage_record
from iot_mqtt.grid.log.keys import generation_key, generation_prefix, generations_prefix, streams_prefix
from iot_mqtt.grid.log.records import DROPPING
from iot_mqtt.grid.log.settings import LogSettings
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch
from iot_mqtt.ports.scanning import scan


async def drop_over(
    grid: Grid, settings: LogSettings, writer: int, wall: float, write_off: Callable[[int], Awaitable[None]]
) -> list[int]:
    """Remove the generations of a writer whose retention is over; their ids. Can be repeated after a failure.

    ``write_off`` counts before that whom it costs what.
    """
    dropped = []
    records = [entry async for entry in scan(grid, CacheName.LOG_META, generations_prefix(writer))]
    for key, record in records:
        id = int.from_bytes(key[-4:], "big")
        generation = read_generation(id, record, settings.classes)
        seconds = settings.seconds_of(generation.retention_class)
        last = generation.began_at + settings.generation_seconds
        if generation.state == DROPPING or 0 < seconds <= wall - last:
            await write_off(id)
            await empty(grid, generation)
            await grid.remove_prefix(CacheName.LOG_META, generation_key(id))
            dropped.append(id)
    return dropped


async def empty(grid: Grid, generation: Generation) -> None:
    """Remove a generation but for its own record, which says until the end that it is being dropped.

    Readers take it for gone from then on, and a writer that comes back finishes what is begun here.
    """
    generation.state = DROPPING
    batch = WriteBatch()
    stage_record(batch, generation, generation.counted)
    await grid.commit(batch)
    for cache in (CacheName.LOG, CacheName.LOG_INDEX):
        await grid.remove_prefix(cache, generation_prefix(generation.id))
    await grid.remove_prefix(CacheName.LOG_META, streams_prefix(generation.id))
