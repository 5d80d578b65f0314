"""A process that opens an empty grid: ``main(directory)`` prints seconds and MiB of resident memory it took."""

from __future__ import annotations

import time
from pathlib import Path

from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.contract.driving import Pump


def main(directory: str) -> None:
    pump = Pump()
    before = resident()
    started = time.perf_counter()
    from iot_mqtt.grid.embedded import EmbeddedGrid
    from iot_mqtt.grid.engine import Engine

    seconds = []
    for life in range(3):
        grid = EmbeddedGrid(Engine(Path(directory) / str(life)), pump.cross)
        pump.run(grid.open())
        batch = WriteBatch()
        batch.put(CacheName.SESSIONS, b"a", b"b")
        pump.run(grid.commit(batch))
        seconds.append(time.perf_counter() - started)
        if life < 2:
            pump.run(grid.close())
        started = time.perf_counter()
    print(f"{min(seconds):.3f} {resident() - before:.1f}")


def resident() -> float:
    """MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / (1 << 20)
