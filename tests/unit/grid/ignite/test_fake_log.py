"""The log over gateways in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.grid.ignite import IgniteGrid
from tests.contract.driving import Pump
from tests.contract.log_suite import LogSuite
from tests.unit.grid.ignite.fake_gateway import FakePump, make

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow


class TestLogOnFakes(LogSuite):
    """Each test has servers of its own."""

    def pump(self) -> Pump:
        return FakePump()

    def make(self, directory: Path, pump: Pump) -> IgniteGrid:
        assert isinstance(pump, FakePump)
        return make(pump)
