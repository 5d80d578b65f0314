"""What one simulated server has of the caches, and which server has which partition.

A partition has a primary and backups, by rendezvous as at Ignite. A server that is given a partition copies it first;
until that is done the ones that had it go on to answer for it. In memory, what a server had that has gone is given to
others. On disk it stays this server's, and what nobody has any more is found again when all holders are back.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import Final, Protocol
from zlib import crc32

from iot_mqtt.grid.ignite.thread import name_of
from iot_mqtt.ports.grid import CacheName

PARTITIONS: Final = 16
BACKUPS: Final = 1
CACHES: Final = tuple(name_of(cache) for cache in CacheName)


def partition_of(key: bytes) -> int:
    return crc32(key) % PARTITIONS


class Shelf:
    """One cache at one server: entries, and their keys in order."""

    __slots__ = ("values", "keys")

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.keys: list[bytes] = []

    def set(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            if self.values.pop(key, None) is not None:
                del self.keys[bisect_left(self.keys, key)]
            return
        if key not in self.values:
            if not self.keys or key > self.keys[-1]:
                self.keys.append(key)
            else:
                insort(self.keys, key)
        self.values[key] = value

    def behind(self, prefix: bytes, after: bytes | None) -> Iterator[bytes]:
        """Keys with this prefix, in their order."""
        keys = self.keys
        at = bisect_left(keys, prefix)
        if after is not None:
            at = max(at, bisect_right(keys, after))
        while at < len(keys) and keys[at].startswith(prefix):
            yield keys[at]
            at += 1


class Copy:
    """All caches at one server, of the partitions it has."""

    def __init__(self) -> None:
        self.shelves = {name: Shelf() for name in CACHES}

    def take_over(self, partition: int, source: Copy) -> None:
        """Have what the other has of a partition, and nothing else of it."""
        self.drop(partition)
        for name, shelf in source.shelves.items():
            own = self.shelves[name]
            for key, value in shelf.values.items():
                if partition_of(key) == partition:
                    own.set(key, value)

    def drop(self, partition: int) -> None:
        for shelf in self.shelves.values():
            for key in [key for key in shelf.values if partition_of(key) == partition]:
                shelf.set(key, None)


class Keeper(Protocol):
    """Who has copies."""

    name: str
    copy: Copy


class Placement:
    """Which server has which partition, as the servers that are together see it."""

    def __init__(self, holders: Sequence[Keeper] = ()) -> None:
        """``holders``: those that keep what they have on disk; none: what they have is in memory."""
        self.holders = holders
        #: Who had a partition last that nobody has now.
        self._last: dict[int, Keeper] = {}
        #: Those with a whole copy, the primary first.
        self.owners: list[list[Keeper]] = [[] for _ in range(PARTITIONS)]

    def ideal(self, partition: int, members: Sequence[Keeper]) -> list[Keeper]:
        """Who is to have it."""
        ranked = sorted(self.holders or members, key=lambda one: crc32(b"%d/%s" % (partition, one.name.encode())))
        return ranked[: BACKUPS + 1]

    def without(self, gone: Keeper) -> None:
        for partition, owners in enumerate(self.owners):
            if gone in owners:
                owners.remove(gone)
                if not owners:
                    self._last[partition] = gone

    def find(self, members: Sequence[Keeper]) -> None:
        """If all holders are back, those that had a partition last have it."""
        if self.holders and all(one in members for one in self.holders):
            for partition, last in self._last.items():
                self.owners[partition].append(last)
            self._last.clear()

    def wanted(self, members: Sequence[Keeper]) -> list[tuple[int, Keeper]]:
        """Partitions that servers are still to get."""
        return [
            (partition, one)
            for partition in range(PARTITIONS)
            for one in self.ideal(partition, members)
            if one in members and one not in self.owners[partition]
        ]

    def has(self, partition: int, one: Keeper, members: Sequence[Keeper]) -> None:
        """It has a whole copy now; who need not have one any more drops it."""
        owners = self.owners[partition]
        owners.append(one)
        ideal = self.ideal(partition, members)
        if all(each in owners for each in ideal):
            for each in owners:
                if each not in ideal:
                    each.copy.drop(partition)
            self.owners[partition] = ideal

    @property
    def missing(self) -> int:
        """Partitions that have fewer copies than they should."""
        return sum(len(owners) <= BACKUPS for owners in self.owners)

    @property
    def lost(self) -> bool:
        """Nobody has it any more."""
        return not all(self.owners)
