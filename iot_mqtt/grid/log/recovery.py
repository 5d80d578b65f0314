"""A start: the last turns are found in their summaries, and with them the blocks that have no index yet."""

from __future__ import annotations

from iot_mqtt.grid.log.keys import BLOCK_TURNS, MAX_TURNS, begun_key, block_of
from iot_mqtt.grid.log.own_catalogue import OwnCatalogue
from iot_mqtt.grid.log.recent import Recent
from iot_mqtt.grid.log.records import Begun, encode_begun
from iot_mqtt.grid.log.replaying import pages_of, replay
from iot_mqtt.grid.log.ring import Ring
from iot_mqtt.grid.log.writing import Writer
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch


async def recover(
    number: int, shards: int, grid: Grid, catalogue: OwnCatalogue, recent: Recent, writer: Writer
) -> None:
    """Bring everything to where the last committed turn left it. ``number`` is the writer's, ``shards`` how many it
    goes on with.
    """
    ring = Ring(grid, number)
    begun = await ring.begun()
    turns = await ring.scan()
    last = max(turns, default=-1)
    first = max(block_of(last) - 1, 0) * BLOCK_TURNS
    recent.first_turn = first
    catalogue.recent_turn = first
    for turn in sorted(turns):
        if turn >= first:
            for page in pages_of(turns[turn]):
                if page.generation in catalogue.generations:
                    await catalogue.ensure(catalogue.generations[page.generation])
            replay(turn, turns[turn], catalogue, recent)
    for generation in catalogue.current.values():
        for stream in generation.in_order:
            writer.learner.remember(stream.structure)
    if begun is not None:
        last = max(last, begun.turn - 1)
    writer.open(await _first_turn(grid, number, last, max(shards, ring.shards)))


async def _first_turn(grid: Grid, number: int, last: int, shards: int) -> int:
    """Where this life begins, noted before it gives out a position.

    The last batch of an earlier one may have been written in part, and other records with it that name its
    positions: the turns it may have had are never used again, even if none of them is there.
    """
    first = last + MAX_TURNS + 1
    batch = WriteBatch()
    batch.put(CacheName.LOG_META, begun_key(number), encode_begun(Begun(first, shards)))
    await grid.commit(batch)
    return first
