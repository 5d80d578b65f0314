"""Reading through the gateway: asked for, put together, and asked for again when a server or the connection fails.

::

    page, get_many ─▶ waiting ─▶ at the end of the turn, as one READ ─▶ FOUND, in any order ─▶ told
                        ▲                                                  │
                        └── there is more · not ready · the connection broke

Whatever is wanted at a time shares a round trip: a session is in nine caches, and clients come in crowds. A few READs
are under way at once; what is wanted meanwhile gathers for the next.

The gateway answers only when every partition took part, so a page misses nothing that was acknowledged when it was
asked for; it ends with entries or, after ``read_patience``, with ``Unavailable``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite import frames
from iot_mqtt.grid.ignite.frames import LONGEST_KEY, MOST_ENTRIES, Done, Found, Status, Wanted, encode_read
from iot_mqtt.grid.ignite.gateway import Gateway
from iot_mqtt.grid.ignite.settings import IgniteSettings
from iot_mqtt.grid.ignite.thread import name_of
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.counters import Histogram
from iot_mqtt.ports.grid import CacheName, Pair

#: READs under way on a connection; the gateway refuses more than 32.
AT_ONCE: Final = 4
#: Pages of one READ.
TOGETHER: Final = 512


class _Page:
    """What is asked for, what was found of it, and who waits for it."""

    __slots__ = ("cache", "prefix", "after", "left", "found", "began", "done", "timer", "trouble", "pause")

    def __init__(self, cache: str, prefix: bytes, limit: int, began: float, pause: float) -> None:
        self.cache = cache
        self.prefix = prefix
        self.after: bytes | None = None
        #: Entries that are still wanted; 0: the one with this key.
        self.left = limit
        self.found: list[Pair] = []
        self.began = began
        self.done: Deferred[list[Pair]] | None = Deferred()
        self.timer: Timer | None = None
        self.trouble: str | None = None
        self.pause = pause

    def wanted(self) -> Wanted:
        return self.cache, self.prefix, self.after, min(self.left, MOST_ENTRIES)

    def take(self, page: frames.Page) -> bool:
        """Add what was found; whether that is all."""
        self.found += page.entries
        if not page.more or (page.entries and self.left == len(page.entries)):
            return True
        # An answer that was full before may have nothing of this page.
        if page.entries:
            self.left -= len(page.entries)
            self.after = page.entries[-1][0]
        return False


class Pages:
    """Everything runs in the reactor's thread."""

    def __init__(self, settings: IgniteSettings, gateway: Gateway, clock: Clock) -> None:
        self._settings = settings
        self._gateway = gateway
        self._clock = clock
        self._waiting: deque[_Page] = deque()
        #: READs on their way.
        self._asked = 0
        self._asking: Timer | None = None
        self._unfinished: set[_Page] = set()
        self._stopped: Deferred[None] | None = None
        self.latency = Histogram()
        self.failures = self.reads = 0

    async def page(self, cache: CacheName, prefix: bytes, after: bytes | None, limit: int) -> list[Pair]:
        if limit <= 0 or len(prefix) > LONGEST_KEY:
            return []
        page = self._page(cache, prefix, limit)
        page.after = after
        return await self._ask(page)

    async def get_many(self, cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        asked = [self._ask(self._page(cache, key, 0)) if len(key) <= LONGEST_KEY else None for key in keys]
        values: list[bytes | None] = []
        failure: BaseException | None = None
        for one in asked:
            try:
                found = await one if one is not None else ()
            except Unavailable as error:
                failure = error
            else:
                values.append(found[0][1] if found else None)
        if failure is not None:
            raise failure
        return values

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

    def _page(self, cache: CacheName, prefix: bytes, limit: int) -> _Page:
        return _Page(name_of(cache), prefix, limit, self._clock.monotonic(), self._settings.retry_first / 4)

    def _ask(self, page: _Page) -> Deferred[list[Pair]]:
        page.timer = self._clock.call_later(self._settings.read_patience, partial(self._too_late, page))
        self._unfinished.add(page)
        self._waiting.append(page)
        self._go_on()
        assert page.done is not None
        return page.done

    def _go_on(self) -> None:
        """Soon: there may be others who want something in this turn."""
        if self._asking is None and self._waiting:
            self._asking = self._clock.call_later(0.0, self._read)

    def _read(self) -> None:
        self._asking = None
        while self._waiting and self._asked < AT_ONCE and self._gateway.connected:
            pages: list[_Page] = []
            while self._waiting and len(pages) < TOGETHER:
                page = self._waiting.popleft()
                if page.done is not None:
                    pages.append(page)
            if pages:
                self._asked += 1
                self.reads += 1
                encode = partial(encode_read, wanted=[page.wanted() for page in pages])
                self._gateway.read(encode, partial(self._answered, pages))

    def _answered(self, pages: Sequence[_Page], answer: Found | Done | None) -> None:
        self._asked -= 1
        if isinstance(answer, Found) and len(answer.pages) != len(pages):
            answer = Done(answer.id, Status.BAD_REQUEST, f"{len(answer.pages)} pages for {len(pages)}")
        unfinished: list[_Page] = []
        for place, page in enumerate(pages):
            if page.done is None:
                continue
            if not isinstance(answer, Found):
                self._nothing(page, answer)
            elif page.take(answer.pages[place]):
                self._finish(page)
            else:
                unfinished.append(page)
        # Before what came later.
        self._waiting.extendleft(reversed(unfinished))
        self._go_on()

    def _nothing(self, page: _Page, answer: Done | None) -> None:
        if answer is None:
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
