"""The thin client in simulated time, in the place of ``grid.ignite.reader``: one server and one question at a time.

A server answers from its own copy where it has one, as backups do too; for other keys it asks their primary. One that
was dropped and does not know answers from what it had then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite.settings import IgniteSettings
from iot_mqtt.grid.ignite.thread import name_of
from iot_mqtt.ports.grid import CacheName
from tests.simulation.ignite.copies import partition_of
from tests.simulation.ignite.link import Way
from tests.simulation.ignite.servers import Server

Values = list["bytes | None"]


class Question:
    """Keys of one cache, and who waits for their values."""

    def __init__(self, cache: str, keys: Sequence[bytes], until: float, pause: float) -> None:
        self.cache = cache
        self.keys = keys
        self.until = until
        self.pause = pause
        self.attempt = 0
        self.done: Deferred[Values] = Deferred()


class SimulatedReader:
    """Of one life of a node."""

    def __init__(self, way: Way, settings: IgniteSettings, first: int) -> None:
        self._way = way
        self._settings = settings
        self._servers = way.servers.servers
        self._next = first % len(self._servers)
        self._queue: deque[Question] = deque()
        self._open = self._asking = False
        self.connected = False
        self.trouble: str | None = "not connected yet"

    def start(self) -> None:
        self._open = True
        self._way.clock.call_later(self._way.delay(), self._connect)

    async def stop(self) -> None:
        """Nobody waits for what is not answered yet."""
        self._open = self.connected = False
        questions, self._queue = self._queue, deque()
        for question in questions:
            question.done.errback(Unavailable("the grid was closed"))

    async def get_many(self, cache: CacheName, keys: Sequence[bytes]) -> Values:
        if not self._open:
            raise Unavailable("the grid is not open")
        if not keys:
            return []
        settings = self._settings
        until = self._way.clock.monotonic() + settings.read_patience
        question = Question(name_of(cache), keys, until, settings.retry_first / 4)
        self._queue.append(question)
        self._ask()
        return await question.done

    def _connect(self) -> None:
        """Nobody has asked yet."""
        if not self._open or self.connected:
            return
        if self._reachable:
            self.connected, self.trouble = True, None
        else:
            self._drop("it cannot be reached")
            self._way.clock.call_later(self._settings.connect_timeout, self._connect)

    @property
    def _reachable(self) -> bool:
        return self._servers[self._next].thin_open and not self._way.shut

    def _drop(self, why: str) -> None:
        self.connected, self.trouble = False, why
        self._next = (self._next + 1) % len(self._servers)

    def _ask(self) -> None:
        if self._asking or not self._queue:
            return
        self._asking = True
        question, way = self._queue[0], self._way
        question.attempt += 1
        attempt = question.attempt
        server = self._servers[self._next]

        def once(act: Callable[[], None]) -> Callable[[], None]:
            def call() -> None:
                if self._queue and self._queue[0] is question and question.attempt == attempt:
                    act()

            return call

        def arrive(act: Callable[[], None]) -> Callable[[], None]:
            return lambda: way.clock.arrive(once(act))

        def answer() -> None:
            values = self._values(server, question)
            if values is not None:
                way.servers.clock.call_later(way.delay(), arrive(lambda: self._answered(question, values)))

        life = server.clock
        if not self._reachable:
            way.clock.call_later(way.delay(), once(lambda: self._broken(question, "it cannot be reached")))
            return
        self.connected, self.trouble = True, None
        way.servers.clock.call_later(way.delay() + server.delay(), lambda: life.arrive(answer))
        way.clock.call_later(self._settings.read_timeout, once(lambda: self._broken(question, "no answer")))

    def _values(self, server: Server, question: Question) -> Values | None:
        """None: it does not answer."""
        cluster = server.cluster
        if self._way.shut or not server.thin_open or not cluster.active:
            return None
        found: Values = []
        for key in question.keys:
            partition = partition_of(key)
            owners = cluster.placement.owners[partition]
            if server in owners or (server.stale is not None and partition in server.stale):
                found.append(server.copy.shelves[question.cache].values.get(key))
            elif server.stale is not None or server.cut_off or not owners or owners[0] in cluster.silent:
                return None
            else:
                found.append(cluster.present(question.cache, key))
        return found

    def _answered(self, question: Question, values: Values) -> None:
        self._asking = False
        self._queue.popleft()
        question.done.callback(values)
        self._ask()

    def _broken(self, question: Question, why: str) -> None:
        self._asking = False
        question.attempt += 1
        self._drop(why)
        if self._way.clock.monotonic() >= question.until:
            self._queue.popleft()
            question.done.errback(Unavailable(f"the grid cannot be read: {why}"))
            self._ask()
            return
        self._way.clock.call_later(question.pause, self._ask)
        question.pause = min(question.pause * 2, self._settings.retry_last)
