"""Pages through the gateway: asked for, put together, and asked for again when a server or the connection fails.

::

    page ─▶ waiting ─▶ at most AT_ONCE asked for ─▶ ENTRIES, in any order ─▶ told
               ▲                                       │
               └── there is more · not ready · the connection broke

The gateway answers only when every partition took part, so a page misses nothing that was acknowledged when it was
asked for; it ends with entries or, after ``read_patience``, with ``Unavailable``.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Final

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite.frames import LONGEST_KEY, MOST_ENTRIES, Done, Entries, Status, encode_page
from iot_mqtt.grid.ignite.gateway import Gateway
from iot_mqtt.grid.ignite.settings import IgniteSettings
from iot_mqtt.grid.ignite.thread import name_of
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.counters import Histogram
from iot_mqtt.ports.grid import CacheName, Pair

#: Pages under way on a connection; the gateway refuses more than 32.
AT_ONCE: Final = 32


class _Page:
    """What is asked for, what was found of it, and who waits for it."""

    __slots__ = ("cache", "prefix", "after", "left", "found", "began", "done", "timer", "trouble", "pause")

    def __init__(self, cache: str, prefix: bytes, after: bytes | None, limit: int, began: float, pause: float) -> None:
        self.cache = cache
        self.prefix = prefix
        self.after = after
        self.left = limit
        self.found: list[Pair] = []
        self.began = began
        self.done: Deferred[list[Pair]] | None = Deferred()
        self.timer: Timer | None = None
        self.trouble: str | None = None
        self.pause = pause


class Pages:
    """Everything runs in the reactor's thread."""

    def __init__(self, settings: IgniteSettings, gateway: Gateway, clock: Clock) -> None:
        self._settings = settings
        self._gateway = gateway
        self._clock = clock
        self._waiting: deque[_Page] = deque()
        # On their way, and those among them that nobody waits for any more: the gateway works on them all the same.
        self._asked = 0
        self._unfinished: set[_Page] = set()
        self._stopped: Deferred[None] | None = None
        self.latency = Histogram()
        self.failures = 0

    async def page(self, cache: CacheName, prefix: bytes, after: bytes | None, limit: int) -> list[Pair]:
        if limit <= 0 or len(prefix) > LONGEST_KEY:
            return []
        settings = self._settings
        page = _Page(name_of(cache), prefix, after, limit, self._clock.monotonic(), settings.retry_first / 4)
        page.timer = self._clock.call_later(settings.read_patience, partial(self._too_late, page))
        self._unfinished.add(page)
        self._waiting.append(page)
        self._go_on()
        assert page.done is not None
        return await page.done

    async def stop(self) -> None:
        """What was asked before is answered, unless nobody is there to answer."""
        if self._unfinished and self._gateway.connected:
            self._stopped = Deferred()
            await self._stopped
        for page in list(self._unfinished):
            self._fail(page, Unavailable("the grid was closed"))

    # Told by the grid.

    def connected(self) -> None:
        self._go_on()

    def fenced(self) -> None:
        """Nobody welcomes us any more."""
        for page in list(self._unfinished):
            self._fail(page, self._gateway.failure())

    # Inside.

    def _go_on(self) -> None:
        while self._waiting and self._asked < AT_ONCE and self._gateway.connected:
            page = self._waiting.popleft()
            if page.done is None:
                continue
            self._asked += 1
            limit = min(page.left, MOST_ENTRIES)
            encode = partial(encode_page, cache=page.cache, prefix=page.prefix, after=page.after, limit=limit)
            self._gateway.page(encode, partial(self._answered, page))

    def _answered(self, page: _Page, answer: Entries | Done | None) -> None:
        self._asked -= 1
        if page.done is not None:
            self._take(page, answer)
        self._go_on()

    def _take(self, page: _Page, answer: Entries | Done | None) -> None:
        if isinstance(answer, Entries):
            page.found += answer.entries
            page.left -= len(answer.entries)
            if answer.more and page.left > 0 and answer.entries:
                page.after = answer.entries[-1][0]
                self._waiting.appendleft(page)
            else:
                self._finish(page)
        elif answer is None:
            # The connection broke. In its place behind those that are asked for again, too: first come, first served.
            page.trouble = "the connection to the gateway broke"
            self._again(page)
        elif answer.status == Status.NOT_READY:
            page.trouble = answer.detail
            self._clock.call_later(page.pause, partial(self._again, page))
            page.pause = min(page.pause * 2, self._settings.retry_last)
        else:
            self._fail(page, Unavailable(f"the grid gives no page (status {answer.status}): {answer.detail}"))

    def _again(self, page: _Page) -> None:
        if page.done is None:
            return
        if self._stopped is not None and not self._gateway.connected:
            self._fail(page, Unavailable("the grid was closed"))
            return
        self._waiting.append(page)
        self._go_on()

    def _too_late(self, page: _Page) -> None:
        page.timer = None
        if self._gateway.connected:
            trouble = page.trouble or f"no answer in {self._settings.read_patience:g} s"
            self._fail(page, Unavailable(f"the grid cannot be read: {trouble}"))
        else:
            self._fail(page, self._gateway.failure())

    def _finish(self, page: _Page) -> None:
        done = self._forget(page)
        if done is not None:
            done.callback(page.found)
        self._tell_stopped()

    def _fail(self, page: _Page, error: Unavailable) -> None:
        done = self._forget(page)
        if done is not None:
            self.failures += 1
            done.errback(error)
        self._tell_stopped()

    def _forget(self, page: _Page) -> Deferred[list[Pair]] | None:
        done, page.done = page.done, None
        self._unfinished.discard(page)
        self.latency.observe(self._clock.monotonic() - page.began)
        if page.timer is not None:
            page.timer.cancel()
            page.timer = None
        return done

    def _tell_stopped(self) -> None:
        if self._stopped is not None and not self._unfinished:
            stopped, self._stopped = self._stopped, None
            stopped.callback(None)
