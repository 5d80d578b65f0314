"""Appending: runs gather in memory, by stream, and leave as pages with the store's next batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from iot_mqtt.codec import PublishRun
from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.log.generation import Generation, Stream, TopicPlace
from iot_mqtt.grid.log.keys import MAX_TURNS, ring_key, turn_key
from iot_mqtt.grid.log.own_catalogue import OwnCatalogue
from iot_mqtt.grid.log.page import encode_page
from iot_mqtt.grid.log.recent import Recent
from iot_mqtt.grid.log.records import OPEN, encode_turn
from iot_mqtt.grid.log.settings import LogSettings
from iot_mqtt.grid.log.structures import Learner
from iot_mqtt.grid.records.base import VERSION
from iot_mqtt.native import RowWriter
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.grid import CacheName, WriteBatch
from iot_mqtt.ports.log import TURN_BITS, LogFigures, LogRun, Reference, sizes
from iot_mqtt.ports.store import Store
from iot_mqtt.topics import matches
from iot_mqtt.values import NOBODY, Origin

#: Topics and publishers whose places are kept; bounds, not tuning knobs.
MAX_PLACES = 100_000
#: A turn takes no more than so many bytes, so that a slow grid does not make pages that are too big to read: it
#: is followed by another one in the same batch. Only the last of ``MAX_TURNS`` takes the rest.
TURN_BYTES = 1 << 20
#: How soon what gathers is to be committed.
_LATER: Final = 1
_SOON: Final = 2

#: A named tuple's own constructor takes twice as long.
_reference = tuple.__new__


class Writer:
    """One per log. ``turn`` is the one that gathers."""

    def __init__(
        self,
        number: int,
        store: Store,
        clock: Clock,
        settings: LogSettings,
        catalogue: OwnCatalogue,
        recent: Recent,
        figures: LogFigures,
    ) -> None:
        self._number = number
        self._store = store
        self._clock = clock
        self._settings = settings
        self._catalogue = catalogue
        self._recent = recent
        self._figures = figures
        self._rows = RowWriter(
            LogRun, Reference, PublishRun, TopicPlace, Stream, Generation, nobody=NOBODY, version=VERSION
        )
        self.learner = Learner()
        self._learned = 0
        self._places: dict[bytes, TopicPlace] = {}
        self._shards: dict[str, int] = {}
        self._gathering: dict[Stream, list[LogRun]] = {}
        self._count = 0
        self._bytes = 0
        self._full: list[tuple[int, dict[Stream, list[LogRun]]]] = []
        self._unstaged = 0
        # 0: nothing gathers.
        self._reserved = 0
        self.turn = 0
        #: Everything before it is safe.
        self.committed_end = 0

    def open(self, turn: int) -> None:
        """Begin with this turn; what there is of earlier ones is safe."""
        self._unstaged = turn
        self.committed_end = turn << TURN_BITS
        self._begin(turn)

    def _begin(self, turn: int) -> None:
        """Gather for this turn from now on."""
        self.turn = turn
        self._count = self._bytes = 0
        self._gathering = {}
        self._recent.gather(turn, self._gathering)

    @property
    def end(self) -> int:
        return (self.turn << TURN_BITS) + self._count

    def append(self, run: PublishRun, topic: bytes, publisher: str, arrived: float, origin: Origin = NOBODY) -> LogRun:
        count = run.count
        number = self._count
        if number + count > 1 << TURN_BITS:
            raise Unavailable("the grid is too slow: the log cannot take more before its next batch")
        place = self._places.get(topic)
        if place is not None:
            # As ``_is_over``, without a call.
            generation = place.generation
            if generation.state != OPEN or arrived >= generation.until or generation.bytes >= generation.full_at:
                place = None
        if place is None:
            place = self._place(topic, arrived)
        shard = self._shards.get(publisher)
        if shard is None:
            shard = self._new_shard(publisher)
        stream = place.streams[shard] or self._new_stream(place, topic, shard)
        generation, turn = place.generation, self.turn
        position = (turn << TURN_BITS) + number
        self._count = number + count
        generation.end, generation.ended_at = position + count, arrived
        stream.last_turn = turn
        reference = _reference(Reference, (generation.id, stream.id, position, count))
        found = LogRun(reference, run, topic, publisher, arrived, origin)
        gathering = self._gathering
        runs = gathering.get(stream)
        if runs is not None:
            runs.append(found)
        else:
            gathering[stream] = [found]
        wanted = _SOON if run.qos else _LATER
        if self._reserved < wanted:
            self._reserve(wanted)
        self._bytes += len(run.wire)
        if self._bytes >= TURN_BYTES and len(self._full) < MAX_TURNS - 1:
            self._full.append((turn, gathering))
            self._begin(turn + 1)
        return found

    def append_row(
        self, runs: Sequence[PublishRun], publisher: str, arrived: float, origin: Origin = NOBODY
    ) -> list[LogRun]:
        """See the port."""
        count, size = sizes(runs)
        size += self._bytes
        if self._count + count > 1 << TURN_BITS or size >= TURN_BYTES:
            return [self.append(run, run.topic, publisher, arrived, origin) for run in runs]
        found: list[LogRun] = []
        shard, append, turn = self._shard(publisher), self._rows.append, self.turn
        gathering, first = self._gathering, turn << TURN_BITS
        if self._reserved < _SOON:
            wanted = _SOON if any(run.qos for run in runs) else _LATER
            if self._reserved < wanted:
                self._reserve(wanted)
        while True:
            position, places = first + self._count, self._places
            end = append(runs, found, places, gathering, shard, publisher, arrived, origin, turn, position, OPEN)
            self._count += end - position
            if len(found) == len(runs):
                break
            run = runs[len(found)]
            found.append(self.append(run, run.topic, publisher, arrived, origin))
        # No turn has ended, for all of it was known to fit.
        self._bytes = size
        return found

    def _reserve(self, wanted: int) -> None:
        """Have what gathers committed. Nobody waits for QoS 0."""
        self._reserved = wanted
        self._store.reserve(soon=wanted == _SOON)

    # Where to.

    def _place(self, topic: bytes, arrived: float) -> TopicPlace:
        if len(self._places) >= MAX_PLACES:
            self._places.clear()
        retention_class = self._retention_class(topic)
        generation = self._catalogue.current.get(retention_class)
        if generation is None or _is_over(generation, arrived):
            generation = self._catalogue.begin(retention_class, arrived, self.end)
        place = self._places[topic] = TopicPlace(retention_class, generation, self._settings.shards)
        return place

    def _retention_class(self, topic: bytes) -> int:
        name = topic.decode() if self._settings.topics else ""
        for index, exception in enumerate(self._settings.topics, 1):
            if matches(exception.filter, name):
                return index
        return 0

    def _shard(self, publisher: str) -> int:
        shard = self._shards.get(publisher)
        return self._new_shard(publisher) if shard is None else shard

    def _new_shard(self, publisher: str) -> int:
        if len(self._shards) >= MAX_PLACES:
            self._shards.clear()
        shard = self._shards[publisher] = crc32(publisher.encode()) % self._settings.shards
        return shard

    def _new_stream(self, place: TopicPlace, topic: bytes, shard: int) -> Stream:
        placing = self.learner.place(topic)
        if self.learner.version != self._learned:
            # Topics that were placed before may be of this structure too.
            self._learned = self.learner.version
            self._places.clear()
        stream = self._catalogue.stream(place.generation, shard, placing, self.turn)
        place.streams[shard] = stream
        return stream

    # Into a batch.

    def stage(self, batch: WriteBatch, ticket: int) -> None:
        """Everything that gathered, in an order in which any part of the batch that comes first is harmless:
        nothing of a turn is found before its summary is there.
        """
        turns, self._full, self._reserved = self._full, [], 0
        if self._gathering:
            turns.append((self.turn, self._gathering))
            self._begin(self.turn + 1)
        self._catalogue.stage(batch, self._unstaged - 1, ticket)
        summaries = WriteBatch()
        for turn, gathered in turns:
            self._recent.stage(batch, ticket, turn)
            self._stage_turn(batch, summaries, turn, gathered, ticket)
        batch.operations += summaries.operations
        self._unstaged = self.turn

    def _stage_turn(
        self, batch: WriteBatch, summaries: WriteBatch, turn: int, gathered: dict[Stream, list[LogRun]], ticket: int
    ) -> None:
        stage, figures = self._rows.stage, self._figures
        written, messages, size = stage(gathered, turn_key(turn), CacheName.LOG, batch.operations, encode_page, ticket)
        figures.messages_appended += messages
        figures.bytes_appended += size
        figures.pages_written += len(gathered)
        wall = self._clock.wall()
        for shard, pages in written.items():
            key = ring_key(self._number, shard, turn)
            summaries.put(CacheName.LOG_TURNS, key, encode_turn(turn, wall, pages, len(written)))
        self._recent.staged(turn, wall, gathered, size)

    def committed(self, ticket: int) -> None:
        # One batch at a time is under way, so what was staged last is what was committed.
        self.committed_end = self._unstaged << TURN_BITS
        self._recent.committed(ticket, self._unstaged)
        self._catalogue.recent_turn = self._recent.first_turn


def _is_over(generation: Generation, arrived: float) -> bool:
    return generation.state != OPEN or arrived >= generation.until or generation.bytes >= generation.full_at
