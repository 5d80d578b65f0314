"""What the admin side may ask of a node's log, as values; ``facade`` hands it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from iot_mqtt.ports.log import Damage
from iot_mqtt.ports.status import LogInfo


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """One shard over all generations."""

    shard: int
    streams: int
    pages: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """Messages that will be dropped together."""

    generation: int
    retention_class: int
    began_at: float
    first: int
    end: int
    messages: int
    bytes: int
    streams: int
    closed: bool


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """Topics of like structure, of one shard and generation."""

    generation: int
    stream: int
    shard: int
    structure: str
    bucket: int
    buckets: int
    pages: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class VerificationInfo:
    """The last check of every page, or the one that is under way."""

    running: bool
    began_at: float | None
    ended_at: float | None
    #: Why it ended early.
    failure: str | None
    damaged: int
    #: The first of them.
    damages: list[Damage]


@dataclass(frozen=True, slots=True)
class LoggedInfo:
    """One message of the log."""

    came_at: float
    #: Whose log it is in, and where.
    writer: int
    position: int
    topic: str
    publisher: str
    qos: int
    #: Bytes of the payload, and the beginning of it.
    size: int
    payload: bytes


class LoggedPlace(NamedTuple):
    """A message that a page ended with: its time, and where it is in the log of a writer."""

    came_at: float
    writer: int
    position: int


@dataclass(frozen=True, slots=True)
class LoggedWanted:
    """Which messages, in the order in which they came."""

    filter: str
    #: As a replay begins: so long ago, or at a time.
    since: str
    #: The same: only what came before. None: to the end.
    until: str | None
    limit: int
    #: Only what is behind this one; in another writer's log what came later.
    behind: LoggedPlace | None = None


class LogPart(Protocol):
    """The log, for tools."""

    def info(self) -> LogInfo: ...

    async def shards(self) -> list[ShardInfo]: ...

    def generations(self, after: int | None = None, limit: int = 100) -> list[GenerationInfo]: ...

    async def streams(
        self, generation: int | None = None, after: tuple[int, int] | None = None, limit: int = 100
    ) -> list[StreamInfo]:
        """``after``: generation and stream."""
        ...

    def verify(self) -> VerificationInfo:
        """Begin to check every page, in the background, unless that is being done."""
        ...

    def verification(self) -> VerificationInfo: ...

    async def drop(self, generation: int) -> bool:
        """Drop a closed generation, and count what is lost; False if there is none of that number."""
        ...

    async def messages(self, wanted: LoggedWanted) -> list[LoggedInfo]:
        """What is committed of them. Raises ``Refused`` for a filter or a time that is none."""
        ...
