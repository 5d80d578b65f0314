"""Everything that a selection wants, read by read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from iot_mqtt.grid.log.selection import Selection
from iot_mqtt.ports.log import LogRun, Reading


class Source(Protocol):
    """What reads a log by selections."""

    async def read(self, selection: Selection, position: int, messages: int, budget: int) -> Reading: ...


async def walk(source: Source, selection: Selection, position: int) -> AsyncIterator[LogRun]:
    """Everything, from a position on."""
    while True:
        reading = await source.read(selection, position, 10_000, 1 << 20)
        for run in reading.runs:
            yield run
        if reading.at_end:
            return
        position = reading.position
