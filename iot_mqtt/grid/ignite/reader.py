"""Reading off the reactor: two lanes, each a queue, a thread and a thin-client connection of its own.

::

    get, get_many ─▶ values ─┐  what waits for one cache is asked in one question
    page          ─▶ pages  ─┴▶ thread ─▶ any server ─▶ back in the reactor

A long page does not keep single values waiting. What is read began after it was asked for, so it has everything
that was acknowledged by then: every write is answered when all copies have it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Generic, TypeVar

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.bridge import Bridge, Cross, Finish
from iot_mqtt.grid.ignite.settings import IgniteSettings
from iot_mqtt.grid.ignite.thread import ThinThread
from iot_mqtt.ports.counters import Histogram
from iot_mqtt.ports.grid import CacheName, Pair

T = TypeVar("T")

#: Keys that are asked for in one question, unless one read asks for more.
TURN_KEYS: Final = 256
#: Seconds between two attempts to connect while nobody reads.
IDLE_RETRY: Final = 1.0


class _Read(Generic[T]):
    """A question, its answer, and who waits for it."""

    __slots__ = ("began", "until", "done", "error", "result")

    def __init__(self, began: float, until: float) -> None:
        self.began = began
        self.until = until
        self.done: Deferred[T] = Deferred()
        self.error: Unavailable | None = None
        self.result: T | None = None

    def finish(self) -> None:
        if self.error is not None:
            self.done.errback(self.error)
        else:
            self.done.callback(self.result)  # type: ignore[arg-type]


class _Values(_Read[list["bytes | None"]]):
    """Values of keys of one cache."""

    __slots__ = ("cache", "keys")

    def __init__(self, cache: CacheName, keys: Sequence[bytes], began: float, until: float) -> None:
        super().__init__(began, until)
        self.cache = cache
        self.keys = keys


class _Page(_Read[list[Pair]]):
    """Entries of one cache in key order."""

    __slots__ = ("cache", "prefix", "after", "limit")

    def __init__(
        self, cache: CacheName, prefix: bytes, after: bytes | None, limit: int, began: float, until: float
    ) -> None:
        super().__init__(began, until)
        self.cache = cache
        self.prefix = prefix
        self.after = after
        self.limit = limit


R = TypeVar("R", _Values, _Page)


class _Lane(Generic[R]):
    """A queue, its thread, and what the reactor knows of it."""

    def __init__(
        self, settings: IgniteSettings, first: int, cross: Cross, answer: Callable[[ThinThread, list[R]], None]
    ) -> None:
        self._answer: Callable[[ThinThread, list[R]], None] = answer
        self._thread = ThinThread(settings, first % max(len(settings.addresses), 1))
        self._bridge: Bridge[R] = Bridge(self._turn, cross, TURN_KEYS)
        self._ended: Deferred[None] | None = None
        self.connected = False
        self.trouble: str | None = "not connected yet"
        self.connects = self.bytes = 0
        self.latency = Histogram()
        self.failures = 0

    def start(self) -> None:
        self._thread.closing = threading.Event()
        self._bridge.patience = 0.0
        self._bridge.start(_nothing, self._end)

    def put(self, read: R, weight: int) -> None:
        self._bridge.put(read, weight)

    async def stop(self) -> None:
        """What was asked before is answered, unless nobody is there to answer."""
        self._ended = Deferred()
        if not self.connected:
            self._thread.closing.set()
        self._bridge.stop()
        await self._ended

    # In the lane's thread.

    def _turn(self, reads: list[R]) -> Finish:
        thread = self._thread
        if reads:
            self._answer(thread, reads)
        else:
            thread.connect()
        self._bridge.patience = None if thread.connected else IDLE_RETRY
        return partial(self._finished, reads, thread.connected, thread.trouble, thread.connects, thread.bytes)

    def _end(self) -> Finish:
        self._thread.drop("closed")
        return self._after

    # In the reactor.

    def _finished(self, reads: list[R], connected: bool, trouble: str | None, connects: int, size: int) -> None:
        self.connected, self.trouble, self.connects, self.bytes = connected, trouble, connects, size
        now = time.monotonic()
        for read in reads:
            self.latency.observe(now - read.began)
            self.failures += read.error is not None
            read.finish()

    def _after(self) -> None:
        self._bridge.join()
        self.connected, self.trouble = False, "the grid is not open"
        ended, self._ended = self._ended, None
        if ended is not None:
            ended.callback(None)


class Reader:
    """Called in the reactor's thread, and answers there."""

    def __init__(self, settings: IgniteSettings, cross: Cross, first: int = 0) -> None:
        self._patience = settings.read_patience
        self._values: _Lane[_Values] = _Lane(settings, first, cross, _answer_values)
        self._pages: _Lane[_Page] = _Lane(settings, first, cross, _answer_pages)
        self._open = False

    def start(self) -> None:
        """Begin to connect."""
        self._open = True
        self._values.start()
        self._pages.start()

    async def stop(self) -> None:
        self._open = False
        await self._values.stop()
        await self._pages.stop()

    @property
    def connected(self) -> bool:
        return self._values.connected and self._pages.connected

    @property
    def trouble(self) -> str | None:
        """Why a server could not be read when that was last tried; None when it could."""
        return self._values.trouble or self._pages.trouble

    @property
    def connects(self) -> int:
        return self._values.connects + self._pages.connects

    @property
    def failures(self) -> int:
        """Reads that ended with ``Unavailable``."""
        return self._values.failures + self._pages.failures

    @property
    def bytes_in(self) -> int:
        return self._values.bytes + self._pages.bytes

    @property
    def value_latency(self) -> Histogram:
        return self._values.latency

    @property
    def page_latency(self) -> Histogram:
        return self._pages.latency

    async def get_many(self, cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        self._check()
        if not keys:
            return []
        now = time.monotonic()
        read = _Values(cache, keys, now, now + self._patience)
        self._values.put(read, len(keys))
        return await read.done

    async def page(self, cache: CacheName, prefix: bytes, after: bytes | None, limit: int) -> list[Pair]:
        self._check()
        if limit <= 0:
            return []
        now = time.monotonic()
        read = _Page(cache, prefix, after, limit, now, now + self._patience)
        self._pages.put(read, TURN_KEYS)
        return await read.done

    def _check(self) -> None:
        if not self._open:
            raise Unavailable("the grid is not open")


# In the lanes' threads.


def _answer_values(thread: ThinThread, reads: list[_Values]) -> None:
    by_cache: dict[CacheName, list[_Values]] = {}
    for read in reads:
        by_cache.setdefault(read.cache, []).append(read)
    for cache, several in by_cache.items():
        keys = list(dict.fromkeys(key for read in several for key in read.keys))
        try:
            found = thread.get_all(cache, keys, min(read.until for read in several))
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
            _fail(several, error)
            continue
        for read in several:
            read.result = [found.get(key) for key in read.keys]


def _answer_pages(thread: ThinThread, reads: list[_Page]) -> None:
    for read in reads:
        try:
            read.result = thread.page(read.cache, read.prefix, read.after, read.limit, read.until)
        except Exception as error:  # noqa: BLE001 - likewise
            _fail([read], error)


def _fail(reads: Sequence[_Values | _Page], error: Exception) -> None:
    trouble = error if isinstance(error, Unavailable) else Unavailable(f"the grid cannot be read: {error!r}")
    for read in reads:
        read.error = trouble


def _nothing() -> None:
    """The thread connects in its first turn."""
