"""Reading large values off the reactor: a queue, a thread, and the thread's thin-client connection.

::

    get, get_many ─▶ queue ─▶ thread ─▶ any server ─▶ back in the reactor
                              what waits for one cache is asked in one question

What is read began after it was asked for, so it has everything that was acknowledged by then: every write is
answered when all copies have it. Everything else is read through the gateway: see ``paging``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite.settings import NOT_YET, IgniteSettings
from iot_mqtt.grid.ignite.thread import ThinThread
from iot_mqtt.ports.counters import Histogram
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.thread_bridge import Cross, Finish, TurnBridge

#: Keys that are asked for in one question, unless one read asks for more.
TURN_KEYS: Final = 256
#: Seconds between two attempts to connect while nobody reads.
IDLE_RETRY: Final = 1.0


class _Read:
    """Keys of one cache, their values, and who waits for them."""

    __slots__ = ("cache", "keys", "began", "until", "done", "error", "values")

    def __init__(self, cache: CacheName, keys: Sequence[bytes], began: float, until: float) -> None:
        self.cache = cache
        self.keys = keys
        self.began = began
        self.until = until
        self.done: Deferred[list[bytes | None]] = Deferred()
        self.error: Unavailable | None = None
        self.values: list[bytes | None] = []

    def finish(self) -> None:
        if self.error is not None:
            self.done.errback(self.error)
        else:
            self.done.callback(self.values)


class Reader:
    """Called in the reactor's thread, and answers there."""

    def __init__(self, settings: IgniteSettings, cross: Cross, first: int = 0) -> None:
        self._patience = settings.read_patience
        self._thread = ThinThread(settings, first % max(len(settings.addresses), 1))
        self._bridge: TurnBridge[_Read] = TurnBridge("grid", self._turn, cross, TURN_KEYS)
        self._open = False
        self._ended: Deferred[None] | None = None
        self.connected = False
        #: Why a server could not be read when that was last tried; None when it could.
        self.trouble: str | None = NOT_YET
        self.latency = Histogram()

    def start(self) -> None:
        """Begin to connect."""
        self._open = True
        self._thread.closing = threading.Event()
        # It connects in its first turn.
        self._bridge.patience = 0.0
        self._bridge.begin(end=self._end)

    async def stop(self) -> None:
        """What was asked before is answered, unless nobody is there to answer."""
        self._open = False
        self._ended = Deferred()
        if not self.connected:
            self._thread.closing.set()
        self._bridge.stop()
        await self._ended

    async def get_many(self, cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        if not self._open:
            raise Unavailable("the grid is not open")
        if not keys:
            return []
        now = time.monotonic()
        read = _Read(cache, keys, now, now + self._patience)
        self._bridge.put(read, len(keys))
        return await read.done

    def _finished(self, reads: list[_Read], connected: bool, trouble: str | None) -> None:
        self.connected, self.trouble = connected, trouble
        now = time.monotonic()
        for read in reads:
            self.latency.observe(now - read.began)
            read.finish()

    def _after(self) -> None:
        self._bridge.join()
        self.connected, self.trouble = False, "the grid is not open"
        ended, self._ended = self._ended, None
        if ended is not None:
            ended.callback(None)

    # In the thread.

    def _turn(self, reads: list[_Read]) -> Finish:
        thread = self._thread
        if reads:
            _answer(thread, reads)
        else:
            thread.connect()
        self._bridge.patience = None if thread.connected else IDLE_RETRY
        return partial(self._finished, reads, thread.connected, thread.trouble)

    def _end(self) -> Finish:
        self._thread.drop("closed")
        return self._after


def _answer(thread: ThinThread, reads: list[_Read]) -> None:
    by_cache: dict[CacheName, list[_Read]] = {}
    for read in reads:
        by_cache.setdefault(read.cache, []).append(read)
    for cache, several in by_cache.items():
        keys = list(dict.fromkeys(key for read in several for key in read.keys))
        try:
            found = thread.get_all(cache, keys, min(read.until for read in several))
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
            trouble = error if isinstance(error, Unavailable) else Unavailable(f"the grid cannot be read: {error!r}")
            for read in several:
                read.error = trouble
            continue
        for read in several:
            read.values = [found.get(key) for key in read.keys]
