"""The contract of grids and gateways, kept over the servers of the simulation: what those are to be trusted for."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from iot_mqtt.grid.ignite import IgniteGrid
from iot_mqtt.pipeline.clock import ManualClock
from tests.contract.driving import Pump
from tests.contract.gateway_suite import GatewaySuite
from tests.contract.grid_suite import GridSuite
from tests.simulation.doors import SimulatedIgniteGrid
from tests.simulation.ignite.link import Way
from tests.simulation.ignite.requests import TOKEN
from tests.simulation.ignite.servers import Servers
from tests.simulation.messaging import NodeClock


class SimulatedPump(Pump):
    """Lets simulated time pass."""

    def __init__(self, *, disks: bool = False) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.servers = Servers(self.clock, random.Random(1), disks=disks)

    def until(self, condition: Callable[[], bool]) -> None:
        end = self.clock.monotonic() + 600
        while not condition():
            assert self.clock.monotonic() < end, "nothing happens any more"
            self.clock.advance(0.001)


def make(pump: Pump, token: str = TOKEN) -> IgniteGrid:
    """A grid, not yet open."""
    assert isinstance(pump, SimulatedPump)
    return SimulatedIgniteGrid(Way(pump.servers, NodeClock(pump.clock), None, None), random.Random(2), token)


class TestIgniteGridOnSimulatedServers(GridSuite):
    """Each test has servers of its own."""

    def pump(self) -> Pump:
        return SimulatedPump()

    def make(self, directory: Path, pump: Pump) -> IgniteGrid:
        return make(pump)


class TestGatewayOnSimulatedServers(GatewaySuite):
    """So that what a simulated server says is what a gateway would."""

    def pump(self) -> Pump:
        return SimulatedPump()

    def make(self, pump: Pump, token: str | None = None) -> IgniteGrid:
        return make(pump) if token is None else make(pump, token)
