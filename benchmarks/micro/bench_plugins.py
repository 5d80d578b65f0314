"""Figures of codecs behind their runners: frames of 64 bytes a second, inline and in a worker process, and latency.

    python benchmarks/micro/bench_plugins.py [--seconds 2]

The codec unpacks five numbers of each frame into a dictionary. In a worker: from ``Runner.decode`` to ``Sink.events``,
with the events checked on both sides; p99 at half of the target of 20,000 a second, over ten connections.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from twisted.internet.defer import Deferred
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.process import reapAllProcesses

from iot_mqtt.plugins.catalog import Plugins
from iot_mqtt.plugins.running import Opened
from iot_mqtt.plugins.settings import PluginSettings

TARGET = 20_000
CONNECTIONS = 10
BATCH = 50

SOURCE = """
import struct
from iot_mqtt.sdk import *

UNPACK = struct.Struct("!6sQI5d6s").unpack_from

class Bench(Codec):
    framing = Fixed(size=64)

    def opened(self):
        yield Login("gateway")

    def decode(self, frame):
        device, time, sequence, a, b, c, d, e, _ = UNPACK(frame)
        return (Readings(device.decode(), {"a": a, "b": b, "c": c, "d": d, "e": e}, time, sequence),)
"""


class Sink:
    """Counts, and answers when each batch came."""

    def __init__(self) -> None:
        self.events_seen = 0
        self.sent: list[float] = []
        self.seen: list[float] = []
        self.waiting = False

    def events(self, events: list[Any]) -> None:
        self.events_seen += len(events)
        now = time.perf_counter()
        # The login is the first event of all.
        while self.sent and self.events_seen - 1 >= (len(self.seen) + 1) * BATCH:
            self.seen.append(now - self.sent[len(self.seen)])
            if len(self.seen) == len(self.sent):
                break

    def encoded(self, number: int, data: bytes) -> None: ...
    def not_encoded(self, number: int, reason: str) -> None: ...
    def send(self, data: bytes) -> None: ...

    def bad_frame(self, reason: str, detail: str) -> None:
        raise RuntimeError(f"{reason}: {detail}")

    def codec_failed(self, reason: str, detail: str = "") -> None:
        raise RuntimeError(reason)

    def ready(self) -> None:
        self.waiting = False


def turn(reactor: EPollReactor, wait: float) -> None:
    timeout = reactor.timeout()
    reactor.doIteration(wait if timeout is None else min(timeout, wait))
    reactor.runUntilCurrent()
    reapAllProcesses()


def make(reactor: EPollReactor, folder: Path, isolation: str) -> Plugins:
    site = folder / "site"
    info = site / "bench_plugin-1.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (site / "bench_plugin.py").write_text(SOURCE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[iot_mqtt.codecs]\nbench = bench_plugin:Bench\n")
    (info / "RECORD").write_text(f"bench_plugin.py,,\n{info.name}/METADATA,,\n{info.name}/entry_points.txt,,\n")
    if str(site) not in sys.path:
        sys.path.insert(0, str(site))
    plugins = Plugins(
        reactor, folder / isolation, {"bench": PluginSettings(isolation=isolation)}, bundled={}, version="0"
    )
    done: list[object] = []
    started: Deferred[None] = plugins.start()
    started.addBoth(done.append)
    while not done:
        turn(reactor, 0.1)
    print(f"{isolation}: {plugins.info()[0].state} {plugins.info()[0].reason or ''}")
    return plugins


def connect(plugins: Plugins) -> list[tuple[Opened, Sink]]:
    pairs = []
    for number in range(CONNECTIONS):
        sink = Sink()
        opened = plugins.open("bench", f"10.0.0.{number}:1", sink)
        opened.runner.opened()
        pairs.append((opened, sink))
    return pairs


def flood(reactor: EPollReactor, plugins: Plugins, frames: list[bytes], seconds: float) -> float:
    """Frames a second, as many as it takes."""
    pairs = connect(plugins)
    sent = 0
    child = plugins.info()[0].pid
    cpu, worker = time.process_time(), _cpu(child)
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for opened, sink in pairs:
            if not sink.waiting:
                sink.waiting = not opened.runner.decode(frames)
                sent += len(frames)
        turn(reactor, 0.0)
    while sum(sink.events_seen for _, sink in pairs) < sent + len(pairs):
        turn(reactor, 0.1)
    took = time.perf_counter() - begun
    for opened, _ in pairs:
        opened.runner.close()
    rate = sent / took
    print(f"  flood  {rate:>9,.0f} frames/s; of the broker's core {1e6 * (time.process_time() - cpu) / sent:.1f} us")
    if child is not None:
        of_worker = _cpu(child) - worker
        print(
            f"         of the worker's core {1e6 * of_worker / sent:.1f} us: {sent / of_worker:,.0f} frames/s per core"
        )
    return rate


def paced(reactor: EPollReactor, plugins: Plugins, frames: list[bytes], rate: int, seconds: float) -> None:
    """Latency of batches at a rate."""
    pairs = connect(plugins)
    gap, number = BATCH / rate, 0
    begun = time.perf_counter()
    while number * gap < seconds:
        while (wait := begun + number * gap - time.perf_counter()) > 0:
            turn(reactor, wait)
        opened, sink = pairs[number % CONNECTIONS]
        sink.sent.append(begun + number * gap)
        opened.runner.decode(frames[:BATCH])
        number += 1
        turn(reactor, 0.0)
    while sum(sink.events_seen for _, sink in pairs) < number * BATCH + len(pairs):
        turn(reactor, 0.1)
    seen = sorted(one for _, sink in pairs for one in sink.seen)
    for opened, _ in pairs:
        opened.runner.close()
    marks = ", ".join(f"p{mark:g} {1000 * seen[int(len(seen) * mark / 100)]:.2f} ms" for mark in (50, 90, 95, 99))
    print(f"  paced  {rate:>9,} frames/s: {marks}, most {1000 * seen[-1]:.2f} ms ({len(seen)} batches of {BATCH})")


def _cpu(pid: int | None) -> float:
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    seconds = parser.parse_args().seconds
    reactor = EPollReactor()
    one = b"dev-01" + (1_700_000_000_000).to_bytes(8) + (1).to_bytes(4) + bytes(46)
    frames = [one] * 200
    with tempfile.TemporaryDirectory() as folder:
        for isolation in ("inline", "process"):
            plugins = make(reactor, Path(folder), isolation)
            flood(reactor, plugins, frames, seconds)
            paced(reactor, plugins, frames, TARGET // 2, seconds)
            plugins.stop()
            turn(reactor, 0.1)
    print(f"peak of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
