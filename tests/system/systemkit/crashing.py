"""``iot-mqtt``, killed by itself at its n-th write to the disk: ``python crashing.py N before|after serve ...``.

The engine's writes are counted from the start of the process on, those of the start itself included. ``before``:
the batch never gets there; ``after``: it is synced, and nobody hears of it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from iot_mqtt.app.cli import main
from iot_mqtt.grid.engine import Engine


def crash_at(number: int, when: str) -> None:
    """Let no process of the engine outlive that write."""
    try_write, begin, counted = Engine.try_write, Engine.begin, [0]

    def crash(now: str) -> None:
        counted[0] += now == "before"
        if counted[0] == number and now == when:
            os.kill(os.getpid(), signal.SIGKILL)

    def writing(engine: Engine, changes: dict[bytes, bytes | None], prefixes: Sequence[bytes] = ()) -> bool:
        crash("before")
        written = try_write(engine, changes, prefixes)
        crash("after")
        return written

    def beginning(engine: Engine, changes: dict[bytes, bytes | None]) -> int | None:
        crash("before")
        file = begin(engine, changes)
        if file is not None:
            os.fdatasync(file)
            crash("after")
        else:
            counted[0] -= 1  # it is written after all, elsewhere
        return file

    setattr(Engine, "try_write", writing)  # noqa: B010 - mypy does not let a method be replaced
    setattr(Engine, "begin", beginning)  # noqa: B010


if __name__ == "__main__":
    crash_at(int(sys.argv[1]), sys.argv[2])
    sys.argv[1:] = sys.argv[3:]
    main()
