"""The log: every message that some later reader may want, stored once however many want it.

Appending is part of the broker's turn and costs no I/O: what a turn appended leaves with the store's next batch,
as one page for each stream it touched. A *position* is a message's place in the order of arrival: the number of
the turn in the high bits, the number within the turn in the low ``TURN_BITS``. One integer says how far a
reader is, in all shards and streams together.

    generation (a period of one retention class) ─▶ shard (by publisher) ─▶ stream (topics of like structure) ─▶ page

An exception (``Unavailable``) means "not ready" and is never to be read as "absent".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from iot_mqtt.codec import PublishRun

#: Messages of one turn are numbered with this many bits.
TURN_BITS = 24
#: Lets others have their turn.
Breath = Callable[[], Awaitable[None]]


class Reference(NamedTuple):
    """Where messages with consecutive positions are; small, and enough to fetch them again."""

    generation: int
    stream: int
    position: int
    length: int

    def part(self, start: int, stop: int) -> Reference:
        """Messages ``start`` to ``stop`` of these."""
        return Reference(self.generation, self.stream, self.position + start, stop - start)


class LogRun:
    """Messages of one publisher to one topic, as they were appended. Treat as frozen: pages are shared."""

    __slots__ = ("reference", "run", "topic", "publisher", "arrived")

    def __init__(self, reference: Reference, run: PublishRun, topic: bytes, publisher: str, arrived: float) -> None:
        self.reference = reference
        self.run = run
        self.topic = topic
        self.publisher = publisher
        #: Wall clock at the moment of appending; message expiry counts from it.
        self.arrived = arrived

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
        return LogRun(
            self.reference.part(skip, length), self.run.part(skip, length), self.topic, self.publisher, self.arrived
        )


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


class Damage(NamedTuple):
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


class Log(Protocol):
    """One writer's log. Everything is called in the reactor's thread."""

    figures: LogFigures

    @property
    def end(self) -> int:
        """Behind the newest message appended, committed or not."""
        ...

    @property
    def size(self) -> int:
        """Bytes stored, over all generations."""
        ...

    def append(self, run: PublishRun, topic: bytes, publisher: str, arrived: float) -> LogRun:
        """Take a run; ``topic`` is its topic with aliases resolved. It is safe when the next batch is."""
        ...

    async def read(self, filters: Sequence[str], position: int, messages: int, budget: int) -> Reading:
        """Runs from ``position`` on whose topic matches one of the (plain) filters, up to about so many messages
        or, whichever comes first, bytes; at least one run if there is any. It includes what is appended and not
        committed yet. A run may be returned with more messages than asked for: the caller stops where it must.
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

    # Retention.

    def due(self, wall: float) -> list[GenerationInfo]:
        """Closed generations whose time is over, or that are the oldest of too many bytes."""
        ...

    async def drop(self, generation: int) -> None:
        """Remove a closed generation whole."""
        ...

    # Tools.

    def generations(self) -> list[GenerationInfo]: ...

    async def streams(self, generation: int | None = None) -> list[StreamInfo]:
        """Of one generation or of all; those of old generations are read for it."""
        ...

    def verify(self, breath: Breath | None = None) -> AsyncIterator[Damage]:
        """Read every page and check it; ``breath`` is awaited now and then, so that others get their turn."""
        ...
