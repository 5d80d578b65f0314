"""The shared grid, figure by figure, on real Ignite servers of its own: how fast it is written and read.

    python -m benchmarks.ignite                     one and two servers
    python -m benchmarks.ignite --servers 2 --seconds 5

Commits of one 20 kB page each, one after another (as the store makes them) and fifty at once; reads by key; pages
in key order out of a hundred thousand entries. The machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.epollreactor import EPollReactor
from twisted.python.failure import Failure

from iot_mqtt.app.engines import Cluster, Places, Plan
from iot_mqtt.grid.ignite import Address, IgniteGrid, IgniteSettings
from iot_mqtt.grid.ignite.dialer import Endpoint
from iot_mqtt.pipeline.clock import ReactorClock
from iot_mqtt.ports.grid import CacheName, WriteBatch

PAGE = 20_000
ENTRIES = 100_000
KEYS = 50


def percentile(values: Sequence[float], share: float) -> float:
    """In milliseconds."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)] * 1000


def told(name: str, times: Sequence[float], total: float, each: int = 1) -> None:
    rate = len(times) * each / total
    print(f"{name:<42} {rate:>10,.0f}/s   p50 {percentile(times, 0.5):6.2f} ms   p99 {percentile(times, 0.99):6.2f} ms")


class Pump:
    """A reactor that runs while something is waited for."""

    def __init__(self) -> None:
        self.reactor = EPollReactor()

    def until(self, condition: Callable[[], bool]) -> None:
        reactor = self.reactor
        while not condition():
            wait = reactor.timeout()
            reactor.doIteration(0.1 if wait is None else min(wait, 0.1))
            reactor.runUntilCurrent()

    def run(self, coroutine: Coroutine[Any, Any, object]) -> None:
        results: list[object] = []
        Deferred.fromCoroutine(coroutine).addBoth(results.append)
        self.until(lambda: bool(results))
        if isinstance(results[0], Failure):
            results[0].raiseException()


@contextmanager
def opened(count: int, pump: Pump) -> Iterator[IgniteGrid]:
    """A grid of so many servers; both are gone at the end."""

    def reach(address: Address, timeout: float) -> Endpoint:
        return TCP4ClientEndpoint(pump.reactor, address.host, address.port, timeout)

    def at(text: str) -> Address:
        host, _, port = text.rpartition(":")
        return Address(host, int(port))

    with tempfile.TemporaryDirectory(prefix="bench-ignite-") as folder:
        cluster = Cluster(Path(folder) / "servers", Places.find(), die_with_parent=True)
        plan = Plan.make(ignite=count)
        try:
            cluster.up(plan)
            settings = IgniteSettings(
                gateways=tuple(at(member.at("gateway")) for member in plan.members),
                addresses=tuple(at(member.at("client")) for member in plan.members),
                token=plan.token,
            )
            grid = IgniteGrid(settings, pump.reactor.callFromThread, reach, ReactorClock(pump.reactor))
            pump.run(grid.open())
            yield grid
            pump.run(grid.close())
        finally:
            cluster.down(gently=False)


class Bench:
    """One grid and what is measured on it."""

    def __init__(self, grid: IgniteGrid, pump: Pump, seconds: float) -> None:
        self.grid = grid
        self.pump = pump
        self.seconds = seconds
        self.written = 0

    def repeat(self, name: str, call: Callable[[], Coroutine[Any, Any, object]], each: int = 1) -> None:
        """One after another."""
        times: list[float] = []
        began = last = time.monotonic()
        while last - began < self.seconds:
            self.pump.run(call())
            now = time.monotonic()
            times.append(now - last)
            last = now
        told(name, times, last - began, each)

    def commits(self, at_once: int) -> None:
        """So many under way."""
        times: list[float] = []
        under_way = 0
        began = time.monotonic()

        def submit() -> None:
            nonlocal under_way
            under_way += 1
            started = time.monotonic()

            def done(error: BaseException | None) -> None:
                nonlocal under_way
                under_way -= 1
                if error is not None:
                    raise SystemExit(str(error))
                times.append(time.monotonic() - started)
                if time.monotonic() - began < self.seconds:
                    submit()

            batch = WriteBatch()
            batch.put(CacheName.LOG, b"%08d" % (self.written % 2000), os.urandom(PAGE))
            self.written += 1
            self.grid.commit_soon(batch, done)

        for _ in range(at_once):
            submit()
        self.pump.until(lambda: not under_way)
        told(f"commit of a 20 kB page, {at_once} at once", times, time.monotonic() - began)

    def fill(self) -> None:
        """The entries that are paged."""
        began = time.monotonic()
        for first in range(0, ENTRIES, 2000):
            batch = WriteBatch()
            for number in range(first, first + 2000):
                batch.put(CacheName.QUEUE, b"k%08d" % number, b"x" * 100)
            self.pump.run(self.grid.commit(batch))
        rate = ENTRIES / (time.monotonic() - began)
        print(f"{'entries of 100 bytes, 2000 per commit':<42} {rate:>10,.0f}/s")

    def run(self) -> None:
        grid = self.grid
        self.commits(1)
        self.commits(50)
        keys = [b"%08d" % number for number in range(KEYS)]
        self.repeat("get of a 20 kB page", lambda: grid.get(CacheName.LOG, keys[0]))
        self.repeat(f"get_many of {KEYS} pages of 20 kB (pages)", lambda: grid.get_many(CacheName.LOG, keys), KEYS)
        self.fill()
        small = [b"k%08d" % number for number in range(0, ENTRIES, ENTRIES // 100)]
        self.repeat("get of 100 bytes", lambda: grid.get(CacheName.QUEUE, small[0]))
        self.repeat("get_many of 100 keys (keys)", lambda: grid.get_many(CacheName.QUEUE, small), len(small))
        self.repeat("page of 10 of 100,000", lambda: grid.page(CacheName.QUEUE, b"k", b"k00050000", 10))
        self.repeat("page of 1000 of 100,000", lambda: grid.page(CacheName.QUEUE, b"k", b"k00050000", 1000))
        self.repeat("compare_and_set", lambda: grid.compare_and_set(CacheName.META, b"absent", b"never", b"x"))


def main(arguments: Sequence[str]) -> int:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ignite", description=__doc__)
    parser.add_argument("--servers", type=int, action="append", help="how many; may be given more than once")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each part")
    options = parser.parse_args(arguments)
    for count in options.servers or [1, 2]:
        pump = Pump()
        with opened(count, pump) as grid:
            print(f"--- {count} server{'s' if count > 1 else ''}", flush=True)
            Bench(grid, pump, options.seconds).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
