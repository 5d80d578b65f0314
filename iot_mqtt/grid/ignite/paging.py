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


class _Question:
    """Pages that somebody waits for, together: how long already, and what they come to."""

    __slots__ = ("done", "left", "began", "timer", "trouble", "pause")

    def __init__(self, pages: int, began: float, pause: float) -> None:
        #: None: it is over.
        self.done: Deferred[None] | None = Deferred()
        #: Pages that are not complete.
        self.left = pages
        self.began = began
        self.timer: Timer | None = None
        self.trouble: str | None = None
        self.pause = pause


class _Page:
    """What is asked for, and what was found of it."""

    __slots__ = ("question", "cache", "prefix", "after", "left", "found")

    def __init__(self, question: _Question, cache: str, prefix: bytes, limit: int, after: bytes | None = None) -> None:
        self.question = question
        self.cache = cache
        self.prefix = prefix
        self.after = after
        #: Entries that are still wanted; 0: the one with this key.
        self.left = limit
        self.found: Sequence[Pair] = ()

    def wanted(self) -> Wanted:
        return self.cache, self.prefix, self.after, min(self.left, MOST_ENTRIES)

    def take(self, page: frames.Page) -> bool:
        """Add what was found; whether that is all."""
        self.found = [*self.found, *page.entries] if self.found else page.entries
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
        self._unfinished: set[_Question] = set()
        self._stopped: Deferred[None] | None = None
        self.latency = Histogram()

    async def page(self, cache: CacheName, prefix: bytes, after: bytes | None, limit: int) -> list[Pair]:
        if limit <= 0 or len(prefix) > LONGEST_KEY:
            return []
        question = self._question(1)
        page = _Page(question, name_of(cache), prefix, limit, after)
        await self._ask(question, [page])
        return list(page.found)

    async def get_many(self, cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        name, question = name_of(cache), self._question(len(keys))
        pages = [_Page(question, name, key, 0) for key in keys]
        # There is nothing under a longer one.
        asked = [page for page in pages if len(page.prefix) <= LONGEST_KEY]
        if asked:
            question.left = len(asked)
            await self._ask(question, asked)
        return [page.found[0][1] if page.found else None for page in pages]

    async def stop(self) -> None:
        """What was asked before is answered, unless nobody is there to answer."""
        if self._unfinished and self._gateway.connected:
            self._stopped = Deferred()
            await self._stopped
        for question in list(self._unfinished):
            self._fail(question, Unavailable("the grid was closed"))

    # Told by the grid.

    def connected(self) -> None:
        self._go_on()

    def fenced(self) -> None:
        """Nobody welcomes us any more."""
        for question in list(self._unfinished):
            self._fail(question, self._gateway.failure())

    # Inside.

    def _question(self, pages: int) -> _Question:
        return _Question(pages, self._clock.monotonic(), self._settings.retry_first / 4)

    def _ask(self, question: _Question, pages: Sequence[_Page]) -> Deferred[None]:
        question.timer = self._clock.call_later(self._settings.read_patience, partial(self._too_late, question))
        self._unfinished.add(question)
        self._waiting.extend(pages)
        self._go_on()
        assert question.done is not None
        return question.done

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
                if page.question.done is not None:
                    pages.append(page)
            if pages:
                self._asked += 1
                encode = partial(encode_read, wanted=[page.wanted() for page in pages])
                self._gateway.read(encode, partial(self._answered, pages))

    def _answered(self, pages: Sequence[_Page], answer: Found | Done | None) -> None:
        self._asked -= 1
        if isinstance(answer, Found) and len(answer.pages) != len(pages):
            answer = Done(answer.id, Status.BAD_REQUEST, f"{len(answer.pages)} pages for {len(pages)}")
        if isinstance(answer, Found):
            self._found(pages, answer)
        else:
            self._nothing([page for page in pages if page.question.done is not None], answer)
        self._go_on()

    def _found(self, pages: Sequence[_Page], answer: Found) -> None:
        unfinished: list[_Page] = []
        for page, found in zip(pages, answer.pages, strict=True):
            question = page.question
            if question.done is None:
                continue
            if not page.take(found):
                unfinished.append(page)
            elif question.left > 1:
                question.left -= 1
            else:
                self._finish(question)
        # Before what came later.
        self._waiting.extendleft(reversed(unfinished))

    def _nothing(self, pages: Sequence[_Page], answer: Done | None) -> None:
        if answer is None:
            # The connection broke. In its place behind those that are asked for again, too: first come, first served.
            for page in pages:
                page.question.trouble = "the connection to the gateway broke"
            self._again(pages)
            return
        asked: dict[_Question, list[_Page]] = {}
        for page in pages:
            asked.setdefault(page.question, []).append(page)
        for question, theirs in asked.items():
            if answer.status == Status.NOT_READY:
                question.trouble = answer.detail
                self._clock.call_later(question.pause, partial(self._again, theirs))
                question.pause = min(question.pause * 2, self._settings.retry_last)
            else:
                error = f"the grid gives no page (status {answer.status}): {answer.detail}"
                self._fail(question, Unavailable(error))

    def _again(self, pages: Sequence[_Page]) -> None:
        for page in pages:
            if page.question.done is None:
                continue
            if self._stopped is not None and not self._gateway.connected:
                self._fail(page.question, Unavailable("the grid was closed"))
            else:
                self._waiting.append(page)
        self._go_on()

    def _too_late(self, question: _Question) -> None:
        question.timer = None
        if self._gateway.connected:
            trouble = question.trouble or f"no answer in {self._settings.read_patience:g} s"
            self._fail(question, Unavailable(f"the grid cannot be read: {trouble}"))
        else:
            self._fail(question, self._gateway.failure())

    def _finish(self, question: _Question) -> None:
        done = self._forget(question)
        if done is not None:
            done.callback(None)
        self._tell_stopped()

    def _fail(self, question: _Question, error: Unavailable) -> None:
        done = self._forget(question)
        if done is not None:
            done.errback(error)
        self._tell_stopped()

    def _forget(self, question: _Question) -> Deferred[None] | None:
        done, question.done = question.done, None
        self._unfinished.discard(question)
        self.latency.observe(self._clock.monotonic() - question.began)
        if question.timer is not None:
            question.timer.cancel()
            question.timer = None
        return done

    def _tell_stopped(self) -> None:
        if self._stopped is not None and not self._unfinished:
            stopped, self._stopped = self._stopped, None
            stopped.callback(None)
