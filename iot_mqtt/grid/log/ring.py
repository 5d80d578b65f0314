"""The summaries of a writer's last turns, and where its last start began, as they stand in the grid.

Each shard has a slot for every turn of two blocks, which is written again 512 turns later: by then the index of the
block that the overwritten turn belongs to is there. The summaries of one batch are written last, but in no order
among themselves: each says how many shards its turn has one for, so that a turn that is not complete yet is known.
"""

from __future__ import annotations

from iot_mqtt.grid.log.keys import MAX_TURNS, SLOTS, begun_key, ring_key, ring_prefix, shard_of_ring
from iot_mqtt.grid.log.records import Begun, TurnRecord, decode_begun, decode_turn
from iot_mqtt.ports.grid import CacheName, Grid
from iot_mqtt.ports.scanning import scan

#: Summaries by turn; one for each shard that it wrote to.
Turns = dict[int, list[TurnRecord]]

#: Turns that are asked for at first when the end is sought; later more at once.
_PROBE = 16


class Ring:
    """Reads it. ``shards``: no summary is in a shard from this number on, as far as is known."""

    def __init__(self, grid: Grid, writer: int) -> None:
        self._grid = grid
        self._writer = writer
        self.shards = 0
        # An earlier version did not note the number of shards; their summaries are found by looking at all.
        self._noted = False

    @property
    def extent(self) -> int:
        """The shards that ``read`` looks in; 0: in all there are."""
        return self.shards if self._noted else 0

    async def begun(self) -> Begun | None:
        """Where the writer's last start began; None if it never was there."""
        record = await self._grid.get(CacheName.LOG_META, begun_key(self._writer))
        if record is None:
            return None
        begun = decode_begun(record)
        self._noted = begun.shards > 0
        self.shards = max(self.shards, begun.shards)
        return begun

    async def scan(self) -> Turns:
        """All of it, whatever the shards are."""
        turns: Turns = {}
        async for key, value in scan(self._grid, CacheName.LOG_TURNS, ring_prefix(self._writer)):
            record = decode_turn(value)
            turns.setdefault(record.turn, []).append(record)
            self.shards = max(self.shards, shard_of_ring(key) + 1)
        return turns

    async def read(self, first: int, behind: int) -> Turns:
        """What is in the slots of these turns: they themselves, or what was there before or came after them."""
        if not self._noted:
            return await self.scan()
        turns = range(max(first, behind - SLOTS), behind)
        keys = [ring_key(self._writer, shard, turn) for turn in turns for shard in range(self.shards)]
        found: Turns = {}
        for value in await self._grid.get_many(CacheName.LOG_TURNS, keys):
            if value is not None:
                record = decode_turn(value)
                found.setdefault(record.turn, []).append(record)
        return found

    async def find_end(self, known: int) -> int:
        """The turn behind the last one that is there in full, as all before it are: of those that were there when this
        was called, at least. Every turn before ``known`` is.
        """
        begun = await self.begun()
        if begun is None:
            return known
        # What an earlier start left unfinished stays so.
        turn, step = max(known, begun.turn), _PROBE
        while True:
            behind = turn + step
            turns = await self.read(turn, behind)
            latest = max(turns, default=0)
            if latest >= behind:
                # Far ahead: whatever is not of the newest batch is committed.
                turns = await self.read(latest + 1 - SLOTS, latest + 1)
                behind = max(turns, default=latest) + 1
                turn = max(turn, behind - MAX_TURNS)
                while is_complete(turns.get(turn)):
                    turn += 1
                # All of the ring was seen. To look for what has come meanwhile would be a race against the writer.
                return turn
            while is_complete(turns.get(turn)):
                turn += 1
            if turn < behind:
                return turn
            step = min(step * 4, SLOTS)


def is_complete(records: list[TurnRecord] | None) -> bool:
    """Whether each shard that a turn wrote to has its summary here."""
    return records is not None and len(records) >= records[0].shards
