"""Which generations are due, and how one is removed whole."""

from __future__ import annotations

from iot_mqtt.grid.log.caretaking import empty
from iot_mqtt.grid.log.ceiling import Ceiling
from iot_mqtt.grid.log.generation import Generation
from iot_mqtt.grid.log.keys import block_of, generation_key, times_key
from iot_mqtt.grid.log.own_catalogue import OwnCatalogue
from iot_mqtt.grid.log.records import CLOSED, DROPPING, OPEN
from iot_mqtt.grid.log.settings import LogSettings
from iot_mqtt.grid.log.writing import Writer
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch
from iot_mqtt.ports.log import GenerationInfo
from iot_mqtt.ports.store import Store

_TIMES_PER_BATCH = 1000


class Retention:
    """The rules, and the removal."""

    def __init__(
        self,
        number: int,
        grid: Grid,
        store: Store,
        clock: Clock,
        settings: LogSettings,
        catalogue: OwnCatalogue,
        writer: Writer,
        ceiling: Ceiling,
    ) -> None:
        self._number = number
        self._writer = writer
        self._ceiling = ceiling
        self._grid = grid
        self._store = store
        self._clock = clock
        self._settings = settings
        self._catalogue = catalogue

    def due(self, wall: float, doubted: float = 0.0) -> list[GenerationInfo]:
        """See the port. An open generation whose period is over is closed first."""
        self._close_old(wall)
        time = self._catalogue.time = wall - doubted
        sizes: dict[int, int] = {}
        for generation in self._catalogue.generations.values():
            sizes[generation.retention_class] = sizes.get(generation.retention_class, 0) + generation.bytes
        found: list[Generation] = []
        for generation in self._catalogue.generations.values():
            if self._is_due(generation, time, sizes[generation.retention_class]):
                sizes[generation.retention_class] -= generation.bytes
                found.append(generation)
        found += self._over_ceiling(found)
        return [generation.info() for generation in found]

    def _over_ceiling(self, due: list[Generation]) -> list[Generation]:
        """What else goes because the grid has no more room, the oldest first."""
        left = [generation for generation in self._catalogue.generations.values() if generation not in due]
        size, limit = sum(generation.bytes for generation in left), self._ceiling.bytes
        closed = sorted((one for one in left if one.state == CLOSED), key=lambda one: one.end)
        found: list[Generation] = []
        while closed and 0 < limit < size:
            found.append(closed.pop(0))
            size -= found[-1].bytes
        if due or found or size <= self._ceiling.rest or not self._ceiling.pressed():
            return found
        if closed:
            return closed[:1]
        # Nothing of it could go; the next time this one can.
        for generation in list(self._catalogue.current.values()):
            self._close(generation)
        return []

    def _close(self, generation: Generation) -> None:
        self._catalogue.close(generation)
        self._store.reserve()

    def _close_old(self, wall: float) -> None:
        """Also one that began by another clock than that of now, ahead or behind."""
        for generation in list(self._catalogue.current.values()):
            if abs(wall - generation.began_at) >= self._settings.generation_seconds:
                self._close(generation)

    def _is_due(self, generation: Generation, time: float, size: int) -> bool:
        if generation.state != CLOSED:
            return generation.state == DROPPING
        seconds = self._settings.seconds_of(generation.retention_class)
        limit = self._settings.bytes_of(generation.retention_class)
        return 0 < seconds <= time - self._ended(generation, time) or 0 < limit < size

    def _ended(self, generation: Generation, time: float) -> float:
        """When it has taken its last message, by the clock that ``time`` is of. That of this life is as old as the
        monotonic clock says, whatever the wall clock said meanwhile.
        """
        ended = max(generation.began_at, generation.ended_at)
        if generation.offset is None:
            return ended
        return ended - generation.offset + time - self._clock.monotonic()

    async def drop(self, id: int) -> None:
        """See the port. It can be tried again after a failure, also after a start."""
        generation = self._catalogue.generations.get(id)
        if generation is None:
            return
        if generation.state == OPEN:
            raise ValueError(f"generation {id} still takes messages")
        # From now on no batch writes anything of it; wait for those that do, but for no other: a full grid may take
        # none until this has made room.
        generation.state = DROPPING
        self._catalogue.written_off(generation)
        if generation.ticket > self._store.committed or generation.end > self._writer.committed_end:
            await self._store.settled()
        await empty(self._grid, generation)
        await self._remove_times(generation)
        await self._grid.remove_prefix(CacheName.LOG_META, generation_key(id))
        if id in self._catalogue.generations:
            self._catalogue.forget(generation)

    async def _remove_times(self, generation: Generation) -> None:
        """Of the blocks that only this generation had anything in, if it is the oldest."""
        others = [one.first_turn for one in self._catalogue.generations.values() if one is not generation]
        first, behind = block_of(generation.first_turn), block_of(min(others, default=self._catalogue.recent_turn))
        for start in range(first, behind, _TIMES_PER_BATCH):
            batch = WriteBatch()
            for block in range(start, min(start + _TIMES_PER_BATCH, behind)):
                batch.remove(CacheName.LOG_META, times_key(self._number, block))
            await self._grid.commit(batch)
