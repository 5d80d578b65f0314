"""Every generation, and the streams of those that are in use.

What is new or changed waits in ``changed`` for the next batch.
"""

from __future__ import annotations

from collections import OrderedDict
from math import inf

from iot_mqtt.grid.log.generation import Generation, Stream, read_generation, read_stream, stage_record
from iot_mqtt.grid.log.keys import GENERATIONS, streams_prefix
from iot_mqtt.grid.log.records import CLOSED, OPEN
from iot_mqtt.grid.log.settings import LogSettings
from iot_mqtt.grid.log.structures import CATCH_ALL, Placing
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch, scan

#: Streams of old generations that are kept once they were read; a bound, not a tuning knob.
MAX_LOADED = 100_000

_NOWHERE = Placing(CATCH_ALL, 0, 1)


class Catalogue:
    """``current`` is the open generation of each retention class."""

    def __init__(self, grid: Grid, settings: LogSettings) -> None:
        self._grid = grid
        self._settings = settings
        self.generations: dict[int, Generation] = {}
        self.current: dict[int, Generation] = {}
        self.changed: dict[Generation | Stream, None] = {}
        self._next = 1
        #: Generations that have nothing from this turn on may be unloaded.
        self.recent_turn = 0
        # Those that are loaded and may be unloaded again one day, last wanted last.
        self._old: OrderedDict[Generation, None] = OrderedDict()

    async def load(self) -> None:
        """Read the generations, and the streams of the open ones."""
        classes = {self._settings.filter_of(index): index for index in range(len(self._settings.topics) + 1)}
        async for key, value in scan(self._grid, CacheName.LOG_META, GENERATIONS):
            generation = read_generation(int.from_bytes(key[-4:], "big"), value, classes)
            self.generations[generation.id] = generation
            self._next = generation.id + 1
            if generation.state == OPEN:
                await self.ensure(generation)
                self._adopt(generation, known=generation.filter in classes)

    def _adopt(self, generation: Generation, known: bool) -> None:
        """Go on with an open generation, unless its class is no longer configured."""
        if not known:
            self.close(generation)
            return
        earlier = self.current.get(generation.retention_class)
        if earlier is not None:
            self.close(earlier)
        self._make_current(generation)

    # Streams.

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

    def stream(self, generation: Generation, shard: int, placing: Placing, turn: int) -> Stream:
        """The stream of a placing, new if need be; the shared one if there are too many."""
        found = generation.placed.get((shard, placing))
        if found is None and len(generation.streams) >= self._settings.max_streams:
            placing = _NOWHERE
            found = generation.placed.get((shard, placing))
        if found is None:
            found = Stream(generation.next_stream, generation, shard, placing, turn)
            generation.add(found)
            self.changed[found] = None
        return found

    # Generations.

    def begin(self, retention_class: int, wall: float, position: int) -> Generation:
        """A new generation in the place of the current one."""
        earlier = self.current.get(retention_class)
        if earlier is not None:
            self.close(earlier)
        filter = self._settings.filter_of(retention_class)
        generation = Generation(self._next, retention_class, filter, wall, position)
        self._next += 1
        self.generations[generation.id] = generation
        self._make_current(generation)
        self.changed[generation] = None
        return generation

    def _make_current(self, generation: Generation) -> None:
        self.current[generation.retention_class] = generation
        generation.until = generation.began_at + self._settings.generation_seconds
        generation.full_at = self._settings.generation_bytes_of(generation.retention_class) or inf

    def close(self, generation: Generation) -> None:
        """Nothing more is appended to it."""
        if self.current.get(generation.retention_class) is generation:
            del self.current[generation.retention_class]
        generation.state = CLOSED
        # Nobody places topics in it any more.
        generation.placed = {}
        self.changed[generation] = None
        self._old[generation] = None

    def forget(self, generation: Generation) -> None:
        """It is gone."""
        del self.generations[generation.id]
        self._old.pop(generation, None)
        self.changed.pop(generation, None)
        for stream in generation.in_order:
            self.changed.pop(stream, None)

    def stage(self, batch: WriteBatch, counted: int) -> None:
        """Add what changed to a batch, generations before their streams."""
        changed, self.changed = self.changed, {}
        for item in changed:
            stage_record(batch, item, counted)

    def between(self, first_turn: int, last_turn: int) -> list[Generation]:
        """Generations that may have something in these turns."""
        return [
            generation
            for generation in self.generations.values()
            if generation.first_turn <= last_turn and generation.last_turn >= first_turn
        ]
