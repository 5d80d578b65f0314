"""The reference grid: dictionaries and sorted key lists in this process. It awaits nothing.

For tests, simulations and brokers that keep nothing. ``hold`` and ``fail`` let a test put time and trouble
between a commit and its completion, where the embedded grid has a disk.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Sequence

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.grid import CacheName, Pair, WriteBatch

log = logging.getLogger(__name__)

Done = Callable[[BaseException | None], None]


class MemoryGrid:
    """Every call takes effect before it returns, unless a test holds it."""

    def __init__(self) -> None:
        self._values: dict[CacheName, dict[bytes, bytes]] = {cache: {} for cache in CacheName}
        self._keys: dict[CacheName, list[bytes]] = {cache: [] for cache in CacheName}
        self._waiting: deque[tuple[WriteBatch, Done]] = deque()
        self._held = False
        self._draining = False
        self._failure: Unavailable | None = None
        self._open = False

    @property
    def available(self) -> bool:
        """Whether a commit made now would be accepted."""
        return self._open and self._failure is None

    async def open(self) -> None:
        self._open = True

    async def close(self) -> None:
        """Finish what waits, then refuse everything. What was written stays for the next ``open``."""
        self.release()
        self._open = False

    async def commit(self, batch: WriteBatch) -> None:
        self._check()
        self._apply(batch)

    def commit_soon(self, batch: WriteBatch, done: Done) -> None:
        """Commit and call ``done``, in this grid before returning; see the port for the contract."""
        self._waiting.append((batch, done))
        self._drain()

    async def get(self, cache: CacheName, key: bytes) -> bytes | None:
        self._check_open()
        return self._values[cache].get(key)

    async def get_many(self, cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        self._check_open()
        values = self._values[cache]
        return [values.get(key) for key in keys]

    async def page(
        self, cache: CacheName, prefix: bytes = b"", after: bytes | None = None, limit: int = 1000
    ) -> list[Pair]:
        self._check_open()
        keys, values = self._keys[cache], self._values[cache]
        start = bisect_left(keys, prefix)
        if after is not None:
            start = max(start, bisect_right(keys, after))
        found: list[Pair] = []
        for index in range(start, min(start + limit, len(keys))):
            key = keys[index]
            if not key.startswith(prefix):
                break
            found.append((key, values[key]))
        return found

    async def remove_prefix(self, cache: CacheName, prefix: bytes) -> None:
        self._check()
        keys, values = self._keys[cache], self._values[cache]
        start = stop = bisect_left(keys, prefix)
        while stop < len(keys) and keys[stop].startswith(prefix):
            del values[keys[stop]]
            stop += 1
        del keys[start:stop]

    async def compare_and_set(self, cache: CacheName, key: bytes, expected: bytes | None, value: bytes | None) -> bool:
        self._check()
        if self._values[cache].get(key) != expected:
            return False
        batch = WriteBatch()
        if value is None:
            batch.remove(cache, key)
        else:
            batch.put(cache, key, value)
        self._apply(batch)
        return True

    # What only tests call.

    def hold(self) -> None:
        """Let ``commit_soon`` wait until ``release``, as if the disk were slow."""
        self._held = True

    def release(self) -> None:
        """Complete what waits, in order."""
        self._held = False
        self._drain()

    def fail(self, error: Unavailable | None) -> None:
        """Refuse every commit with this error; None: the trouble is over."""
        self._failure = error

    def _drain(self) -> None:
        # Not re-entered from a ``done`` that commits again: the order of calls is the order of completion.
        if self._draining:
            return
        self._draining = True
        try:
            while self._waiting and not self._held:
                batch, done = self._waiting.popleft()
                _call(done, self._attempt(batch))
        finally:
            self._draining = False

    def _attempt(self, batch: WriteBatch) -> Unavailable | None:
        try:
            self._check()
        except Unavailable as error:
            return error
        self._apply(batch)
        return None

    def _apply(self, batch: WriteBatch) -> None:
        for cache, key, value in batch.operations:
            if value is None:
                self._remove(cache, key)
            else:
                self._put(cache, key, value)

    def _put(self, cache: CacheName, key: bytes, value: bytes) -> None:
        values = self._values[cache]
        if key not in values:
            keys = self._keys[cache]
            if not keys or key > keys[-1]:
                keys.append(key)
            else:
                insort(keys, key)
        values[key] = value

    def _remove(self, cache: CacheName, key: bytes) -> None:
        if self._values[cache].pop(key, None) is not None:
            keys = self._keys[cache]
            del keys[bisect_left(keys, key)]

    def _check(self) -> None:
        self._check_open()
        if self._failure is not None:
            raise self._failure

    def _check_open(self) -> None:
        if not self._open:
            raise Unavailable("the grid is not open")


def _call(done: Done, error: BaseException | None) -> None:
    try:
        done(error)
    except Exception:
        log.exception("a commit's completion failed")
