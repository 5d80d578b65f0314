"""A process that commits numbered batches until it is killed, and reports each one it was promised.

    python child.py tests.contract.writer MODULE:FACTORY DIRECTORY FIRST [LAST]

Standard output: ``open``, then the number of each acknowledged batch, a line each. With LAST it stops there
and waits for its standard input to end, with the directory held. Batch ``n`` puts one entry into each of
``CACHES`` and removes the QUEUE entry of batch ``n - 100``; ``batch`` is the definition the checker uses too.
"""

from __future__ import annotations

import importlib
import os
import sys
from functools import partial
from pathlib import Path

from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.contract.driving import Pump

CACHES = (CacheName.QUEUE, CacheName.SESSIONS, CacheName.RETAINED)
#: Commits under way at a time, so that some are merged.
WINDOW = 8


def key(number: int) -> bytes:
    return b"%08d" % number


def value(number: int) -> bytes:
    """Some hundred bytes, all of them known: enough for a log of several blocks."""
    return (b"<%d>" % number) * 100


def batch(number: int) -> WriteBatch:
    found = WriteBatch()
    for cache in CACHES:
        found.put(cache, key(number), value(number))
    if number >= 100:
        found.remove(CacheName.QUEUE, key(number - 100))
    return found


def main(factory: str, directory: str, *numbers: str) -> None:
    first, last = int(numbers[0]), (int(numbers[1]) if len(numbers) > 1 else None)
    module, name = factory.split(":")
    pump = Pump()
    grid = getattr(importlib.import_module(module), name)(Path(directory), pump)
    pump.run(grid.open())
    report("open")
    acknowledged: list[int] = []

    def complete(number: int, error: BaseException | None) -> None:
        report(str(number) if error is None else f"error {error}")
        acknowledged.append(number)
        commit(number + WINDOW)

    def commit(number: int) -> None:
        if last is None or number <= last:
            grid.commit_soon(batch(number), partial(complete, number))

    for number in range(first, first + WINDOW):
        commit(number)
    pump.until(lambda: last is not None and len(acknowledged) > last - first)
    sys.stdin.read()


def report(line: str) -> None:
    os.write(1, line.encode() + b"\n")
