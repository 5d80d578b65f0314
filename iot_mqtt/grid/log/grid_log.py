"""The log that this node writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from iot_mqtt.grid.log.ceiling import Ceiling
from iot_mqtt.grid.log.checking import Checker
from iot_mqtt.grid.log.index import BlockIndex
from iot_mqtt.grid.log.own_catalogue import OwnCatalogue
from iot_mqtt.grid.log.pages import PageCache, Pages
from iot_mqtt.grid.log.reading import Reader
from iot_mqtt.grid.log.recent import Recent
from iot_mqtt.grid.log.recovery import recover
from iot_mqtt.grid.log.retention import Retention
from iot_mqtt.grid.log.selection import Everything, Selections
from iot_mqtt.grid.log.settings import LogSettings
from iot_mqtt.grid.log.walking import walk
from iot_mqtt.grid.log.writing import Writer
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.grid import Grid, WriteBatch
from iot_mqtt.ports.log import Breath, Damage, GenerationInfo, LogFigures, LogRun, Reading, Reference, StreamInfo
from iot_mqtt.ports.store import CommitOrder, Store


class GridLog:
    """One's own. ``open`` it before anything else. Everything runs in the reactor's thread."""

    def __init__(
        self,
        grid: Grid,
        store: Store,
        clock: Clock,
        settings: LogSettings,
        writer: int = 0,
        cache: PageCache | None = None,
    ) -> None:
        self._grid = grid
        self._store = store
        self._shards = settings.shards
        self.writer = writer
        self.figures = LogFigures()
        self._selections = Selections()
        #: What the grid has room for.
        self.ceiling = Ceiling()
        cache = cache or PageCache(settings.page_cache_bytes)
        self._catalogue = OwnCatalogue(writer, grid, settings, self.ceiling, clock, cache.forget)
        self._recent = Recent(writer, cache.keep_turn)
        store.meanwhile(cache.fit)
        self._writer = Writer(writer, store, clock, settings, self._catalogue, self._recent, self.figures)
        self._pages = Pages(grid, self._catalogue, self._recent, self.figures, cache)
        self._index = BlockIndex(grid, self._catalogue, self.figures)
        # Once for every run: a call less.
        self.append, self.append_row = self._writer.append, self._writer.append_row
        self._reader = Reader(self._catalogue, self._recent, self._index, self._pages, self._writer)
        self._retention = Retention(writer, grid, store, clock, settings, self._catalogue, self._writer, self.ceiling)
        self.known_time: float | None = None
        self._checker = Checker(
            writer, grid, self._catalogue, self._recent, self._index, self._pages, self._reader, self._writer
        )

    async def open(self) -> None:
        """Read what earlier starts left. Nothing may be appended before it returns."""
        await self._catalogue.load()
        self.known_time = self._catalogue.time
        await recover(self.writer, self._shards, self._grid, self._catalogue, self._recent, self._writer)
        self._store.enlist(CommitOrder.LOG, self)
        if self._catalogue.changed:
            self._store.reserve()

    @property
    def end(self) -> int:
        return self._writer.end

    @property
    def committed_end(self) -> int:
        return self._writer.committed_end

    @property
    def size(self) -> int:
        return sum(generation.bytes for generation in self._catalogue.generations.values())

    async def read(
        self, filters: Sequence[str], position: int, messages: int, budget: int, *, all_up: bool = False
    ) -> Reading:
        return await self._reader.read(self._selections.of(filters, all_up=all_up), position, messages, budget)

    async def fetch(self, references: Sequence[Reference]) -> list[LogRun | None]:
        return await self._reader.fetch(references)

    def scan(self, generation: int | None = None, position: int = 0) -> AsyncIterator[LogRun]:
        return walk(self._reader, Everything(generation), position)

    async def position_at(self, wall: float) -> int:
        return await self._checker.position_at(wall)

    # The store's batches.

    def contribute(self, batch: WriteBatch, ticket: int) -> None:
        self._writer.stage(batch, ticket)

    def committed(self, ticket: int) -> None:
        self._writer.committed(ticket)

    # Retention and tools.

    def limit(self, size: int) -> None:
        """So many bytes are there for this log in the grid."""
        if size != self.ceiling.bytes:
            self.ceiling.bytes = size
            self._catalogue.limited()

    def due(self, wall: float, doubted: float = 0.0) -> list[GenerationInfo]:
        return self._retention.due(wall, doubted)

    async def drop(self, generation: int) -> None:
        await self._retention.drop(generation)

    def generations(self) -> list[GenerationInfo]:
        return [generation.info() for generation in self._catalogue.generations.values()]

    async def streams(self, generation: int | None = None, breath: Breath | None = None) -> list[StreamInfo]:
        return await self._catalogue.infos(generation, breath)

    def verify(self, breath: Breath | None = None) -> AsyncIterator[Damage]:
        return self._checker.verify(breath)
