"""What belongs to a copy of the log that is made while it is written: all up to one turn of each writer.

The summaries of turns are read first, twice: those of turns that the first reading has seen are all in the second one,
as long as the writer has not begun another block meanwhile (then it may have written over some, and it is tried again).
What is behind the last of them was acknowledged after the copy had begun: its pages stay out, and so do the indexes of
blocks that were not full then, because a start makes them of the summaries. A generation that is dropped while its
pages are read is said to be in the course of it, and the next start finishes that.
"""

from __future__ import annotations

from typing import Final

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.log.generation import as_dropped
from iot_mqtt.grid.log.keys import block_of, place_of, ring_prefix, writer_of_ring
from iot_mqtt.grid.log.records import decode_turn
from iot_mqtt.ports.grid import CacheName, Grid, Pair
from iot_mqtt.ports.scanning import scan

#: How often the summaries of a writer are read before its speed is a reason to give up.
_TRIES: Final = 20


class Cut:
    """``begin``, then it is shown every entry of LOG_META, and says which of LOG_INDEX and LOG belong to the copy."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._last: dict[int, int] = {}
        self._generations: dict[bytes, bytes] = {}

    async def begin(self) -> list[Pair]:
        """The summaries that belong to the copy; raises ``Unavailable`` where a writer is faster than they are read."""
        seen: dict[int, int] = {}
        async for key, value in scan(self._grid, CacheName.LOG_TURNS):
            writer = writer_of_ring(key)
            seen[writer] = max(seen.get(writer, -1), decode_turn(value).turn)
        return [entry for writer, turn in sorted(seen.items()) for entry in await self._summaries(writer, turn)]

    def keeps(self, cache: CacheName, key: bytes, value: bytes) -> bool:
        if cache is CacheName.LOG_META and key.startswith(b"g"):
            self._generations[key] = value
        elif cache is CacheName.LOG:
            writer, turn = place_of(key)
            return turn <= self._last.get(writer, -1)
        elif cache is CacheName.LOG_INDEX:
            writer, block = place_of(key)
            return block < block_of(self._last.get(writer, -1))
        return True

    async def changed(self) -> list[Pair]:
        """Records that take the place of those that were shown, once all of the log was read."""
        now = {key: value async for key, value in scan(self._grid, CacheName.LOG_META, b"g")}
        return [
            (key, as_dropped(record))
            for key, record in self._generations.items()
            if now.get(key) is None or now[key] == as_dropped(now[key])
        ]

    async def _summaries(self, writer: int, last: int) -> list[Pair]:
        for _ in range(_TRIES):
            entries = [
                (key, value, decode_turn(value).turn)
                async for key, value in scan(self._grid, CacheName.LOG_TURNS, ring_prefix(writer))
            ]
            latest = max(turn for _, _, turn in entries)
            if block_of(latest) == block_of(last):
                self._last[writer] = last
                return [(key, value) for key, value, turn in entries if turn <= last]
            last = latest
        raise Unavailable(f"the log of writer {writer} is written faster than the summaries of its turns can be read")
