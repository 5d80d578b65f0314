"""Every generation of a log, and the streams of those that are in use, for readers.

``OwnCatalogue`` adds what the writer needs, ``FollowedCatalogue`` what is needed to read another writer's log.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection

from iot_mqtt.grid.log.generation import Generation, Stream, read_stream
from iot_mqtt.grid.log.keys import streams_prefix
from iot_mqtt.grid.log.records import DROPPING, OPEN
from iot_mqtt.ports.grid import CacheName, Grid
from iot_mqtt.ports.log import Breath, Reference, StreamInfo
from iot_mqtt.ports.scanning import scan

#: Streams of old generations that are kept once they were read; a bound, not a tuning knob.
MAX_LOADED = 100_000
#: Streams that are told about before others have a turn.
STREAMS_AT_ONCE = 250


class Catalogue:
    """The generations by id."""

    def __init__(self, grid: Grid, forgotten: Callable[[Generation], None]) -> None:
        """``forgotten`` is told of each generation that is gone."""
        self._grid = grid
        self._forgotten = forgotten
        self.generations: dict[int, Generation] = {}
        #: Generations that have nothing from this turn on may be unloaded.
        self.recent_turn = 0
        # Those that are loaded and may be unloaded again one day, last wanted last.
        self._old: OrderedDict[Generation, None] = OrderedDict()

    async def ensure(self, generation: Generation) -> None:
        """Have the streams of a generation in memory when this returns."""
        if generation in self._old:
            self._old.move_to_end(generation)
        if generation.loaded:
            return
        streams = []
        async for key, value in scan(self._grid, CacheName.LOG_META, streams_prefix(generation.id)):
            streams.append(read_stream(int.from_bytes(key[-4:], "big"), generation, value))
        if generation in self._old:  # loaded by somebody else meanwhile
            return
        generation.loaded = True
        for stream in streams:
            generation.add(stream)
        self._old[generation] = None
        self._unload(generation)

    def _unload(self, keep: Generation) -> None:
        """Forget the streams that were wanted longest ago, if there are too many."""
        loaded = sum(len(generation.in_order) for generation in self._old)
        for generation in list(self._old):
            if loaded <= MAX_LOADED:
                return
            if generation is not keep and generation.state != OPEN and generation.last_turn < self.recent_turn:
                loaded -= len(generation.in_order)
                del self._old[generation]
                generation.unload()

    async def infos(self, generation: int | None, breath: Breath | None = None) -> list[StreamInfo]:
        """Of the streams of a generation, or of all; ``breath`` is awaited now and then."""
        found: list[StreamInfo] = []
        for owner in list(self.generations.values()):
            if generation in (None, owner.id):
                await self.ensure(owner)
                streams = list(owner.in_order)
                for begin in range(0, len(streams), STREAMS_AT_ONCE):
                    if begin and breath is not None:
                        await breath()
                    found += [stream.info() for stream in streams[begin : begin + STREAMS_AT_ONCE]]
        return found

    async def find(self, reference: Reference) -> Stream | None:
        """The stream of some messages; None if it is gone, or never was."""
        generation = self.generations.get(reference.generation)
        if generation is None or generation.state == DROPPING or reference.position < generation.first:
            return None
        return await self.stream_of(generation, reference.stream)

    async def stream_of(self, generation: Generation, stream: int) -> Stream | None:
        """One of its streams, by number."""
        await self.ensure(generation)
        return generation.streams.get(stream)

    async def confirm(self, generations: Collection[Generation]) -> None:
        """Pages of these generations are missing: see whether somebody else has dropped them meanwhile."""

    def between(self, first_turn: int, last_turn: int) -> list[Generation]:
        """Generations that may have something in these turns."""
        return [
            generation
            for generation in self.generations.values()
            if generation.first_turn <= last_turn and generation.last_turn >= first_turn
        ]

    def forget(self, generation: Generation) -> None:
        """It is gone."""
        del self.generations[generation.id]
        self._old.pop(generation, None)
        self._forgotten(generation)
