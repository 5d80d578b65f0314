"""A start: the last turns are found in their summaries, and with them the blocks that have no index yet."""

from __future__ import annotations

from iot_mqtt.grid.log.catalogue import Catalogue
from iot_mqtt.grid.log.generation import Stream
from iot_mqtt.grid.log.keys import BEGUN, BLOCK_TURNS, RING, block_of
from iot_mqtt.grid.log.recent import Recent
from iot_mqtt.grid.log.records import DROPPING, TurnRecord, decode_begun, decode_turn, encode_begun
from iot_mqtt.grid.log.writing import MAX_TURNS, Writer
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch, scan
from iot_mqtt.ports.log import TURN_BITS


async def recover(grid: Grid, catalogue: Catalogue, recent: Recent, writer: Writer) -> None:
    """Bring everything to where the last committed turn left it."""
    turns: dict[int, list[TurnRecord]] = {}
    async for _, value in scan(grid, CacheName.LOG_TURNS, RING):
        record = decode_turn(value)
        turns.setdefault(record.turn, []).append(record)
    last = max(turns, default=-1)
    first = max(block_of(last) - 1, 0) * BLOCK_TURNS
    recent.first_turn = first
    catalogue.recent_turn = first
    for turn in sorted(turns):
        if turn >= first:
            await _replay(turn, turns[turn], catalogue, recent)
    for generation in catalogue.current.values():
        for stream in generation.in_order:
            writer.learner.remember(stream.structure)
    writer.begin(await _first_turn(grid, last))


async def _first_turn(grid: Grid, last: int) -> int:
    """Where this life begins, noted before it gives out a position.

    The last batch of an earlier one may have been written in part, and other records with it that name its
    positions: the turns it may have had are never used again, even if none of them is there.
    """
    noted = await grid.get(CacheName.LOG_META, BEGUN)
    if noted is not None:
        last = max(last, decode_begun(noted) - 1)
    first = last + MAX_TURNS + 1
    batch = WriteBatch()
    batch.put(CacheName.LOG_META, BEGUN, encode_begun(first))
    await grid.commit(batch)
    return first


async def _replay(turn: int, records: list[TurnRecord], catalogue: Catalogue, recent: Recent) -> None:
    touched: list[Stream] = []
    wall = max(record.wall for record in records)
    end = (turn << TURN_BITS) + sum(page.messages for record in records for page in record.pages)
    for record in records:
        for page in record.pages:
            generation = catalogue.generations.get(page.generation)
            if generation is not None:
                await catalogue.ensure(generation)
            stream = None if generation is None else generation.streams.get(page.stream)
            if generation is None or stream is None or generation.state == DROPPING:
                continue
            touched.append(stream)
            if turn > stream.counted:
                stream.count(turn, page.messages, page.bytes)
            if turn > generation.counted:
                generation.messages += page.messages
                generation.bytes += page.bytes
            generation.end = max(generation.end, end)
            generation.ended_at = max(generation.ended_at, wall)
    recent.staged(turn, wall, touched)
