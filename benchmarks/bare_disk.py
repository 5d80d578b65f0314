"""What a disk alone costs: a file that is written and synced over and over, and nothing else.

No broker that syncs before it acknowledges can be faster: whoever comes during a sync waits for its end and for the
next one.
"""

from __future__ import annotations

import os
import random
import time
from bisect import bisect_left
from pathlib import Path
from typing import NamedTuple

#: The file is written round and round, so that syncing it changes nothing but its content.
FILE_SIZE = 16 << 20
#: Moments at which somebody is thought to come.
MOMENTS = 100_000


class Waits(NamedTuple):
    """Microseconds."""

    sync_mean: float
    sync_p99: float
    #: From the moment that somebody comes to the end of the first sync that began later.
    p50: float
    p99: float


def measure(folder: Path, seconds: float, every: float, size: int) -> Waits:
    """``size`` bytes written and synced, a sync beginning every so many seconds, or when the one before it is over."""
    path = folder / "bare"
    begun: list[float] = []
    ended: list[float] = []
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        for offset in range(0, FILE_SIZE, 1 << 20):
            os.pwrite(file, bytes(1 << 20), offset)
        os.fsync(file)
        data, offset = os.urandom(size), 0
        until = time.perf_counter() + seconds
        while (now := time.perf_counter()) < until:
            os.pwrite(file, data, offset)
            offset = (offset + size) % (FILE_SIZE - size)
            os.fdatasync(file)
            begun.append(now)
            ended.append(time.perf_counter())
            time.sleep(max(0.0, now + every - ended[-1]))
    finally:
        os.close(file)
        path.unlink()
    rng = random.Random(1)
    moments = (rng.uniform(begun[0], begun[-1]) for _ in range(MOMENTS))
    waits = sorted(ended[bisect_left(begun, moment)] - moment for moment in moments)
    syncs = sorted(end - begin for begin, end in zip(begun, ended, strict=True))
    return Waits(*(1e6 * one for one in (sum(syncs) / len(syncs), _at(syncs, 0.99), _at(waits, 0.5), _at(waits, 0.99))))


def _at(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
