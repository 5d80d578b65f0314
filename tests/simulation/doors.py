"""A node's way to what all nodes share: to a map that never lies, or to simulated Ignite servers by the real client."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, Protocol

from iot_mqtt.cluster.fencing import SharedGrid as NodeGrid
from iot_mqtt.grid.ignite import Address, IgniteGrid, IgniteSettings
from iot_mqtt.ports.messaging import Messaging
from tests.simulation.ignite.link import Carry, Way
from tests.simulation.ignite.reader import SimulatedReader
from tests.simulation.ignite.requests import TOKEN
from tests.simulation.ignite.servers import Servers
from tests.simulation.messaging import SimulatedMessaging
from tests.simulation.sharedgrid import GridDoor, SharedGrid
from tests.simulation.speed import Speed


class Door(Protocol):
    """Of one life of a node, and what a story does to it."""

    speed: Speed
    #: Nothing gets through.
    shut: bool
    on_fenced: Callable[[str], None]

    @property
    def grid(self) -> NodeGrid: ...

    @property
    def messaging(self) -> Messaging: ...

    async def open(self) -> None: ...

    def leave(self) -> None:
        """The node stops."""
        ...

    async def close(self) -> None: ...

    def hang_up(self) -> None:
        """Its process is gone."""
        ...

    def break_flow(self) -> None:
        """Messages do not flow, for now."""
        ...

    def restore_flow(self) -> None: ...


class MapDoor(GridDoor):
    """To the map; messages have a network of their own."""

    def __init__(self, grid: SharedGrid, end: SimulatedMessaging) -> None:
        super().__init__(grid, end.clock)
        self.messaging: Final = end

    @property
    def grid(self) -> GridDoor:
        return self

    def leave(self) -> None:
        """Nobody there wants to know."""

    def hang_up(self) -> None:
        """What it has sent is under way."""

    def break_flow(self) -> None:
        if self.messaging.flowing:
            self.messaging.break_flow()

    def restore_flow(self) -> None:
        if not self.messaging.flowing:
            self.messaging.restore_flow()


class IgniteDoor:
    """To servers, through one connection for all there is. It comes back by itself when it was broken."""

    def __init__(self, servers: Servers, end: SimulatedMessaging, carry: Carry, rng: random.Random) -> None:
        self._way = Way(servers, end.clock, end, carry)
        self.grid: Final = SimulatedIgniteGrid(self._way, rng)
        self.messaging: Final = self.grid.gateway.messages

    @property
    def speed(self) -> Speed:
        return self._way.speed

    @speed.setter
    def speed(self, speed: Speed) -> None:
        self._way.speed = speed

    @property
    def shut(self) -> bool:
        return self._way.shut

    @shut.setter
    def shut(self, shut: bool) -> None:
        self._way.shut = shut

    @property
    def on_fenced(self) -> Callable[[str], None]:
        return self.grid.on_fenced

    @on_fenced.setter
    def on_fenced(self, on_fenced: Callable[[str], None]) -> None:
        self.grid.on_fenced = on_fenced

    async def open(self) -> None:
        await self.grid.open()

    def leave(self) -> None:
        self.grid.gateway.leave()

    async def close(self) -> None:
        await self.grid.close()

    def hang_up(self) -> None:
        self._way.hang_up()

    def break_flow(self) -> None:
        for link in list(self._way.links):
            link.close()

    def restore_flow(self) -> None:
        """The client does that."""


class SimulatedIgniteGrid(IgniteGrid):
    """Reads through ``SimulatedReader``: the real one blocks in a thread of its own."""

    def __init__(self, way: Way, rng: random.Random, token: str = TOKEN) -> None:
        settings = settings_of(way.servers, token)
        super().__init__(settings, no_threads, way.reach, way.clock, rng)
        self.reader = SimulatedReader(way, settings, rng.randrange(len(settings.addresses)))  # type: ignore[assignment]


def settings_of(servers: Servers, token: str = TOKEN) -> IgniteSettings:
    """Shorter than the real ones, in proportion to the servers' own times."""
    return IgniteSettings(
        gateways=tuple(one.address for one in servers.servers),
        addresses=tuple(Address("thin", number) for number in range(len(servers.servers))),
        token=token,
        open_timeout=12.0,
        connect_timeout=1.0,
        welcome_timeout=4.0,
        ping_interval=1.0,
        answer_timeout=2.5,
        long_timeout=8.0,
        resolve_timeout=5.0,
        read_timeout=2.0,
        read_patience=5.0,
        retry_last=1.0,
    )


def no_threads(call: Callable[[], None]) -> None:
    raise AssertionError("nothing here is in another thread")
