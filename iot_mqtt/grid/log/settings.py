"""What the configuration says about the log."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class TopicRetention:
    """Topics that are kept for another time than the rest. None: as the rest; 0: without this limit."""

    filter: str
    seconds: float | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Defaults suit one node; see ``application.yaml`` for the keys."""

    #: Parts by publisher's client id. A change only says where new messages go.
    shards: int = 4
    #: A generation takes messages for so long, and is dropped whole.
    generation_seconds: float = HOUR
    #: How long messages are kept at least, and how many bytes at most; 0: no such limit.
    retention_seconds: float = 7 * 24 * HOUR
    retention_bytes: int = 8192 * MIB
    #: Exceptions; the first filter that matches a topic counts.
    topics: tuple[TopicRetention, ...] = ()
    #: Streams of one generation; topics beyond them share one stream per shard.
    max_streams: int = 65_536
    #: Of pages that are kept, for readers of the same stretch.
    page_cache_bytes: int = 64 * MIB
    #: A generation is over when it has so many bytes; 0: an eighth of what is kept.
    generation_bytes: int = 0

    @property
    def classes(self) -> dict[str, int]:
        """The retention classes by what names them."""
        return {self.filter_of(index): index for index in range(len(self.topics) + 1)}

    def seconds_of(self, retention_class: int) -> float:
        """How long messages of a class are kept; class 0 is the rest, the others are ``topics`` from 1 on."""
        own = self.topics[retention_class - 1].seconds if retention_class else None
        return self.retention_seconds if own is None else own

    def bytes_of(self, retention_class: int) -> int:
        """How many bytes of a class are kept."""
        own = self.topics[retention_class - 1].bytes if retention_class else None
        return self.retention_bytes if own is None else own

    def filter_of(self, retention_class: int) -> str:
        """What names a class across configurations; the rest has no name."""
        return self.topics[retention_class - 1].filter if retention_class else ""

    def generation_bytes_of(self, retention_class: int) -> int:
        """When a generation of a class is over; 0: never for its size."""
        return self.generation_bytes or self.bytes_of(retention_class) // 8
