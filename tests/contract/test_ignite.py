"""The shared grid against the contract, on real servers; and what becomes of it when they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.grid.ignite import IgniteGrid
from tests.contract.driving import Pump, ReactorPump
from tests.contract.grid_suite import GridSuite
from tests.contract.ignitekit import clear, make
from tests.contract.persistent_suite import PersistentGridSuite
from tests.enginekit.servers import Server, Servers


class TestOneServer(GridSuite):
    """What one keeps."""

    servers: list[Server]

    @pytest.fixture(autouse=True)
    def clean(self, ignite: Server) -> None:
        self.servers = [ignite]
        clear(ReactorPump(), self.servers)

    def pump(self) -> Pump:
        return ReactorPump()

    def make(self, directory: Path, pump: Pump) -> IgniteGrid:
        assert isinstance(pump, ReactorPump)
        return make(pump, self.servers)

    # Of a grid on disk, what holds without one: the servers outlive the broker.
    test_reopening_keeps_everything_committed = PersistentGridSuite.test_reopening_keeps_everything_committed
    test_reopening_keeps_a_removed_prefix_removed = PersistentGridSuite.test_reopening_keeps_a_removed_prefix_removed


class TestTwoServers(TestOneServer):
    """Each entry on both, half of them led by each."""

    @pytest.fixture(autouse=True)
    def clean(self, ignites: Servers) -> None:
        self.servers = ignites.ignite
        clear(ReactorPump(), self.servers)
