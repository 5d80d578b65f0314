"""``iot-mqtt``, killed by itself at its n-th write to the disk: ``python crashing.py N before|after serve ...``.

The engine's writes are counted from the start of the process on, those of the start itself included. ``before``:
the batch never gets there; ``after``: it is synced, and nobody hears of it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence

from iot_mqtt.app.cli import main
from iot_mqtt.grid.engine import Engine


def crash_at(number: int, when: str) -> None:
    """Let no process of the engine outlive that write."""
    write, counted = Engine.write, [0]

    def counting(engine: Engine, changes: Mapping[bytes, bytes | None], prefixes: Sequence[bytes] = ()) -> None:
        counted[0] += 1
        if counted[0] == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        write(engine, changes, prefixes)
        if counted[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(Engine, "write", counting)  # noqa: B010 - mypy does not let a method be replaced


if __name__ == "__main__":
    crash_at(int(sys.argv[1]), sys.argv[2])
    sys.argv[1:] = sys.argv[3:]
    main()
