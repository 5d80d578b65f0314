"""Topics in byte order, in chunks: adding, removing and finding a place all cost about a microsecond.

One flat list would move half of its memory for each insertion; a million retained topics would then cost half
a millisecond each. Chunks of about a thousand keep what is moved within the cache. A chunk knows how deep its topics
are, so that who wants deeper ones passes over all of it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection
from itertools import chain

_CHUNK = 1024


class Effort:
    """What may still be done, in units of who does it."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class SortedTopics:
    """A sorted set of topics for reading from any place onwards."""

    __slots__ = ("_chunks", "_lasts", "_slashes", "_count")

    def __init__(self) -> None:
        # Never an empty chunk; _lasts[i] is _chunks[i][-1], for finding the chunk.
        self._chunks: list[list[bytes]] = []
        self._lasts: list[bytes] = []
        # How many slashes a topic of _chunks[i] has at most; fewer, perhaps, since one was removed.
        self._slashes: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add_all(self, topics: Collection[bytes]) -> None:
        """Add topics that are not in it yet. Many at once are sorted together, which is cheaper by far."""
        if len(topics) * 4 > self._count:
            everything = list(chain.from_iterable(self._chunks))
            everything += topics
            self._rebuild(everything)
        else:
            for topic in topics:
                self._add(topic)
            self._count += len(topics)

    def _rebuild(self, topics: list[bytes]) -> None:
        topics.sort()
        self._chunks = [topics[start : start + _CHUNK] for start in range(0, len(topics), _CHUNK)]
        self._lasts = [chunk[-1] for chunk in self._chunks]
        self._slashes = [_most_slashes(chunk) for chunk in self._chunks]
        self._count = len(topics)

    def _add(self, topic: bytes) -> None:
        index = min(bisect_left(self._lasts, topic), len(self._chunks) - 1)
        chunk = self._chunks[index]
        insort(chunk, topic)
        self._slashes[index] = max(self._slashes[index], topic.count(b"/"))
        if len(chunk) > 2 * _CHUNK:
            halves = [chunk[:_CHUNK], chunk[_CHUNK:]]
            self._chunks[index : index + 1] = halves
            self._slashes[index : index + 1] = [_most_slashes(half) for half in halves]
            self._lasts.insert(index, chunk[_CHUNK - 1])
            index += 1
        self._lasts[index] = self._chunks[index][-1]

    def remove(self, topic: bytes) -> None:
        """Remove a topic that is in it."""
        index = bisect_left(self._lasts, topic)
        chunk = self._chunks[index]
        del chunk[bisect_left(chunk, topic)]
        self._count -= 1
        if chunk:
            self._lasts[index] = chunk[-1]
        else:
            del self._chunks[index], self._lasts[index], self._slashes[index]

    def ceiling(self, topic: bytes, slashes: int, effort: Effort) -> bytes | None:
        """The first topic, not before this one, that has so many slashes; one before that where the effort ends."""
        index = bisect_left(self._lasts, topic)
        while index < len(self._lasts):
            chunk = self._chunks[index]
            if self._slashes[index] >= slashes:
                first = place = bisect_left(chunk, topic)
                while place < len(chunk):
                    found = chunk[place]
                    if found.count(b"/") >= slashes:
                        effort.left -= place - first
                        return found
                    place += 1
                effort.left -= place - first
            effort.left -= 1
            if effort.left <= 0:
                return chunk[-1]
            index += 1
        return None

    def run(self, start: bytes, stop: bytes | None, limit: int) -> list[bytes]:
        """Up to ``limit`` topics from ``start`` on, before ``stop``, in order. May be fewer only at the end."""
        found: list[bytes] = []
        index = bisect_left(self._lasts, start)
        while index < len(self._chunks) and len(found) < limit:
            chunk = self._chunks[index]
            first = bisect_left(chunk, start)
            last = min(len(chunk), first + limit - len(found))
            if stop is not None and chunk[last - 1] >= stop:
                found += chunk[first : bisect_left(chunk, stop, first)][: last - first]
                break
            found += chunk[first:last]
            index += 1
        return found


def _most_slashes(chunk: list[bytes]) -> int:
    return max([topic.count(b"/") for topic in chunk])
