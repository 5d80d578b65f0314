"""Tools over the whole log: every page checked, and where a moment begins."""

from __future__ import annotations

from collections.abc import AsyncIterator

from iot_mqtt.grid.log.catalogue import Catalogue
from iot_mqtt.grid.log.index import BlockIndex
from iot_mqtt.grid.log.keys import BLOCK_TURNS, block_of, times_key
from iot_mqtt.grid.log.page import DamagedPage
from iot_mqtt.grid.log.pages import Pages, Place
from iot_mqtt.grid.log.reading import Head
from iot_mqtt.grid.log.recent import Recent
from iot_mqtt.grid.log.records import TIMES, decode_times
from iot_mqtt.grid.log.selection import Everything
from iot_mqtt.grid.log.walking import Source
from iot_mqtt.ports.grid import CacheName, Grid
from iot_mqtt.ports.log import TURN_BITS, Breath, Damage

#: Pages of one request.
_PAGES = 64


class Checker:
    """Reads without keeping what it reads."""

    def __init__(
        self,
        writer: int,
        grid: Grid,
        catalogue: Catalogue,
        recent: Recent,
        index: BlockIndex,
        pages: Pages,
        source: Source,
        head: Head,
    ) -> None:
        self._writer = writer
        self._grid = grid
        self._catalogue = catalogue
        self._recent = recent
        self._index = index
        self._pages = pages
        self._source = source
        self._head = head

    async def verify(self, breath: Breath | None) -> AsyncIterator[Damage]:
        """Every committed page, a few at a time."""
        waiting: list[Place] = []
        async for place in self._places():
            waiting.append(place)
            if len(waiting) >= _PAGES:
                for damage in await self._check(waiting):
                    yield damage
                waiting = []
                if breath is not None:
                    await breath()
        for damage in await self._check(waiting):
            yield damage

    async def _places(self) -> AsyncIterator[Place]:
        selection = Everything()
        turn = min((generation.first_turn for generation in self._catalogue.generations.values()), default=0)
        while turn < self._head.turn:
            if turn < self._recent.first_turn:
                plan, turn = await self._index.plan(selection, turn, self._recent.first_turn)
            else:
                plan = self._recent.plan(selection, turn)
                turn = plan[-1][0] + 1 if plan else self._head.turn
            for number, streams in plan:
                for stream in streams:
                    yield stream, number

    async def _check(self, places: list[Place]) -> list[Damage]:
        places = [place for place in places if place[1] not in self._recent.held]
        found = []
        for place, page in zip(places, await self._pages.raw(places), strict=True):
            try:
                self._pages.check(place, page)
            except DamagedPage as damage:
                found.append(Damage(place[0].generation.id, place[0].id, place[1], str(damage)))
        return found

    async def position_at(self, wall: float) -> int:
        """Find the part of a block by its times, then look at the messages."""
        turn = await self._turn_before(wall)
        selection, position = Everything(), turn << TURN_BITS
        while True:
            reading = await self._source.read(selection, position, 1000, 1 << 18)
            for run in reading.runs:
                if run.arrived >= wall:
                    return run.position
            if reading.at_end:
                return self._head.end
            position = reading.position

    async def _turn_before(self, wall: float) -> int:
        """A turn, not long before the first one of that time."""
        known = [turn for turn, time in self._recent.times if time < wall]
        if known:
            return known[-1]
        low = min((generation.first_turn for generation in self._catalogue.generations.values()), default=0)
        first, last = block_of(low), block_of(self._recent.first_turn)
        while last - first > 1:
            middle = (first + last) // 2
            times = await self._times(middle)
            if any(0 < time < wall for time in times):
                first = middle
            else:
                last = middle
        parts = [part for part, time in enumerate(await self._times(first)) if 0 < time < wall]
        return first * BLOCK_TURNS + (parts[-1] if parts else 0) * (BLOCK_TURNS // TIMES)

    async def _times(self, block: int) -> tuple[float, ...]:
        record = await self._grid.get(CacheName.LOG_META, times_key(self._writer, block))
        return () if record is None else decode_times(record)
