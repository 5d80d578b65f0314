"""What happens to nodes, to what is between them, and to the servers under them; and how it is over again."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.simulation.ignite.servers import Server, Servers
from tests.simulation.messaging import Weather
from tests.simulation.speed import Speed
from tests.simulation.world import World

#: Seconds by which a wall clock may be wrong.
SKEW: Final = 3.0


class Troubles:
    """Of one world. A trouble is named as in ``plan``."""

    def __init__(self, world: World) -> None:
        self._world = world

    def make(self, name: str, rng: random.Random) -> None:
        """Let it happen, to whom the dice say."""
        trouble: Callable[[random.Random], None] = getattr(self, f"_{name}")
        trouble(rng)

    def recover(self, rng: random.Random) -> None:
        """Some of what was wrong is put right."""
        world = self._world
        for name in world.names:
            life = world.lives[name]
            if life.ended and rng.random() < 0.15:
                world.again(name)
            elif life.paused and rng.random() < 0.12:
                world.resume(name)
            elif life.door.shut and rng.random() < 0.3:
                life.door.shut = False
            elif not life.door.messaging.flowing and rng.random() < 0.4 and not life.ended:
                life.clock.arrive(partial(world.restore_flow, life))
            elif world.ensemble.away(name) and not life.paused and not life.ended and rng.random() < 0.15:
                world.ensemble.heal(name)
        servers = world.servers
        if servers is not None:
            for server in servers.servers:
                if server.silent and rng.random() < 0.1:
                    world.trace(f"server {server.name} goes on")
                    servers.go_on(server)
            if servers.full and rng.random() < 0.2:
                world.trace("the servers have room again")
                servers.fill(full=False)

        if world.platform is not None and world.platform.away and rng.random() < 0.2:
            world.trace("the platform is there again")
            world.platform.away = False

    def calm(self) -> None:
        world = self._world
        world.trace("the weather is fine")
        world.network.heal()
        world.network.weather.clear()
        for life in world.lives.values():
            life.door.speed = Speed()
        if world.servers is not None:
            world.servers.calm()
        if world.platform is not None:
            world.platform.speed = Speed()

    def over(self) -> None:
        """All of it is put right."""
        world = self._world
        self.calm()
        for life in world.lives.values():
            # Also for those that are not to come back: one that stops writes what it has, and does not go before that.
            life.door.shut = False
        if world.servers is not None:
            world.servers.fill(full=False)
            for server in world.servers.servers:
                world.servers.go_on(server)
        if world.platform is not None:
            world.platform.away = False
        for name in world.names:
            life = world.lives[name]
            if not life.ended:
                if life.paused:
                    world.resume(name)
                elif world.ensemble.away(name):
                    world.ensemble.heal(name)
            if not life.ended and not life.door.messaging.flowing:
                world.restore_flow(life)

    # Of the platform.

    def _platform_away(self, rng: random.Random) -> None:
        del rng
        if self._world.platform is not None:
            self._world.trace("the platform goes away")
            self._world.platform.go_away()

    def _platform_slow(self, rng: random.Random) -> None:
        if self._world.platform is not None:
            self._world.trace("the platform is slow")
            self._world.platform.speed = Speed(0.02, rng.choice((0.1, 1.0)))

    # Of nodes.

    def _name(self, rng: random.Random) -> str:
        return rng.choice(self._world.names)

    def _kill(self, rng: random.Random) -> None:
        self._world.kill(self._name(rng))

    def _stop(self, rng: random.Random) -> None:
        life = self._world.lives[self._name(rng)]
        if life in self._world.running:
            self._world.stop(life)

    def _pause(self, rng: random.Random) -> None:
        self._world.pause(self._name(rng))

    def _turn_clock(self, rng: random.Random) -> None:
        """The wall clock of a machine jumps; it survives the node's lives."""
        name = self._name(rng)
        skews = self._world.network.skews
        skews[name] = skew = rng.uniform(-SKEW, SKEW)
        apart = max(0.0, *skews.values()) - min(0.0, *skews.values())
        ledger = self._world.ledger
        ledger.late = max(ledger.late, ledger.least_late + 2 * apart)
        self._world.trace(f"the clock of {name} is wrong by {skew:.1f} s")

    # Between nodes.

    def _pair(self, rng: random.Random) -> tuple[str, str]:
        one, other = rng.sample(self._world.names, 2)
        return one, other

    def _part(self, rng: random.Random) -> None:
        one, other = self._pair(rng)
        self._world.trace(f"{one} and {other} are parted")
        self._world.network.part(one, other)

    def _cut(self, rng: random.Random) -> None:
        one, other = self._pair(rng)
        self._world.trace(f"{one} does not reach {other}")
        self._world.network.cut(one, other)

    def _weather(self, rng: random.Random) -> None:
        pair = self._pair(rng)
        weather = Weather(
            (0.001, rng.choice((0.01, 0.5))), rng.choice((0.0, 0.1, 0.5)), rng.choice((0.0, 0.2)), rng.random(), 1.0
        )
        self._world.trace(f"bad weather from {pair[0]} to {pair[1]}: {weather}")
        self._world.network.weather[pair] = weather

    # Between nodes and what they share.

    def _suspend(self, rng: random.Random) -> None:
        name = self._name(rng)
        if not self._world.lives[name].ended and not self._world.lives[name].paused:
            self._world.trace(f"{name} loses the registry")
            self._world.ensemble.suspend(name)

    def _expire(self, rng: random.Random) -> None:
        name = self._name(rng)
        if not self._world.lives[name].ended and not self._world.lives[name].paused:
            self._world.trace(f"{name}'s session with the registry expires")
            self._world.ensemble.expire(name)

    def _slow(self, rng: random.Random) -> None:
        name = self._name(rng)
        self._world.trace(f"the grid is slow for {name}")
        self._world.lives[name].door.speed = Speed(0.02, 0.4)

    def _shut(self, rng: random.Random) -> None:
        name = self._name(rng)
        self._world.trace(f"the grid does not answer {name}")
        self._world.lives[name].door.shut = True

    def _break_flow(self, rng: random.Random) -> None:
        life = self._world.lives[self._name(rng)]
        if not life.ended and not life.paused and life.door.messaging.flowing:
            self._world.trace(f"messages of {life.name} do not flow")
            self._world.break_flow(life)

    # Of servers. In memory a second one is lost only when every partition has its copies again: else data is, as is
    # promised.

    def _server_crash(self, rng: random.Random) -> None:
        self._fell(rng, "crashes", lambda servers, server: servers.crash(server))

    def _server_pause(self, rng: random.Random) -> None:
        self._fell(rng, "stands still", lambda servers, server: servers.pause(server))

    def _server_cut(self, rng: random.Random) -> None:
        self._fell(rng, "is cut off from the others", lambda servers, server: servers.cut_off(server))

    def _fell(self, rng: random.Random, what: str, fell: Callable[[Servers, Server], None]) -> None:
        """One of them, if the others can do without it."""
        servers = self._world.servers
        if servers is not None and servers.robust:
            server = rng.choice(servers.servers)
            self._world.trace(f"server {server.name} {what}")
            fell(servers, server)

    def _servers_off(self, rng: random.Random) -> None:
        """They have no power; nodes do."""
        del rng
        servers = self._world.servers
        if servers is not None and servers.disks:
            self._world.trace("the servers have no power")
            servers.lose_power()

    def _site_off(self, rng: random.Random) -> None:
        """Nothing has power. Nodes are killed before servers, or behind them."""
        nodes_first = rng.random() < 0.5
        if not nodes_first:
            self._servers_off(rng)
        for name in self._world.names:
            self._world.kill(name)
        if nodes_first:
            self._servers_off(rng)

    def _server_lag(self, rng: random.Random) -> None:
        servers = self._world.servers
        if servers is not None:
            server = rng.choice(servers.servers)
            self._world.trace(f"server {server.name} is slow")
            server.speed = Speed(0.02, rng.choice((0.1, 0.5)))

    def _servers_full(self, rng: random.Random) -> None:
        servers = self._world.servers
        if servers is not None:
            self._world.trace("the servers are full")
            servers.fill(full=True)
