"""The log: every message that some later reader may want, stored once however many want it.

Appending is part of the broker's turn and costs no I/O: what a turn appended leaves with the store's next batch,
as one page for each stream it touched. A *position* is a message's place in the order of arrival: the number of
the turn in the high bits, the number within the turn in the low ``TURN_BITS``. One integer says how far a
reader is, in all shards and streams together.

    generation (a period of one retention class) ─▶ shard (by publisher) ─▶ stream (topics of like structure) ─▶ page

Every node appends to a log of its own, and the logs of all nodes are in one grid, where any node can read them. A
position means something in one log only; a reference says in its generation whose log that is.

An exception (``Unavailable``) means "not ready" and is never to be read as "absent".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from iot_mqtt.codec import PublishRun, row_reader
from iot_mqtt.values import NOBODY, Origin

#: Messages of one turn are numbered with this many bits.
TURN_BITS = 24
#: The id of a generation is ``writer << WRITER_SHIFT | number``; writers are numbered from 0 to 255.
WRITER_SHIFT = 24
#: Lets others have their turn.
Breath = Callable[[], Awaitable[None]]


def writer_of(generation: int) -> int:
    """Whose log a generation belongs to."""
    return generation >> WRITER_SHIFT


class Reference(NamedTuple):
    """Where messages with consecutive positions are; small, and enough to fetch them again."""

    generation: int
    stream: int
    position: int
    length: int

    def part(self, start: int, stop: int) -> Reference:
        """Messages ``start`` to ``stop`` of these."""
        return Reference(self.generation, self.stream, self.position + start, stop - start)

    @property
    def writer(self) -> int:
        """Whose log it is in."""
        return self.generation >> WRITER_SHIFT


class LogRun:
    """Messages of one publisher to one topic, as they were appended. Treat as frozen: pages are shared."""

    __slots__ = ("reference", "run", "topic", "publisher", "arrived", "origin")

    def __init__(
        self,
        reference: Reference,
        run: PublishRun,
        topic: bytes,
        publisher: str,
        arrived: float,
        origin: Origin = NOBODY,
    ) -> None:
        self.reference = reference
        self.run = run
        self.topic = topic
        self.publisher = publisher
        #: Wall clock at the moment of appending; message expiry counts from it.
        self.arrived = arrived
        self.origin = origin

    @property
    def position(self) -> int:
        """Of the first message."""
        return self.reference.position

    @property
    def end(self) -> int:
        """Behind the last message."""
        return self.reference.position + self.reference.length

    def behind(self, position: int) -> LogRun:
        """What of it is not before ``position``, which is inside of it."""
        skip = position - self.reference.position
        if skip <= 0:
            return self
        length = self.reference.length
        return self._part(skip, length)

    def before(self, position: int) -> LogRun:
        """What of it is before ``position``, which is inside of it or behind it."""
        length = position - self.reference.position
        return self if length >= self.reference.length else self._part(0, length)

    def _part(self, start: int, stop: int) -> LogRun:
        reference, run = self.reference.part(start, stop), self.run.part(start, stop)
        return LogRun(reference, run, self.topic, self.publisher, self.arrived, self.origin)


_ROWS = row_reader(LogRun)
#: What runs that stand in a row have in common, and how much they are: see ``native._pure_rows``.
survey = _ROWS.survey
totals = _ROWS.totals
column = _ROWS.column
described = _ROWS.described
outline = _ROWS.outline
sizes = _ROWS.sizes


class Reading(NamedTuple):
    """What a read found, in the order of arrival."""

    runs: list[LogRun]
    #: Where to read on.
    position: int
    #: Nothing that matches was appended behind ``position`` by the time this was returned.
    at_end: bool


class GenerationInfo(NamedTuple):
    """One generation, for tools and for the retention."""

    id: int
    retention_class: int
    began_at: float
    #: Positions of its first message and behind its last one.
    first: int
    end: int
    messages: int
    bytes: int
    streams: int
    #: Nothing is appended to it any more.
    closed: bool


class StreamInfo(NamedTuple):
    """One stream of one generation."""

    id: int
    generation: int
    shard: int
    structure: str
    #: Which values of the structure's ``+`` levels it takes: (bucket, buckets); (0, 1) for all.
    bucket: tuple[int, int]
    pages: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Damage:
    """A page that ``verify`` could not read."""

    generation: int
    stream: int
    turn: int
    what: str


class LogFigures:
    """What the log has done since the start; plain integers for metrics."""

    __slots__ = ("messages_appended", "bytes_appended", "pages_written", "pages_read", "bytes_read", "damaged_pages")

    def __init__(self) -> None:
        self.messages_appended = 0
        self.bytes_appended = 0
        self.pages_written = 0
        self.pages_read = 0
        #: Of pages and of index entries, as they come from the grid.
        self.bytes_read = 0
        self.damaged_pages = 0


class LogReader(Protocol):
    """One writer's log, for whoever reads it. Everything is called in the reactor's thread."""

    #: Whose log it is.
    writer: int
    #: Of this reader; what was appended is counted where it is appended.
    figures: LogFigures

    @property
    def end(self) -> int:
        """Behind the newest message that there is to read: of one's own log the newest that was appended, committed
        or not; of another's the newest that is known to be committed.
        """
        ...

    async def read(
        self, filters: Sequence[str], position: int, messages: int, budget: int, *, all_up: bool = False
    ) -> Reading:
        """Runs from ``position`` on whose topic matches one of the (plain) filters, up to about so many messages
        or, whichever comes first, bytes; at least one run if there is any before ``end``. Of one's own log it
        includes what is not committed yet. A run may be returned with more messages than asked for: the caller
        stops where it must. What only the data platform gets is left out unless ``all_up``.
        """
        ...

    async def fetch(self, references: Sequence[Reference]) -> list[LogRun | None]:
        """The messages again, in the order asked for; None where retention has removed them."""
        ...

    def scan(self, generation: int | None = None, position: int = 0) -> AsyncIterator[LogRun]:
        """Every run of one generation, or of all, from a position on; in no order. For counting and checking."""
        ...

    async def position_at(self, wall: float) -> int:
        """Where messages begin that arrived at that time or later; ``end`` if there are none."""
        ...

    # Tools.

    def generations(self) -> list[GenerationInfo]:
        """As far as they are known: of another's log, since it was read or refreshed last."""
        ...

    async def streams(self, generation: int | None = None, breath: Breath | None = None) -> list[StreamInfo]:
        """Of one generation or of all; those of old generations are read for it. ``breath``: as in ``verify``."""
        ...

    def verify(self, breath: Breath | None = None) -> AsyncIterator[Damage]:
        """Read every page and check it; ``breath`` is awaited now and then, so that others get their turn."""
        ...


class CommittedLog(LogReader, Protocol):
    """A log of which it is known how far it is safe."""

    @property
    def committed_end(self) -> int:
        """Everything appended before it is safe; it moves with the store's commits. Others may be told of it."""
        ...


class Log(CommittedLog, Protocol):
    """One's own log."""

    @property
    def size(self) -> int:
        """Bytes stored, over all generations."""
        ...

    def append(self, run: PublishRun, topic: bytes, publisher: str, arrived: float, origin: Origin = NOBODY) -> LogRun:
        """Take a run; ``topic`` is its topic with aliases resolved. It is safe when the next batch is."""
        ...

    def append_row(
        self, runs: Sequence[PublishRun], publisher: str, arrived: float, origin: Origin = NOBODY
    ) -> list[LogRun]:
        """Take several that came together, without aliases, as one after the other."""
        ...

    # Retention.

    @property
    def known_time(self) -> float | None:
        """What time it was for the retention when the log was left; None: nothing was ever in it. Of this opening."""
        ...

    def due(self, wall: float, doubted: float = 0.0) -> list[GenerationInfo]:
        """Closed generations whose time is over, or that are the oldest of too many bytes. ``doubted``: seconds of
        ``wall`` that may be the error of a clock; nothing is over by them.
        """
        ...

    async def drop(self, generation: int) -> None:
        """Remove a closed generation whole."""
        ...


class Followed(LogReader, Protocol):
    """Another writer's log, read while it grows."""

    @property
    def announced(self) -> int:
        """How far ``announce`` has said it is; ``end`` is further where somebody has looked."""
        ...

    def announce(self, end: int) -> None:
        """The writer, or what it sent, says that everything before ``end`` is committed. Costs nothing."""
        ...

    async def look(self) -> int:
        """Where the log ends by now; ``end`` stays where it is, and so does what is read."""
        ...

    async def refresh(self) -> int:
        """Look for what nobody announced, because the writer is dead or silent; returns ``end``."""
        ...

    async def note_drops(self) -> None:
        """Find out which generations were dropped, by the writer or by who cares for its log; ``end`` stays where it
        is. Nothing of them is read from then on; until then, what is in memory here may be.
        """
        ...

    async def give_up(self, generation: int) -> LogReader | None:
        """A generation is about to be dropped: nothing of it is read here from the moment that this returns. What is
        returned still reads it, so that it can be counted; None: it was given up before, or is gone.
        """
        ...
