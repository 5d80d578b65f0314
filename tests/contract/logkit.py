"""Logs on a grid whose commits a test can hold back, cut short and fail; who reads them, and the runs to put in."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.codec import Decoder, PublishRun, encode_publish
from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.log import FollowedLog, GridLog, LogSettings, PageCache
from iot_mqtt.grid.store import GridStore
from iot_mqtt.ports.clock import Timer
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.grid import CacheName, Grid, Pair, WriteBatch
from iot_mqtt.ports.log import LogReader, LogRun, Reading, Reference, StreamInfo
from iot_mqtt.topics import matches
from iot_mqtt.values import ProtocolVersion
from tests.contract.driving import Pump
from tests.seeds import seeds_of

SETTINGS = LogSettings()

T = TypeVar("T")
Done = Callable[[BaseException | None], None]

#: A message as tests compare it.
Told = tuple[bytes, bytes]


class HandClock:
    """Stands still until it is set."""

    now = 1_000_000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        raise AssertionError("no commit of these tests is repeated")


class Between:
    """A grid in front of another one: passes everything on, unless a test holds or cuts the commits."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.holding = False
        self.waiting: list[tuple[WriteBatch, Done]] = []
        #: Reads that wait for the test; None: they do not.
        self.reads: list[Deferred[None]] | None = None
        #: Removals of prefixes that succeed before one fails.
        self.removals: int | None = None
        #: Questions that were asked.
        self.asked = 0

    async def open(self) -> None:
        await self.grid.open()

    async def close(self) -> None:
        await self.grid.close()

    async def commit(self, batch: WriteBatch) -> None:
        await self.grid.commit(batch)

    def commit_soon(self, batch: WriteBatch, done: Done) -> None:
        if self.holding:
            self.waiting.append((batch, done))
        else:
            self.grid.commit_soon(batch, done)

    def release(self) -> None:
        """Let everything go on that was held."""
        self.holding = False
        waiting, self.waiting = self.waiting, []
        for batch, done in waiting:
            self.grid.commit_soon(batch, done)

    async def get(self, cache: CacheName, key: bytes) -> bytes | None:
        self.asked += 1
        return await self.grid.get(cache, key)

    async def get_many(self, cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        self.asked += 1
        found = await self.grid.get_many(cache, keys)
        await self._answer()
        return found

    async def _answer(self) -> None:
        if self.reads is not None:
            answered: Deferred[None] = Deferred()
            self.reads.append(answered)
            await answered

    async def page(
        self, cache: CacheName, prefix: bytes = b"", after: bytes | None = None, limit: int = 1000
    ) -> list[Pair]:
        self.asked += 1
        found = await self.grid.page(cache, prefix, after, limit)
        await self._answer()
        return found

    async def remove_prefix(self, cache: CacheName, prefix: bytes) -> None:
        if self.removals is not None:
            if not self.removals:
                raise Unavailable("no more removals")
            self.removals -= 1
        await self.grid.remove_prefix(cache, prefix)

    async def compare_and_set(self, cache: CacheName, key: bytes, expected: bytes | None, value: bytes | None) -> bool:
        return await self.grid.compare_and_set(cache, key, expected, value)


class Asking:
    """Whoever reads a log."""

    pump: Pump
    log: LogReader

    def read(self, *filters: str, position: int = 0, messages: int = 100_000, budget: int = 1 << 30) -> Reading:
        return self.pump.run(self.log.read(filters, position, messages, budget))

    def everything(self, *filters: str, position: int = 0, messages: int = 50, budget: int = 1 << 30) -> list[LogRun]:
        """To the end, by several reads."""
        found: list[LogRun] = []
        while True:
            reading = self.read(*filters, position=position, messages=messages, budget=budget)
            found += reading.runs
            if reading.at_end:
                return found
            assert reading.position > position
            position = reading.position

    def fetch(self, *references: Reference) -> list[LogRun | None]:
        return self.pump.run(self.log.fetch(references))

    def streams(self) -> Sequence[StreamInfo]:
        return self.pump.run(self.log.streams())

    def list(self, iterator: AsyncIterator[T]) -> list[T]:
        async def collect() -> list[T]:
            return [item async for item in iterator]

        return self.pump.run(collect())


class Life(Asking):
    """One life of a log, from its start on; the grid below may see several."""

    log: GridLog

    def __init__(
        self,
        grid: Grid,
        pump: Pump,
        settings: LogSettings,
        clock: HandClock | None = None,
        writer: int = 0,
        cache: PageCache | None = None,
    ) -> None:
        self.pump = pump
        self.between = Between(grid)
        self.clock = clock or HandClock()
        self.store = GridStore(self.between, self.clock, Counters())
        # What is read is what was written, and not what is in memory.
        cache = cache or PageCache(settings.page_cache_bytes, written=False)
        self.log = GridLog(self.between, self.store, self.clock, settings, writer, cache)
        pump.run(self.log.open())
        self.numbers = 0

    def next(self, settings: LogSettings) -> Life:
        """Another life on the same grid; what this one has not committed is lost with it."""
        return Life(self.between.grid, self.pump, settings, self.clock, self.log.writer)

    def other(self, writer: int, settings: LogSettings = SETTINGS) -> Life:
        """Another writer in the same grid."""
        return Life(self.between.grid, self.pump, settings, self.clock, writer)

    def append(self, topic: str, publisher: str = "p", count: int = 1, text: str | None = None) -> LogRun:
        """A run of messages that say which they are."""
        payloads = [f"{topic} {self.numbers + number}" if text is None else text for number in range(count)]
        self.numbers += count
        run = run_of(topic.encode(), payloads)
        return self.log.append(run, run.topic, publisher, self.clock.now)

    def commit(self) -> None:
        """End the turn and wait for its batch."""
        self.pump.run(self.store.settled())


class Follower(Asking):
    """Somebody who reads the log of another writer, and writes nothing."""

    log: FollowedLog

    def __init__(self, life: Life, settings: LogSettings = SETTINGS, cache: PageCache | None = None) -> None:
        self.pump = life.pump
        self.between = ReadOnly(life.between.grid)
        self.log = FollowedLog(self.between, settings, life.log.writer, cache)
        self.pump.run(self.log.open())

    def hear(self, life: Life) -> None:
        """What the writer announces."""
        self.log.announce(life.log.committed_end)

    def refresh(self) -> int:
        return self.pump.run(self.log.refresh())


class ReadOnly(Between):
    """Refuses every write."""

    async def commit(self, batch: WriteBatch) -> None:
        raise AssertionError("a follower writes nothing")

    def commit_soon(self, batch: WriteBatch, done: Done) -> None:
        raise AssertionError("a follower writes nothing")

    async def remove_prefix(self, cache: CacheName, prefix: bytes) -> None:
        raise AssertionError("a follower removes nothing")

    async def compare_and_set(self, cache: CacheName, key: bytes, expected: bytes | None, value: bytes | None) -> bool:
        raise AssertionError("a follower writes nothing")


def run_of(topic: bytes, payloads: Sequence[str], *, five: bool = False, properties: bytes = b"") -> PublishRun:
    """QoS 1 packets of one topic, as the scan finds them."""
    wire = b"".join(
        encode_publish(
            topic,
            payload.encode(),
            five=five,
            qos=1,
            retain=False,
            dup=False,
            packet_id=number % 65_535 + 1,
            properties=properties,
        )
        for number, payload in enumerate(payloads)
    )
    (run,) = Decoder(version=ProtocolVersion.V5 if five else ProtocolVersion.V311).feed(wire)
    assert isinstance(run, PublishRun)
    return run


def told(runs: Sequence[LogRun]) -> list[Told]:
    """Topic and payload of each message, in order."""
    return [(run.topic, payload) for run in runs for payload in run.run.payloads()]


def wanted(messages: Sequence[Told], *filters: str) -> list[Told]:
    """What a reader of these filters is to get."""
    return [message for message in messages if any(matches(filter, message[0].decode()) for filter in filters)]


class LogCase:
    """What the suites share."""

    writer = 0
    #: How many courses a test of a random course takes. What they show is about the log; every grid takes some, and the
    #: reference grid takes them all.
    courses = 8

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "course" in metafunc.fixturenames:
            metafunc.parametrize("course", seeds_of("courses of the log", self.courses))

    def make(self, directory: Path, pump: Pump) -> Grid:
        """A grid, not yet open."""
        raise NotImplementedError

    def pump(self) -> Pump:
        """What drives it."""
        return Pump()

    @pytest.fixture
    def life(self, tmp_path: Path) -> Iterator[Life]:
        pump = self.pump()
        grid = self.make(tmp_path / "grid", pump)
        pump.run(grid.open())
        yield Life(grid, pump, SETTINGS, writer=self.writer)
        pump.run(grid.close())


def fill(life: Life, turns: int) -> list[Told]:
    """Messages of many topics and publishers, committed; the same for the same numbers."""
    rng = random.Random(turns)
    sent: list[Told] = []
    forms = ["m/{}/v"] * 5 + ["other/{}/w", "m/{}/v/deep", "$SYS/{}", "m/{}", "one"]
    for _ in range(turns):
        for _ in range(rng.randrange(1, 7)):
            topic = rng.choice(forms).format(rng.randrange(40))
            sent += told([life.append(topic, f"p{rng.randrange(9)}", rng.randrange(1, 4))])
        life.commit()
    return sent
