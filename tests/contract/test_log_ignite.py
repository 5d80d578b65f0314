"""The log on real Ignite servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.grid.ignite import IgniteGrid
from tests.contract.driving import Pump, ReactorPump
from tests.contract.ignitekit import clear, make
from tests.contract.log_suite import LogSuite
from tests.enginekit.servers import Server


class TestLogOnIgnite(LogSuite):
    """On one server: what two make different, the contract of the grid tests."""

    courses = 2
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
