"""The reference grid against the contract."""

from __future__ import annotations

from pathlib import Path

from iot_mqtt.grid.memory import MemoryGrid
from tests.contract.driving import Pump
from tests.contract.grid_suite import GridSuite


class TestMemoryGrid(GridSuite):
    """Made anew each time: it keeps nothing."""

    def make(self, directory: Path, pump: Pump) -> MemoryGrid:
        return MemoryGrid()
