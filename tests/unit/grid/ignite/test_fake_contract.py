"""The contract of every grid, kept by the client over gateways in memory: what the fake is to be trusted for."""

from __future__ import annotations

from pathlib import Path

from iot_mqtt.grid.ignite import IgniteGrid
from tests.contract.driving import Pump
from tests.contract.gateway_suite import GatewaySuite
from tests.contract.grid_suite import GridSuite
from tests.unit.grid.ignite.fake_gateway import FakePump, make


class TestIgniteGridOnFakes(GridSuite):
    """Each test has servers of its own."""

    def pump(self) -> Pump:
        return FakePump()

    def make(self, directory: Path, pump: Pump) -> IgniteGrid:
        assert isinstance(pump, FakePump)
        return make(pump)


class TestGatewayOnFakes(GatewaySuite):
    """So that what the fake says is what a gateway would."""

    def pump(self) -> Pump:
        return FakePump()

    def make(self, pump: Pump, token: str | None = None) -> IgniteGrid:
        assert isinstance(pump, FakePump)
        return make(pump) if token is None else make(pump, token=token)
