"""The data grid: named caches of bytes to bytes, written in batches.

Everything is asynchronous and batched because the grid may be a process away. Keys are ordered as
unsigned bytes. A ``WriteBatch`` is atomic on the embedded grid. On a partitioned
one a crash may leave a beginning of it, caches in the order of the batch and of each any entries; one that is
``whole`` is there whole or not at all for whoever takes the place of its writer.

An exception (``Unavailable``) means "not ready" and is never to be read as "absent".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Protocol


class CacheName(StrEnum):
    """The caches of design section 6 that exist today."""

    META = "meta"
    SESSIONS = "sessions"
    CHANNELS = "channels"
    SUBSCRIPTIONS = "subscriptions"
    ROUTES = "routes"
    RETAINED = "retained"
    QUEUE = "queue"
    DUP = "dup"
    PUBREL = "pubrel"
    RECEIVED = "received"
    WILLS = "wills"
    LOG = "log"
    LOG_INDEX = "log_index"
    LOG_META = "log_meta"
    LOG_TURNS = "log_turns"
    PROGRESS = "progress"
    SEGMENTS = "segments"
    GROUPS = "groups"
    SHARES = "shares"
    DEVICES = "devices"
    SHADOWS = "shadows"
    COMMANDS = "commands"
    PLUGINS = "plugins"


Pair = tuple[bytes, bytes]
#: A put, or with None a removal.
Operation = tuple[CacheName, bytes, bytes | None]


class WriteBatch:
    """Puts and removals in the order they were asked for; a later one on a key wins."""

    __slots__ = ("needed", "operations", "whole")

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        #: A beginning of it would be wrong, not just less: a message in the log, say, without the QoS 2 id by which its
        #: repetition is known.
        self.whole = False
        #: Nobody goes on without it, whatever it puts: a grid that is full takes it into a reserve.
        self.needed = False

    def put(self, cache: CacheName, key: bytes, value: bytes) -> None:
        self.operations.append((cache, key, value))

    def remove(self, cache: CacheName, key: bytes) -> None:
        self.operations.append((cache, key, None))

    def __len__(self) -> int:
        return len(self.operations)

    def __bool__(self) -> bool:
        return bool(self.operations)


class Grid(Protocol):
    """What the broker needs of a data grid. Every implementation passes ``tests/contract``."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def commit(self, batch: WriteBatch) -> None:
        """Return once the batch is as safe as this grid makes it (embedded: in a synced log)."""
        ...

    def commit_soon(self, batch: WriteBatch, done: Callable[[BaseException | None], None]) -> None:
        """The same for a caller that can't await: ``done`` is called once in the reactor's thread, in the
        order of the calls, with None or with why it failed. It may be called before this returns.
        """
        ...

    async def get(self, cache: CacheName, key: bytes) -> bytes | None: ...

    async def get_many(self, cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]: ...

    async def page(
        self, cache: CacheName, prefix: bytes = b"", after: bytes | None = None, limit: int = 1000
    ) -> list[Pair]:
        """Up to ``limit`` entries in key order whose keys start with ``prefix`` and come after ``after``."""
        ...

    async def remove_prefix(self, cache: CacheName, prefix: bytes) -> None:
        """Everything whose key starts with ``prefix`` and that was committed before is gone when this returns.

        In its place among the commits, as safe as they are, and not atomic for readers.
        """
        ...

    async def compare_and_set(self, cache: CacheName, key: bytes, expected: bytes | None, value: bytes | None) -> bool:
        """Set (or remove, ``value=None``) if the present value is ``expected`` (None: absent)."""
        ...


def remove_all(batch: WriteBatch, cache: CacheName, keys: Iterable[bytes]) -> None:
    """Add a removal for each key."""
    for key in keys:
        batch.remove(cache, key)
