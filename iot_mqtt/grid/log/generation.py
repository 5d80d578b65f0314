"""Generations and streams as the log holds them in memory, and their records (``grid.records.base``)::

    generation   tagged fields
    stream       version (1) │ writer (2) │ shard (2) │ bucket (2) │ buckets (2) │ first turn (8) │ last turn (8)
                 │ counted to turn (8) │ pages (8) │ messages (8) │ bytes (8) │ structure length (2) │ structure

In both the counters include turns up to the one that is named as counted.
"""

from __future__ import annotations

from math import inf
from struct import Struct

from iot_mqtt.grid.log.keys import generation_key, stream_key, stream_pages, turn_of
from iot_mqtt.grid.log.records import DROPPING, OPEN
from iot_mqtt.grid.log.structures import Placing, Structures
from iot_mqtt.grid.records.base import VERSION, StructError, Unreadable, check_version, read_fields, write_fields
from iot_mqtt.ports.grid import CacheName, WriteBatch
from iot_mqtt.ports.log import WRITER_SHIFT, GenerationInfo, StreamInfo

_U32 = Struct(">I")
_U64 = Struct(">Q")
_TIME = Struct(">d")
_STREAM = Struct(">BHHHHQQQQQQH")

# Tags of a generation. On disk for ever: added, never changed or used again.
_BEGAN, _ENDED, _FILTER, _FIRST, _END, _MESSAGES, _BYTES, _STATE, _COUNTED, _STREAMS, _KNOWN = range(1, 12)


class Stream:
    """One stream of a generation. Counters are of staged turns; ``last_turn`` includes the one that gathers."""

    __slots__ = (
        "id",
        "generation",
        "shard",
        "structure",
        "bucket",
        "buckets",
        "key",
        "first_turn",
        "last_turn",
        "counted",
        "pages",
        "messages",
        "bytes",
    )

    def __init__(self, id: int, generation: Generation, shard: int, placing: Placing, turn: int) -> None:
        self.id = id
        self.generation = generation
        self.shard = shard
        self.structure, self.bucket, self.buckets = placing
        #: What the keys of its pages begin with.
        self.key = stream_pages(generation.id, shard, id)
        self.first_turn = self.last_turn = turn
        self.counted = 0
        self.pages = self.messages = self.bytes = 0

    def count(self, messages: int, size: int) -> None:
        """A page was staged, of the last turn or of one before it."""
        self.pages += 1
        self.messages += messages
        self.bytes += size

    def record(self, counted: int) -> bytes:
        structure, writer = self.structure.encode(), self.generation.id >> WRITER_SHIFT
        place = VERSION, writer, self.shard, self.bucket, self.buckets, self.first_turn, self.last_turn
        return _STREAM.pack(*place, counted, self.pages, self.messages, self.bytes, len(structure)) + structure

    def info(self) -> StreamInfo:
        return StreamInfo(
            self.id,
            self.generation.id,
            self.shard,
            self.structure,
            (self.bucket, self.buckets),
            self.pages,
            self.messages,
            self.bytes,
        )


class Generation:
    """A period of one retention class. ``end`` includes the turn that gathers, the counters do not."""

    __slots__ = (
        "id",
        "retention_class",
        "filter",
        "began_at",
        "ended_at",
        "known_time",
        "offset",
        "first",
        "end",
        "messages",
        "bytes",
        "state",
        "until",
        "full_at",
        "counted",
        "unseen",
        "ticket",
        "loaded",
        "streams",
        "next_stream",
        "in_order",
        "by_bucket",
        "structures",
        "placed",
        "recorded_streams",
    )

    def __init__(self, id: int, retention_class: int, filter: str, began_at: float, first: int) -> None:
        self.id = id
        self.retention_class = retention_class
        self.filter = filter
        self.began_at = self.ended_at = self.known_time = began_at
        #: Of the wall clock that ``began_at`` is by, to the monotonic one; None: it began in an earlier life.
        self.offset: float | None = None
        self.first = self.end = first
        self.messages = self.bytes = 0
        self.state = OPEN
        #: When it is over: a time, and a number of bytes.
        self.until = self.full_at = inf
        self.counted = 0
        #: Of the last batch that has anything of it.
        self.ticket = 0
        #: Up to this turn its streams may have pages that their counters and ``last_turn`` know nothing of: only a
        #: reader of another's log misses turns.
        self.unseen = -1
        #: Whether the streams are here; those of old generations are read when somebody wants them.
        self.loaded = True
        self.streams: dict[int, Stream] = {}
        #: Behind the highest number of them.
        self.next_stream = 0
        #: The same, so that who has seen some of them can go on there; another list after another loading.
        self.in_order: list[Stream] = []
        #: And by structure and bucket, so that who wants one topic looks at nobody else's.
        self.by_bucket: dict[str, dict[int, list[Stream]]] = {}
        self.structures = Structures()
        #: How many streams its record tells of.
        self.recorded_streams = 0
        self.placed: dict[tuple[int, Placing], Stream] = {}

    @property
    def first_turn(self) -> int:
        return turn_of(self.first)

    @property
    def last_turn(self) -> int:
        return turn_of(self.end)

    @property
    def stream_count(self) -> int:
        return len(self.in_order) if self.loaded else self.recorded_streams

    def unload(self) -> None:
        """Forget the streams, not how many they are."""
        self.recorded_streams = self.stream_count
        self.loaded = False
        self.streams, self.in_order, self.by_bucket, self.placed = {}, [], {}, {}
        self.next_stream = 0
        self.structures = Structures()

    def renew(self, read: Generation) -> None:
        """Take over what its record says, where that is newer than what is known here."""
        self.state = read.state
        if read.state != OPEN:
            self.placed = {}
        self.end, self.ended_at = max(self.end, read.end), max(self.ended_at, read.ended_at)
        self.recorded_streams = read.recorded_streams
        if read.counted > self.counted:
            self.messages, self.bytes, self.counted = read.messages, read.bytes, read.counted

    def add(self, stream: Stream) -> None:
        self.streams[stream.id] = stream
        self.next_stream = max(self.next_stream, stream.id + 1)
        self.in_order.append(stream)
        buckets = self.by_bucket.get(stream.structure)
        if buckets is None:
            buckets = self.by_bucket[stream.structure] = {}
            self.structures.add(stream.structure)
        buckets.setdefault(stream.bucket, []).append(stream)
        if self.state == OPEN:
            self.placed[stream.shard, Placing(stream.structure, stream.bucket, stream.buckets)] = stream

    def record(self, counted: int) -> bytes:
        return write_fields(
            (
                (_BEGAN, _TIME.pack(self.began_at)),
                (_ENDED, _TIME.pack(self.ended_at)),
                (_FILTER, self.filter.encode()),
                (_FIRST, _U64.pack(self.first)),
                (_END, _U64.pack(self.end)),
                (_MESSAGES, _U64.pack(self.messages)),
                (_BYTES, _U64.pack(self.bytes)),
                (_STATE, bytes((self.state,))),
                (_COUNTED, _U64.pack(counted)),
                (_STREAMS, _U32.pack(self.stream_count)),
                (_KNOWN, _TIME.pack(self.known_time)),
            )
        )

    def info(self) -> GenerationInfo:
        return GenerationInfo(
            self.id,
            self.retention_class,
            self.began_at,
            self.first,
            self.end,
            self.messages,
            self.bytes,
            self.stream_count,
            self.state != OPEN,
        )


def stage_record(batch: WriteBatch, item: Generation | Stream, counted: int) -> None:
    """Write its record; ``counted`` is the turn up to which its counters go."""
    item.counted = counted
    if isinstance(item, Generation):
        batch.put(CacheName.LOG_META, generation_key(item.id), item.record(counted))
    else:
        batch.put(CacheName.LOG_META, stream_key(item.generation.id, item.id), item.record(counted))


def read_generation(id: int, record: bytes, classes: dict[str, int]) -> Generation:
    """From its record, without its streams; one of a class that is no longer configured is one of the rest."""
    fields = read_fields(record)
    try:
        filter, began_at = fields[_FILTER].decode(), _TIME.unpack(fields[_BEGAN])[0]
        generation = Generation(id, classes.get(filter, 0), filter, began_at, _U64.unpack(fields[_FIRST])[0])
        (generation.ended_at,) = _TIME.unpack(fields[_ENDED])
        (generation.end,) = _U64.unpack(fields[_END])
        (generation.messages,) = _U64.unpack(fields[_MESSAGES])
        (generation.bytes,) = _U64.unpack(fields[_BYTES])
        generation.state = fields[_STATE][0]
        (generation.counted,) = _U64.unpack(fields[_COUNTED])
        (generation.recorded_streams,) = _U32.unpack(fields[_STREAMS])
        # Releases before this one wrote none.
        (generation.known_time,) = _TIME.unpack(fields.get(_KNOWN, fields[_ENDED]))
    except (KeyError, IndexError, StructError, UnicodeDecodeError) as lacking:
        raise Unreadable("a generation without all its fields") from lacking
    generation.loaded = False
    return generation


def as_dropped(record: bytes) -> bytes:
    """The record of a generation, saying that it is being dropped."""
    return write_fields((read_fields(record) | {_STATE: bytes((DROPPING,))}).items())


def read_stream(id: int, generation: Generation, record: bytes) -> Stream:
    """From its record."""
    check_version(record)
    try:
        _, _, shard, bucket, buckets, first, last, counted, pages, messages, size, length = _STREAM.unpack_from(record)
        structure = record[_STREAM.size : _STREAM.size + length]
        stream = Stream(id, generation, shard, Placing(structure.decode(), bucket, buckets), first)
    except (StructError, UnicodeDecodeError) as lacking:
        raise Unreadable("a stream cut short") from lacking
    if len(structure) != length:
        raise Unreadable("a stream cut short")
    stream.last_turn, stream.counted = last, counted
    stream.pages, stream.messages, stream.bytes = pages, messages, size
    return stream


class TopicPlace:
    """Where the runs of a topic go, in its present generation."""

    __slots__ = ("retention_class", "generation", "streams")

    def __init__(self, retention_class: int, generation: Generation, shards: int) -> None:
        self.retention_class = retention_class
        self.generation = generation
        self.streams: list[Stream | None] = [None] * shards
