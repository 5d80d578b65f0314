"""The uplink of one life of a simulated node, and what it sends up for nodes that are gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from iot_mqtt.app.node.uplink import attach
from iot_mqtt.app.node.uplink_failover import UplinkFailovers, watch_others
from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.driving import drive
from iot_mqtt.grid.places import GridPlaces
from iot_mqtt.ports.grid import Grid
from iot_mqtt.ports.log import Followed
from iot_mqtt.ports.registry import Registry
from iot_mqtt.uplink.rulebook import RuleBook
from tests.simulation.messaging import NodeClock
from tests.simulation.platform import RULES, Platform, PlatformSink
from tests.unit.uplink.sinkkit import make_uplink

#: Seconds from one look for nodes that are gone to the next.
LOOK = 1.0


class Upward:
    """``attach`` it when the log is open, and ``begin`` when the node is whole."""

    def __init__(
        self,
        platform: Platform,
        broker: Composition,
        grid: Grid,
        registry: Registry,
        clock: NodeClock,
        number: int,
        name: str,
        follow: Callable[[int], Awaitable[Followed]],
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._book = RuleBook(grid, number, name)
        sink = PlatformSink(platform, clock)
        self.uplink = make_uplink(broker, self._book, sink, GridPlaces(grid, number), hold=platform.waits)
        watch_others(self.uplink, grid, number, clock)
        self._failovers = UplinkFailovers(
            grid,
            registry,
            number,
            follow,
            clock,
            broker.turn.call_soon,
            lambda _: PlatformSink(platform, clock),
            lambda: RULES,
        )

    async def attach(self) -> None:
        await attach(self.uplink, self._book, RULES, self._broker)

    def begin(self) -> None:
        self.uplink.begin()
        self._look()

    async def stop(self) -> None:
        """Hand over what there is; the last commit comes after it."""
        await self.uplink.stop()
        self._failovers.stop()

    @property
    def waiting(self) -> int:
        """Messages that are not safe in the platform."""
        return self.uplink.info().lag_messages

    def _look(self) -> None:
        drive(self._failovers.look(), self._looked, self._looked)

    def _looked(self, _: object) -> None:
        self._clock.call_later(LOOK, self._look)
