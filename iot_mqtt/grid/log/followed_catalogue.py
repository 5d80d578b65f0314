"""The catalogue of another writer's log, which that writer changes as it likes.

Generations come, close and are dropped; streams are learned. What is unknown here is fetched when something names it:
a turn's summary, a reference, the record of a generation that has more streams than are known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from iot_mqtt.grid.log.catalogue import Catalogue
from iot_mqtt.grid.log.generation import Generation, Stream, read_generation, read_stream
from iot_mqtt.grid.log.keys import generation_key, generations_prefix, stream_key
from iot_mqtt.grid.log.records import DROPPING
from iot_mqtt.grid.log.settings import LogSettings
from iot_mqtt.ports.grid import CacheName, Grid
from iot_mqtt.ports.log import TURN_BITS, writer_of
from iot_mqtt.ports.scanning import scan

#: Stream records of one request.
_STREAMS = 1000


class Named(NamedTuple):
    """What summaries name of one generation."""

    streams: set[int]
    last_turn: int


class FollowedCatalogue(Catalogue):
    """A generation that is being dropped is as good as gone."""

    def __init__(self, writer: int, grid: Grid, settings: LogSettings, forgotten: Callable[[Generation], None]) -> None:
        super().__init__(grid, forgotten)
        self._writer = writer
        self._classes = settings.classes
        # The last turn that was never seen.
        self._missed = -1
        # Generations that their writer is about to drop, with their first positions.
        self._given_up: dict[int, int] = {}

    async def reload(self) -> None:
        """Take over all generations as their records are now."""
        before, listed = list(self.generations), set()
        async for key, value in scan(self._grid, CacheName.LOG_META, generations_prefix(self._writer)):
            id = int.from_bytes(key[-4:], "big")
            listed.add(id)
            self._take(id, value)
        for id in before:
            if id not in listed and id in self.generations:
                self._gone(self.generations[id])
        for id in self._given_up.keys() - listed:
            del self._given_up[id]

    async def give_up(self, id: int) -> bool:
        """Take a generation for gone, whatever its record says until it is. False: it is gone."""
        await self._look([id])
        generation = self.generations.get(id)
        if generation is None:
            return False
        self._given_up[id] = generation.first
        self._gone(generation)
        return True

    async def meet(self, generations: Collection[int]) -> None:
        """Look for those of these generations that are unknown."""
        unknown = [id for id in generations if id not in self.generations and writer_of(id) == self._writer]
        if unknown:
            await self._look(unknown)

    async def confirm(self, generations: Collection[Generation]) -> None:
        if generations:
            await self._look([generation.id for generation in generations])

    async def _look(self, ids: list[int]) -> None:
        records = await self._grid.get_many(CacheName.LOG_META, [generation_key(id) for id in ids])
        for id, record in zip(ids, records, strict=True):
            self._take(id, record)

    def _take(self, id: int, record: bytes | None) -> None:
        known = self.generations.get(id)
        read = None if record is None else read_generation(id, record, self._classes)
        if read is not None and self._given_up.get(id) == read.first:
            read = None
        # A writer that had dropped everything before a start begins its numbers anew.
        if known is not None and (read is None or read.state == DROPPING or read.first != known.first):
            self._gone(known)
            known = None
        if read is None or read.state == DROPPING:
            return
        if known is None:
            self.generations[id] = read
        else:
            known.renew(read)

    def _gone(self, generation: Generation) -> None:
        generation.state = DROPPING
        self.forget(generation)

    def miss(self, first: int, behind: int) -> None:
        """These turns will not be seen: any stream that is loaded may have pages in them."""
        self._missed = behind - 1
        for generation in self.generations.values():
            if generation.loaded and generation.last_turn >= first:
                generation.unseen = behind - 1

    # Streams.

    async def ensure(self, generation: Generation) -> None:
        if not generation.loaded:
            missed = self._missed
            await super().ensure(generation)
            if self._missed != missed:
                # What was read is from before that, perhaps.
                generation.unseen = self._missed
        wanted = generation.recorded_streams
        unknown = wanted - len(generation.in_order)
        if generation.loaded and unknown > 0:
            numbers = range(generation.next_stream + unknown)
            await self._fetch(generation, [id for id in numbers if id not in generation.streams])
            if generation.recorded_streams == wanted:
                # Counted and not written yet; a summary will name them when they are.
                generation.recorded_streams = generation.stream_count

    async def _fetch(self, generation: Generation, ids: Sequence[int]) -> None:
        """Streams that are unknown. The records of a batch come in any order: those that are known say nothing of those
        with lower numbers.
        """
        for start in range(0, len(ids), _STREAMS):
            some = ids[start : start + _STREAMS]
            records = await self._grid.get_many(CacheName.LOG_META, [stream_key(generation.id, id) for id in some])
            for id, record in zip(some, records, strict=True):
                if record is not None and generation.loaded and id not in generation.streams:
                    generation.add(read_stream(id, generation, record))

    async def learn(self, named: Mapping[int, Named]) -> None:
        """Have what summaries name of each generation, as far as it is still there."""
        if any(id not in self.generations for id in named):
            await self.reload()
        for id, (streams, turn) in named.items():
            generation = self.generations.get(id)
            if generation is not None:
                # So that it is not unloaded before it is in use.
                generation.end = max(generation.end, turn << TURN_BITS)
                await self.ensure(generation)
                await self._fetch(generation, sorted(streams - generation.streams.keys()))

    async def stream_of(self, generation: Generation, stream: int) -> Stream | None:
        await self.ensure(generation)
        if stream not in generation.streams:
            await self._fetch(generation, [stream])
        return generation.streams.get(stream)
