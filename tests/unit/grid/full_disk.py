"""A process whose files may not grow any more, and then may again: ``main(directory)`` prints what came of it.

RLIMIT_FSIZE stands in for a full disk: writes to the log fail half-way, as they do there.
"""

from __future__ import annotations

import resource
import signal
import time
from pathlib import Path

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.engine import Engine
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.contract.driving import Pump

VALUE = b"x" * 1000


def main(directory: str) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    pump = Pump()
    grid = EmbeddedGrid(Engine(Path(directory)), pump.cross, retry=(0.01, 0.05))
    pump.run(grid.open())
    acknowledged: list[int] = []
    failed: list[int] = []

    def commit(number: int) -> bool:
        batch = WriteBatch()
        batch.put(CacheName.QUEUE, b"%04d" % number, VALUE)
        try:
            pump.run(grid.commit(batch))
        except Unavailable:
            failed.append(number)
            return False
        acknowledged.append(number)
        return True

    number = 0
    while number < 20:
        commit(number)
        number += 1
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_500, hard))
    # Full in the middle of a record, and full still when it is opened again.
    deadline = time.monotonic() + 20
    while len(failed) < 50 and time.monotonic() < deadline:
        commit(number)
        number += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    pump.until(lambda: grid.available)
    recovered = commit(number)
    pump.run(grid.close())

    pump.run(grid.open())
    kept = {int(key) for key, _ in pump.run(grid.page(CacheName.QUEUE, limit=100_000))}
    pump.run(grid.close())
    lost = len(set(acknowledged) - kept)
    print(f"failed={len(failed) > 0} recovered={recovered} lost={lost}")
