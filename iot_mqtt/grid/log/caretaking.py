"""The retention of a log whose writer is gone: nobody else would ever drop what is in it.

Only what is over by time is dropped, counted from when a generation can have taken its last message; so it does no harm
if the writer lives after all: it would have dropped the same.
"""

from __future__ import annotations

from dataclasses import replace

from iot_mqtt.grid.log.generation import read_generation
from iot_mqtt.grid.log.keys import generation_key, generation_prefix, generations_prefix, streams_prefix
from iot_mqtt.grid.log.records import DROPPING, decode_generation, encode_generation
from iot_mqtt.grid.log.settings import LogSettings
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch, scan


async def drop_over(grid: Grid, settings: LogSettings, writer: int, wall: float) -> list[int]:
    """Remove the generations of a writer whose retention is over; their ids. Can be repeated after a failure."""
    dropped = []
    records = [entry async for entry in scan(grid, CacheName.LOG_META, generations_prefix(writer))]
    for key, record in records:
        id = int.from_bytes(key[-4:], "big")
        generation = read_generation(id, record, settings.classes)
        seconds = settings.seconds_of(generation.retention_class)
        last = generation.began_at + settings.generation_seconds
        if generation.state == DROPPING or 0 < seconds <= wall - last:
            await _drop(grid, id, record)
            dropped.append(id)
    return dropped


async def _drop(grid: Grid, id: int, record: bytes) -> None:
    batch = WriteBatch()
    # Readers take it for gone from now on, and a writer that comes back finishes what is begun here.
    batch.put(
        CacheName.LOG_META, generation_key(id), encode_generation(replace(decode_generation(record), state=DROPPING))
    )
    await grid.commit(batch)
    for cache in (CacheName.LOG, CacheName.LOG_INDEX):
        await grid.remove_prefix(cache, generation_prefix(id))
    await grid.remove_prefix(CacheName.LOG_META, streams_prefix(id))
    await grid.remove_prefix(CacheName.LOG_META, generation_key(id))
