"""The catalogue of the log that is written here: what is open, and what is new.

What is new or changed waits in ``changed`` for the next batch.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.log.catalogue import Catalogue
from iot_mqtt.grid.log.ceiling import Ceiling
from iot_mqtt.grid.log.generation import Generation, Stream, read_generation, stage_record
from iot_mqtt.grid.log.keys import generations_prefix
from iot_mqtt.grid.log.records import CLOSED, OPEN
from iot_mqtt.grid.log.settings import LogSettings
from iot_mqtt.grid.log.structures import CATCH_ALL, Placing
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch
from iot_mqtt.ports.log import WRITER_SHIFT, writer_of
from iot_mqtt.ports.scanning import scan

_NOWHERE = Placing(CATCH_ALL, 0, 1)


class OwnCatalogue(Catalogue):
    """``current`` is the open generation of each retention class."""

    def __init__(
        self,
        writer: int,
        grid: Grid,
        settings: LogSettings,
        ceiling: Ceiling,
        clock: Clock,
        forgotten: Callable[[Generation], None],
    ) -> None:
        super().__init__(grid, forgotten)
        self._writer = writer
        self._settings = settings
        self._ceiling = ceiling
        self._clock = clock
        #: Of retention: as of the last look, or of the newest record; None: there is neither.
        self.time: float | None = None
        self.current: dict[int, Generation] = {}
        self.changed: dict[Generation | Stream, None] = {}
        self._next = (writer << WRITER_SHIFT) + 1

    async def load(self) -> None:
        """Read the generations, and the streams of the open ones."""
        classes = self._settings.classes
        async for key, value in scan(self._grid, CacheName.LOG_META, generations_prefix(self._writer)):
            generation = read_generation(int.from_bytes(key[-4:], "big"), value, classes)
            self.generations[generation.id] = generation
            self._next, self.time = generation.id + 1, generation.known_time
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

    def begin(self, retention_class: int, wall: float, position: int) -> Generation:
        """A new generation in the place of the current one."""
        if writer_of(self._next) != self._writer:
            raise Unavailable("the log has no more numbers for generations; let them be larger, and begin a new log")
        earlier = self.current.get(retention_class)
        if earlier is not None:
            self.close(earlier)
        filter = self._settings.filter_of(retention_class)
        generation = Generation(self._next, retention_class, filter, wall, position)
        generation.offset = wall - self._clock.monotonic()
        self._next += 1
        self.generations[generation.id] = generation
        self._make_current(generation)
        self.changed[generation] = None
        return generation

    def _make_current(self, generation: Generation) -> None:
        self.current[generation.retention_class] = generation
        generation.until = generation.began_at + self._settings.generation_seconds
        self._limit(generation)

    def limited(self) -> None:
        """The ceiling has moved."""
        for generation in self.current.values():
            self._limit(generation)

    def _limit(self, generation: Generation) -> None:
        limits = (self._settings.generation_bytes_of(generation.retention_class), self._ceiling.generation_bytes)
        generation.full_at = min((limit for limit in limits if limit), default=inf)

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
        super().forget(generation)
        self.written_off(generation)

    def written_off(self, generation: Generation) -> None:
        """It is being dropped: whoever does that writes what is to be written of it."""
        self.changed.pop(generation, None)
        for stream in generation.in_order:
            self.changed.pop(stream, None)

    def stage(self, batch: WriteBatch, counted: int, ticket: int) -> None:
        """Add what changed to a batch, generations before their streams."""
        changed, self.changed = self.changed, {}
        for item in changed:
            generation = item if isinstance(item, Generation) else item.generation
            generation.ticket = ticket
            if self.time is not None:
                generation.known_time = self.time
            stage_record(batch, item, counted)
