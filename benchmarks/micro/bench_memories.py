"""What it costs to remember one more where so many are remembered that the oldest has to go.

    python benchmarks/micro/bench_memories.py

Nanoseconds each, beside those of an empty memory; nothing is asserted. The first key of a ``dict`` is searched for
behind all that were taken away before it, so a full memory made of one costs more with each that it holds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iot_mqtt.broker.recorder import Recorder
from iot_mqtt.broker.sessions.attempts import Attempts
from iot_mqtt.devices.remembered import Remembered, Seen
from iot_mqtt.ports.devices import StoredDevice
from iot_mqtt.ports.recent import Recent
from iot_mqtt.ports.recording import RecorderSettings

EACH = 20_000


def recorder() -> Callable[[int], None]:
    """Connections that begin and end."""
    book = Recorder(RecorderSettings(), time.time)

    def step(number: int) -> None:
        recorded = book.begin()
        if recorded is not None:
            book.named(recorded, f"client-{number}", "192.0.2.1:1883")
            book.ended(recorded, "client_disconnected")

    return step


def attempts() -> Callable[[int], None]:
    """Sessions that end."""
    book = Attempts(time.time)
    return lambda number: book.ended(f"client-{number}", None, "client_disconnected")


def recent() -> Callable[[int], None]:
    """Clients with trouble."""
    book = Recent(time.time)
    return lambda number: book.note(f"client-{number}", "queue_full", b"a/b")


def devices() -> Callable[[int], None]:
    """Devices whose gateways are away."""
    book = Remembered(10_000, 10_000)
    return lambda number: void(book.put((f"gateway-{number}", ""), Seen(StoredDevice(f"gateway-{number}", "", 0, 0))))


def void(_: object) -> None:
    """As a step."""


def main() -> None:
    for make in (recorder, attempts, recent, devices):
        step = make()
        figures = []
        for round_ in range(5):
            begin = time.perf_counter()
            for number in range(round_ * EACH, (round_ + 1) * EACH):
                step(number)
            figures.append((time.perf_counter() - begin) / EACH * 1e9)
        print(f"{make.__name__:10} empty {figures[0]:7,.0f} ns   full {min(figures[2:]):7,.0f} ns")


if __name__ == "__main__":
    main()
