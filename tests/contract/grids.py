"""The three grids, for suites that are asked of each: ``class TestOnDisk(OnDisk, DevicesSuite)``."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.ignite import IgniteGrid
from iot_mqtt.grid.memory import MemoryGrid
from tests.contract.driving import Pump, ReactorPump
from tests.contract.ignitekit import clear, make
from tests.enginekit.servers import Server


class InMemory:
    """The reference."""

    def make(self, directory: Path, pump: Pump) -> MemoryGrid:
        return MemoryGrid()


class OnDisk:
    """RocksDB."""

    def make(self, directory: Path, pump: Pump) -> EmbeddedGrid:
        return EmbeddedGrid(Engine(directory), pump.cross)


class OnIgnite:
    """A real server, emptied before each test."""

    server: Server

    @pytest.fixture(autouse=True)
    def clean(self, ignite: Server) -> None:
        self.server = ignite
        clear(ReactorPump(), [ignite])

    def pump(self) -> Pump:
        return ReactorPump()

    def make(self, directory: Path, pump: Pump) -> IgniteGrid:
        assert isinstance(pump, ReactorPump)
        return make(pump, [self.server])
