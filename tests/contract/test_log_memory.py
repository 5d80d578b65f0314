"""The log on the reference grid."""

from __future__ import annotations

from pathlib import Path

from iot_mqtt.grid.memory import MemoryGrid
from tests.contract.driving import Pump
from tests.contract.log_suite import LogSuite


class TestLogInMemory(LogSuite):
    """Lives share one grid."""

    def make(self, directory: Path, pump: Pump) -> MemoryGrid:
        return MemoryGrid()
