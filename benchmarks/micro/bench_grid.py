"""The embedded grid: ``python benchmarks/micro/bench_grid.py [DIRECTORY]``. Takes about twenty seconds.

1. Who holds the interpreter during a commit: another thread looks at the clock all the while, and the gaps it
   sees are the time in which no reactor could have run.
2. Commits per second, merged and one at a time, and how long one takes.
3. Encoding and decoding of the hot records.
4. Reading: single keys and pages.
5. What zeros ahead of the log save: the same commits with and without, in turns.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from statistics import median

from rocksdict import Options, Rdict, WriteBatch, WriteOptions
from twisted.internet.defer import Deferred

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iot_mqtt.grid import commit_log
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.records import keys, queue
from iot_mqtt.grid.records import message as messages
from iot_mqtt.ports import grid as port
from iot_mqtt.values import Message

VALUE = b"x" * 100
QUEUE = port.CacheName.QUEUE


class Watcher:
    """A thread that asks for the time without end; ``longest`` is the longest it was kept from it."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._looks = 0
        self._stop = False
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watcher:
        self._thread.start()
        self._look()
        self.longest = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self._look()
        self._stop = True
        self._thread.join()

    def _look(self) -> None:
        """Wait until it has looked a few times more."""
        before = self._looks
        while self._looks < before + 100:
            time.sleep(0)

    def _run(self) -> None:
        last = time.perf_counter()
        while not self._stop:
            now = time.perf_counter()
            self.longest = max(self.longest, now - last)
            last = now
            self._looks += 1


def interpreter_held(directory: Path) -> None:
    """How long a call lasts, and how long nothing else ran; medians of 31."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)  # noqa: FBT003
    database = Rdict(str(directory), options)
    synced, plain = WriteOptions(), WriteOptions()
    synced.sync = True

    def write_and_flush(batch: WriteBatch) -> None:
        database.write(batch, plain)
        database.flush_wal(True)  # noqa: FBT003

    ways: dict[str, Callable[[WriteBatch], None]] = {
        "write(sync=True)": lambda batch: database.write(batch, synced),
        "write(), flush_wal(True)": write_and_flush,
        "write() alone": lambda batch: database.write(batch, plain),
    }
    print("records  way                        call, us   others stand still, us")
    for count in (1, 100, 1000):
        for name, way in ways.items():
            calls, gaps = zip(*(_one(way, count) for _ in range(31)), strict=True)
            print(f"{count:7}  {name:24} {median(calls) * 1e6:10.0f} {median(gaps) * 1e6:10.0f}")
    database.close()


def _one(way: Callable[[WriteBatch], None], count: int) -> tuple[float, float]:
    batch = WriteBatch(raw_mode=True)
    stamp = time.perf_counter_ns().to_bytes(8, "big")
    for number in range(count):
        batch.put(stamp + b"%04d" % number, VALUE)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(20e-6)
    try:
        with Watcher() as watcher:
            started = time.perf_counter()
            way(batch)
            seconds = time.perf_counter() - started
        return seconds, watcher.longest
    finally:
        sys.setswitchinterval(interval)


class Loop:
    """What a reactor does for a grid, and nothing else."""

    def __init__(self, directory: Path) -> None:
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.grid = EmbeddedGrid(Engine(directory), self.calls.put)
        self.wait(Deferred.fromCoroutine(self.grid.open()))

    def wait(self, deferred: Deferred[None]) -> None:
        while not deferred.called:
            self.calls.get()()

    def commits(self, total: int, size: int, window: int) -> None:
        """``total`` commits of ``size`` records, ``window`` of them under way at a time."""
        done: list[float] = []
        started = time.perf_counter()

        def commit(number: int) -> None:
            batch = port.WriteBatch()
            for index in range(size):
                batch.put(QUEUE, b"%08d%04d" % (number, index), VALUE)
            self.grid.commit_soon(batch, partial(complete, number, time.perf_counter()))

        def complete(number: int, since: float, error: BaseException | None) -> None:
            assert error is None
            done.append(time.perf_counter() - since)
            if number + window < total:
                commit(number + window)

        for number in range(window):
            commit(number)
        while len(done) < total:
            self.calls.get()()
        seconds = time.perf_counter() - started
        print(
            f"{size:7} {window:7} {total / seconds:12,.0f} {total * size / seconds:12,.0f}"
            f" {median(done) * 1e6:10,.0f} {sorted(done)[int(len(done) * 0.99)] * 1e6:10,.0f}"
        )


def group_commit(directory: Path) -> None:
    loop = Loop(directory)
    print("\nrecords  window    commits/s    records/s  median, us    p99, us")
    for size, window, total in ((1, 1, 1000), (1, 100, 30_000), (10, 100, 10_000), (100, 4, 1000), (1000, 2, 100)):
        loop.commits(total, size, window)
    _reading(loop)
    loop.wait(Deferred.fromCoroutine(loop.grid.close()))


def _reading(loop: Loop) -> None:
    grid = loop.grid
    keys = [b"%08d%04d" % (number, 0) for number in range(100)]

    async def single() -> None:
        for key in keys:
            await grid.get(QUEUE, key)

    async def many() -> None:
        await grid.get_many(QUEUE, keys)

    async def page() -> None:
        await grid.page(QUEUE, limit=100)

    print("\nreading 100 entries, us each")
    for call in (single, many, page):
        seconds = min(timeit.repeat(lambda call=call: Deferred.fromCoroutine(call()), number=20, repeat=5))  # type: ignore[misc]
        print(f"  {call.__name__:8} {seconds / 2000 * 1e6:6.2f}")


def codecs() -> None:
    message = Message(b"plant/7/line/3/temperature", b"x" * 64, 1, publisher="gateway-0001")
    encoded = messages.encode_message(message)
    queued, dup = queue.encode_queue(encoded, 1, 7), queue.encode_dup(1)
    prefix = keys.client_prefix("device-000123")
    calls: dict[str, Callable[[], object]] = {
        "encode_message": lambda: messages.encode_message(message),
        "encode_queue": lambda: queue.encode_queue(encoded, 1, 7),
        "encode_queue, 2 identifiers": lambda: queue.encode_queue(encoded, 1, 7, False, (1, 2)),  # noqa: FBT003
        "decode_queue": lambda: queue.decode_queue(queued),
        "encode_dup": lambda: queue.encode_dup(1),
        "decode_dup": lambda: queue.decode_dup(dup),
        "encode_pubrel": lambda: queue.encode_pubrel(1),
        "queue_key": lambda: keys.queue_key(prefix, 1),
    }
    print("\nrecord                        M/s")
    for name, call in calls.items():
        seconds = min(timeit.repeat(call, number=20_000, repeat=5))
        print(f"  {name:27} {20_000 / seconds / 1e6:5.2f}")


def zeros_ahead(base: Path) -> None:
    """Commits one after the other, as a broker has them that has little to do."""
    print("\nbytes  zeros ahead   median, us    p99, us")
    for size in (200, 2000, 5000, 50_000):
        found: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(6):
            with_zeros = turn % 2 == 1
            commit_log.LARGE = commit_log.STEP // 4 if with_zeros else 0  # type: ignore[misc]
            engine = Engine(base / f"{size}-{turn}")
            engine.open()
            for number in range(500):
                started = time.perf_counter()
                engine.write({b"\x05%08d" % number: b"x" * size})
                found[with_zeros].append(time.perf_counter() - started)
            engine.close()
        for with_zeros, taken in found.items():
            taken.sort()
            p99 = taken[len(taken) * 99 // 100]
            print(f"{size:5}  {'yes' if with_zeros else 'no':11} {median(taken) * 1e6:12,.0f} {p99 * 1e6:10,.0f}")


def main() -> None:
    base = Path(tempfile.mkdtemp(prefix="bench-grid-", dir=sys.argv[1] if len(sys.argv) > 1 else None))
    try:
        interpreter_held(base / "raw")
        group_commit(base / "grid")
        codecs()
        zeros_ahead(base)
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
