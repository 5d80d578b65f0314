"""Runs by their pages: from the grid, and of one's own log those that were written last. Pages used last are kept, too,
for readers of the same stretch: many topics share a stream, so a fleet that comes back reads each page many times over,
and most of its readers only look whether their topic is in it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence

from iot_mqtt.codec import PublishRun
from iot_mqtt.errors import Corrupt
from iot_mqtt.grid.log.catalogue import Catalogue
from iot_mqtt.grid.log.generation import Generation, Stream
from iot_mqtt.grid.log.keys import turn_key
from iot_mqtt.grid.log.page import NOT_WANTED, DamagedPage, PageDecoder
from iot_mqtt.grid.log.recent import Recent
from iot_mqtt.grid.log.records import DROPPING
from iot_mqtt.ports.grid import CacheName, Grid
from iot_mqtt.ports.log import LogFigures, LogRun, column, described

log = logging.getLogger(__name__)

#: What a decoded page takes beside its bytes, about; and each of its runs.
_PAGE_WEIGHT = 300
_RUN_WEIGHT = 900
#: What a run of a turn takes beside its bytes, about, with the page that it mostly is.
_WRITTEN_WEIGHT = 750
#: What the properties of a run take, about, beside twice their bytes: as received, as passed on, and the user
#: properties among them are mostly the same bytes, and three times as many at most.
_PROPERTIES_WEIGHT = 250
#: Damaged pages that are remembered, so that each is counted once.
MAX_DAMAGED = 10_000

#: Where a page is.
Place = tuple[Stream, int]


class PageCache:
    """The pages used last, decoded if anybody wanted what is in them, and the turns of one's own log that were written
    last: who is a little behind, or back after a short time, finds them here. One for all the logs that a node reads,
    if they are given the same.
    """

    def __init__(self, limit: int, *, written: bool = True) -> None:
        """``written``: whether those turns are kept."""
        self._limit = limit
        self._written = written
        self._pages: OrderedDict[Place, tuple[Sequence[LogRun] | bytes, int]] = OrderedDict()
        self._bytes = 0
        #: Up to half of the limit, and up to all of it while there is nothing else.
        self._turns: OrderedDict[int, tuple[dict[Stream, list[LogRun]], int]] = OrderedDict()
        self._turn_bytes = 0

    @property
    def size(self) -> int:
        """What is kept takes so many bytes, about."""
        return self._bytes + self._turn_bytes

    def get(self, place: Place) -> Sequence[LogRun] | bytes | None:
        written = self._turns.get(place[1])
        if written is not None and (runs := written[0].get(place[0])) is not None:
            return runs
        known = self._pages.get(place)
        if known is None:
            return None
        self._pages.move_to_end(place)
        return known[0]

    def column(self, stream: Stream, turns: Sequence[int]) -> tuple[int, int, list[LogRun]]:
        """Which of these turns are in a row among those that were written last, and what one stream has in them."""
        return column(self._turns, stream, turns)

    def keep(self, place: Place, page: Sequence[LogRun] | bytes, size: int) -> None:
        """A page, decoded or not; ``size``: as it is stored."""
        weight = _PAGE_WEIGHT + size
        if not isinstance(page, bytes):
            weight += _RUN_WEIGHT * len(page)
            weight += _properties([found.run for found in page if found.run.raw_properties])
        known = self._pages.pop(place, None)
        if known is not None:
            self._bytes -= known[1]
        if weight > self._limit or place[0].generation.state == DROPPING:
            return
        self._pages[place] = page, weight
        self._bytes += weight
        self.fit()

    def keep_turn(self, turn: int, written: dict[Stream, list[LogRun]], size: int) -> None:
        """A turn of one's own log is safe; ``size``: of its pages."""
        weight = size + _WRITTEN_WEIGHT * sum(map(len, written.values())) + _properties(described(written))
        if not self._written or 2 * weight > self._limit:
            return
        self._turns[turn] = written, weight
        self._turn_bytes += weight

    def fit(self) -> None:
        """Let go of what is too much. What ``keep_turn`` brought waits for this, and for nobody's acknowledgement."""
        while self.size > self._limit:
            if 2 * self._turn_bytes > self._limit:
                self._turn_bytes -= self._turns.popitem(last=False)[1][1]
            else:
                self._bytes -= self._pages.popitem(last=False)[1][1]

    def forget(self, generation: Generation) -> None:
        """Let go of what there is of one that was dropped: nobody reads it any more."""
        for place in [place for place in self._pages if place[0].generation is generation]:
            self._bytes -= self._pages.pop(place)[1]
        for turn, (written, weight) in list(self._turns.items()):
            gone = [stream for stream in written if stream.generation is generation]
            if not gone:
                continue
            # Readers may be on their way through a turn: those of the others in it get another one.
            left = {stream: runs for stream, runs in written.items() if stream.generation is not generation}
            share = weight * sum(len(written[stream]) for stream in gone) // sum(map(len, written.values()))
            self._turn_bytes -= share if left else weight
            if left:
                self._turns[turn] = left, weight - share
            else:
                del self._turns[turn]


def _properties(runs: Sequence[PublishRun]) -> int:
    """What the properties of runs that have some take, about; mostly there are no such runs."""
    return sum(_PROPERTIES_WEIGHT + 2 * len(run.raw_properties) for run in runs)


class Pages:
    """Runs by stream and turn, from memory, from the cache, or from the grid."""

    def __init__(self, grid: Grid, catalogue: Catalogue, recent: Recent, figures: LogFigures, cache: PageCache) -> None:
        self._grid = grid
        self._catalogue = catalogue
        self._recent = recent
        self._figures = figures
        self._cache = cache
        self._decoder = PageDecoder()
        self._damaged: dict[Place, None] = {}

    async def load(self, places: Sequence[Place], wanted: tuple[bytes, ...] = ()) -> dict[Place, Sequence[LogRun]]:
        """The runs of each place; where topics are ``wanted``, perhaps none of a page without them. What is in memory
        is taken last: nothing happens between that and the return. Of a generation that is being dropped by then there
        is nothing, wherever its pages were found: it goes whole.
        """
        found: dict[Place, Sequence[LogRun]] = {}
        while missing := self._remember(places, wanted, found):
            pages = await self.raw(missing)
            for place, page in zip(missing, pages, strict=True):
                if page is None:
                    found[place] = self._decode(place, None, wanted)
                else:
                    found[place] = self._open(place, page, wanted, new=True)
        for place in places:
            if place[0].generation.state == DROPPING:
                found[place] = ()
            elif place not in found:
                found[place] = tuple(self._held(place) or ())
        return found

    def _remember(
        self, places: Sequence[Place], wanted: tuple[bytes, ...], found: dict[Place, Sequence[LogRun]]
    ) -> list[Place]:
        """Add to ``found`` what the cache has; returns what has to be read. What is not committed is neither."""
        missing: list[Place] = []
        held = self._recent.held
        for place in places:
            if place in found or (held and self._held(place)):
                continue
            known = self._cache.get(place)
            if known is None:
                missing.append(place)
            elif type(known) is bytes:
                found[place] = self._open(place, known, wanted)
            else:
                found[place] = known  # type: ignore[assignment]
        return missing

    async def column(self, stream: Stream, turns: Sequence[int], wanted: tuple[bytes, ...] = ()) -> list[LogRun]:
        """The runs of one stream in some turns, in their order; as with ``load``."""
        begin, end, found = self._cache.column(stream, turns)
        if end - begin != len(turns):
            # Older ones have left the memory, and newer ones may be on their way to it.
            before, behind = ([(stream, turn) for turn in part] for part in (turns[:begin], turns[end:]))
            loaded = await self.load(before + behind, wanted)
            found[:0] = [run for place in before for run in loaded[place]]
            found += [run for place in behind for run in loaded[place]]
        return [] if stream.generation.state == DROPPING else found

    def _held(self, place: Place) -> list[LogRun] | None:
        """What is not committed yet."""
        turn = self._recent.held.get(place[1])
        return None if turn is None else turn.get(place[0])

    def _open(self, place: Place, page: bytes, wanted: tuple[bytes, ...], *, new: bool = False) -> Sequence[LogRun]:
        """A page's runs. It is kept as it is until somebody wants what is in it: that takes a part of the memory."""
        runs = self._decode(place, page, wanted)
        if runs is not NOT_WANTED:
            self._cache.keep(place, runs, len(page))
        elif new:
            self._cache.keep(place, page, len(page))
        return runs

    async def raw(self, places: Sequence[Place]) -> list[bytes | None]:
        """The pages as they are kept; nothing of one that the grid cannot read any more."""
        keys = [stream.key + turn_key(turn) for stream, turn in places]
        try:
            pages = await self._grid.get_many(CacheName.LOG, keys)
        except Corrupt:
            pages = []
            for key in keys:
                pages.append(await self._single(key))
        figures = self._figures
        figures.pages_read += len(pages)
        figures.bytes_read += sum([len(page) for page in pages if page is not None])
        if None in pages:
            missing = {place[0].generation for place, page in zip(places, pages, strict=True) if page is None}
            await self._catalogue.confirm([generation for generation in missing if generation.state != DROPPING])
        return pages

    async def _single(self, key: bytes) -> bytes | None:
        try:
            return await self._grid.get(CacheName.LOG, key)
        except Corrupt:
            return b""

    def check(self, place: Place, page: bytes | None, wanted: tuple[bytes, ...] = ()) -> Sequence[LogRun]:
        """The runs of a page; raises ``DamagedPage``."""
        stream, turn = place
        if page is None:
            if stream.generation.state == DROPPING:
                return []
            raise DamagedPage("the page is missing")
        if not page:
            raise DamagedPage("the grid cannot read the page")
        return self._decoder.decode(page, stream.generation.id, stream.id, turn, wanted)

    def _decode(self, place: Place, page: bytes | None, wanted: tuple[bytes, ...]) -> Sequence[LogRun]:
        try:
            return self.check(place, page, wanted)
        except DamagedPage as damage:
            if place not in self._damaged:
                self._figures.damaged_pages += 1
                if len(self._damaged) < MAX_DAMAGED:
                    self._damaged[place] = None
                stream, turn = place
                log.error(
                    "the log is damaged: generation %d, stream %d, turn %d: %s; its messages are skipped",
                    stream.generation.id,
                    stream.id,
                    turn,
                    damage,
                )
            return []
