"""Another writer's log in the same grid: ``ports.log.Followed``. Nothing here ever writes.

``end`` is what was announced, or found in the grid; that costs nothing until somebody reads up to there. Reading is
as in one's own log, but for the end: what is behind it may be there already and is not shown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.log.checking import Checker
from iot_mqtt.grid.log.followed_catalogue import FollowedCatalogue
from iot_mqtt.grid.log.index import BlockIndex
from iot_mqtt.grid.log.knowledge import Knowledge
from iot_mqtt.grid.log.pages import PageCache, Pages
from iot_mqtt.grid.log.reading import Reader
from iot_mqtt.grid.log.recent import Recent
from iot_mqtt.grid.log.ring import Ring
from iot_mqtt.grid.log.selection import Everything, Selection, Selections
from iot_mqtt.grid.log.settings import LogSettings
from iot_mqtt.grid.log.walking import walk
from iot_mqtt.grid.records.base import Unreadable
from iot_mqtt.ports.cluster_status import node_words
from iot_mqtt.ports.grid import Grid
from iot_mqtt.ports.log import (
    TURN_BITS,
    Breath,
    Damage,
    GenerationInfo,
    LogFigures,
    LogRun,
    Reading,
    Reference,
    StreamInfo,
)

#: So often a read that finds nothing looks whether the log has grown meanwhile, before it says that it has.
_ROUNDS = 8


class FollowedLog:
    """``open`` it before anything else. Everything runs in the reactor's thread."""

    def __init__(self, grid: Grid, settings: LogSettings, writer: int, cache: PageCache | None = None) -> None:
        self._grid = grid
        self._settings = settings
        self.writer = writer
        self.figures = LogFigures()
        self._cache = cache or PageCache(settings.page_cache_bytes)
        self._selections = Selections()
        self._catalogue = FollowedCatalogue(writer, grid, settings, self._cache.forget)
        self._recent = Recent(writer)
        self._ring = Ring(grid, writer)
        self._knowledge = Knowledge(self._ring, self._catalogue, self._recent, self.figures)
        index = BlockIndex(grid, self._catalogue, self.figures)
        pages = Pages(grid, self._catalogue, self._recent, self.figures, self._cache)
        self._reader = Reader(self._catalogue, self._recent, index, pages, self._knowledge)
        self._extent = _Extent(writer, self._knowledge)
        self._source = _Source(self._extent, self._reader, self._knowledge)
        self._checker = Checker(
            writer, grid, self._catalogue, self._recent, index, pages, self._source, self._knowledge
        )

    async def open(self) -> None:
        """Find what there is."""
        await self.refresh()

    @property
    def end(self) -> int:
        return self._extent.end

    @property
    def announced(self) -> int:
        return self._extent.announced

    def announce(self, end: int) -> None:
        extent = self._extent
        extent.announced, extent.end = max(extent.announced, end), max(extent.end, end)

    async def look(self) -> int:
        """See the port."""
        with self._extent.readable():
            return max(self._extent.end, await self._ring.find_end(self._extent.turn) << TURN_BITS)

    async def refresh(self) -> int:
        """See the port. A turn that is there in part is left out until the writer has begun anew."""
        extent = self._extent
        with extent.readable():
            turn = await self._ring.find_end(extent.turn)
            await self._catalogue.reload()
        extent.end = max(extent.end, turn << TURN_BITS)
        return extent.end

    async def note_drops(self) -> None:
        """See the port."""
        with self._extent.readable():
            await self._catalogue.reload()

    async def give_up(self, generation: int) -> FollowedLog | None:
        """See the port."""
        whole = await self._anew()
        with self._extent.readable():
            return whole if await self._catalogue.give_up(generation) else None

    async def _anew(self) -> FollowedLog:
        """The same log, by what its records say now."""
        look = FollowedLog(self._grid, self._settings, self.writer, self._cache)
        await look.open()
        look.announce(self._extent.end)
        return look

    async def advance(self) -> None:
        """Know what there is before the end."""
        await self._extent.advance()

    async def read(
        self, filters: Sequence[str], position: int, messages: int, budget: int, *, all_up: bool = False
    ) -> Reading:
        return await self._source.read(self._selections.of(filters, all_up=all_up), position, messages, budget)

    async def fetch(self, references: Sequence[Reference]) -> list[LogRun | None]:
        """See the port. What a reference names was committed before it was, wherever ``end`` is."""
        with self._extent.readable():
            await self._catalogue.meet({reference.generation for reference in references})
            return await self._reader.fetch(references)

    def scan(self, generation: int | None = None, position: int = 0) -> AsyncIterator[LogRun]:
        return walk(self._source, Everything(generation), position)

    async def position_at(self, wall: float) -> int:
        await self.advance()
        return min(await self._checker.position_at(wall), self._extent.end)

    # Tools.

    def generations(self) -> list[GenerationInfo]:
        return sorted(generation.info() for generation in self._catalogue.generations.values())

    async def streams(self, generation: int | None = None, breath: Breath | None = None) -> list[StreamInfo]:
        await self.advance()
        if any(one.unseen >= 0 for one in self._catalogue.generations.values()):
            # Some counters lack what was not seen; the records have it.
            return await (await self._anew()).streams(generation, breath)
        return await self._catalogue.infos(generation, breath)

    async def verify(self, breath: Breath | None = None) -> AsyncIterator[Damage]:
        await self.advance()
        async for damage in self._checker.verify(breath):
            yield damage


class _Extent:
    """How far the log is, and what is known of that."""

    def __init__(self, writer: int, knowledge: Knowledge) -> None:
        self.end = self.announced = 0
        self._writer = writer
        self._knowledge = knowledge

    @property
    def turn(self) -> int:
        """Behind the turn that ``end`` is in: what is committed of it is all of it."""
        return -(-self.end >> TURN_BITS)

    async def advance(self) -> None:
        """Know what there is before the end."""
        with self.readable():
            await self._knowledge.advance(self.turn)

    @contextmanager
    def readable(self) -> Iterator[None]:
        """What a later version has written is not ready, and never absent."""
        try:
            yield
        except Unreadable as error:
            raise Unavailable(f"the log of {node_words(self._writer)} cannot be read: {error}") from error


class _Source:
    """Reads up to the end and no further."""

    def __init__(self, extent: _Extent, reader: Reader, knowledge: Knowledge) -> None:
        self._extent = extent
        self._reader = reader
        self._knowledge = knowledge

    async def read(self, selection: Selection, position: int, messages: int, budget: int) -> Reading:
        """See the port."""
        rounds = 0
        while position < self._extent.end and rounds < _ROUNDS:
            rounds += 1
            if position >= self._knowledge.end:
                await self._extent.advance()
            reading = await self._reader.read(selection, position, messages, budget)
            # Nothing was waited for since the reader returned.
            end = self._extent.end
            reached = max(reading.position, self._knowledge.end) if reading.at_end else reading.position
            position = min(reached, end)
            runs = [run.before(end) for run in reading.runs if run.position < end]
            if runs:
                return Reading(runs, position, at_end=position >= end)
        return Reading([], position, at_end=position >= self._extent.end)
