"""The log on the embedded grid: ``python benchmarks/micro/bench_log.py [MESSAGES [DIRECTORY]]``.

Appends, by default, 1,000,000 messages of 100 bytes twice: runs of one topic, and one by one over 1,000 topics,
200 to a turn. As in the broker, a few turns gather while a batch is under way, and acknowledgements hold back the
rest. Then reads everything back, and one topic of the thousand. Last a fleet that was away: 8,000 topics with ten
messages each, read topic by topic.
"""

from __future__ import annotations

import random
import resource
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iot_mqtt.codec import Decoder, PublishRun, encode_publish
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.log import GridLog, LogSettings
from iot_mqtt.grid.store import GridStore
from iot_mqtt.ports.counters import Counters
from iot_mqtt.values import ProtocolVersion

T = TypeVar("T")
PAYLOAD_SIZE = 100
TOPICS = 1000
FLEET, EACH = 8_000, 10
#: Messages of one turn.
TURN = 200
#: Turns that may wait for their commit, as publishers with a window of 2,000 messages would have it.
WINDOW = 10


class Clock:
    """The process's own; nothing here waits for a timer."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def call_later(self, delay: float, call: Callable[[], None]) -> Any:
        raise AssertionError("the grid failed")


class Node:
    """A grid, a store and a log, with the little of a reactor that they need."""

    def __init__(self, directory: Path) -> None:
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.grid = EmbeddedGrid(Engine(directory), self.calls.put)
        self.wait(Deferred.fromCoroutine(self.grid.open()))
        self.store = GridStore(self.grid, Clock(), Counters())
        self.log = GridLog(self.grid, self.store, Clock(), LogSettings())
        self.wait(Deferred.fromCoroutine(self.log.open()))

    def wait(self, deferred: Deferred[T]) -> T:
        found: list[T] = []
        deferred.addCallback(found.append)
        while not found:
            self.calls.get()()
        return found[0]

    def append(self, turns: Iterable[Sequence[tuple[PublishRun, str]]]) -> float:
        """Seconds until everything was committed."""
        waiting: deque[int] = deque()
        started = time.perf_counter()
        for turn in turns:
            now = time.time()
            for run, publisher in turn:
                self.log.append(run, run.topic, publisher, now)
            self.store.flush()
            waiting.append(self.store.latest)
            while not self.calls.empty() or len(waiting) > WINDOW:
                self.calls.get()()
                while waiting and waiting[0] <= self.store.committed:
                    waiting.popleft()
        self.wait(Deferred.fromCoroutine(self.store.settled()))
        return time.perf_counter() - started

    def read(self, filter: str, position: int) -> tuple[int, int, float]:
        """Messages, their bytes, and seconds."""
        messages = size = 0
        started = time.perf_counter()
        while True:
            coroutine = self.log.read([filter], position, 10_000, 1 << 20)
            reading = self.wait(Deferred.fromCoroutine(coroutine))
            messages += sum(found.run.count for found in reading.runs)
            size += sum(len(found.run.wire) for found in reading.runs)
            if reading.at_end:
                return messages, size, time.perf_counter() - started
            position = reading.position

    def close(self) -> None:
        self.wait(Deferred.fromCoroutine(self.grid.close()))


def run_of(rng: random.Random, topic: bytes, count: int) -> PublishRun:
    wire = b"".join(
        encode_publish(
            topic,
            rng.randbytes(PAYLOAD_SIZE),
            five=True,
            qos=1,
            retain=False,
            dup=False,
            packet_id=number + 1,
            properties=b"",
        )
        for number in range(count)
    )
    (run,) = Decoder(version=ProtocolVersion.V5).feed(wire)
    assert isinstance(run, PublishRun)
    return run


def memory() -> float:
    """MiB this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def stored(directory: Path) -> float:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / (1 << 20)


def measure(directory: Path, messages: int) -> None:
    node = Node(directory)
    rng = random.Random(1)
    runs = [(run_of(rng, b"line/state", TURN), f"gateway-{number}") for number in range(8)]
    seconds = node.append([runs[number % 8]] for number in range(messages // TURN))
    print(f"append, runs of one topic     {messages / seconds:12,.0f} messages/s")
    count, _, seconds = node.read("line/state", 0)
    assert count == messages
    print(f"read them                     {count / seconds:12,.0f} messages/s")

    middle = node.log.end
    mixed = [(run_of(rng, b"m/%d/v" % topic, 1), f"gateway-{topic % 8}") for topic in range(TOPICS)]
    parts = [mixed[start : start + TURN] for start in range(0, TOPICS, TURN)]
    seconds = node.append(parts[number % len(parts)] for number in range(messages // TURN))
    print(f"append, 1,000 topics          {messages / seconds:12,.0f} messages/s")
    count, _, seconds = node.read("m/#", middle)
    assert count == messages
    print(f"read them                     {count / seconds:12,.0f} messages/s")
    before = node.log.figures.bytes_read
    count, needed, seconds = node.read("m/77/v", middle)
    assert count == messages // TOPICS
    read = node.log.figures.bytes_read - before
    print(
        f"read one of them              {count:12,} messages, {seconds * 1000:.1f} ms, {read / needed:.2f} x the bytes"
    )
    print(f"streams                       {sum(one.streams for one in node.log.generations()):12,}")
    print(f"memory, disk                  {memory():12.0f} MiB, {stored(directory):.0f} MiB")
    node.close()
    started = time.perf_counter()
    node = Node(directory)
    print(f"start                         {time.perf_counter() - started:12.3f} s")
    node.close()


def measure_fleet(directory: Path) -> None:
    node = Node(directory)
    rng = random.Random(1)
    fleet = [(run_of(rng, b"fleet/%d/inbox" % topic, 1), "plant") for topic in range(FLEET)]
    node.append(fleet[start : start + TURN] for _ in range(EACH) for start in range(0, FLEET, TURN))
    seconds = 0.0
    for topic in range(FLEET):
        count, _, more = node.read(f"fleet/{topic}/inbox", 0)
        assert count == EACH
        seconds += more
    read = node.log.figures.pages_read / FLEET
    print(f"a fleet, topic by topic       {seconds / FLEET * 1e6:12,.0f} us each, {read:.1f} pages read from the grid")
    node.close()


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    base = Path(tempfile.mkdtemp(prefix="bench-log-", dir=sys.argv[2] if len(sys.argv) > 2 else None))
    try:
        measure(base / "grid", messages)
        measure_fleet(base / "fleet")
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
