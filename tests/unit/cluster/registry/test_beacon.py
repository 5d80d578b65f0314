"""Nodes of a static list hear of each other by what they send to everybody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from iot_mqtt.cluster.registry.beacon import TOPIC, Beacon
from iot_mqtt.cluster.registry.static import StaticRegistry
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.messaging import Receive
from iot_mqtt.ports.registry import Member, RegistryState
from tests.unit.broker.harness import run

NODES = ("a", "b", "c")


class Air:
    """Messaging in which everybody hears everybody, himself included."""

    def __init__(self) -> None:
        self.listeners: list[Receive] = []
        self.on_flow: Callable[[bool], None] = lambda flowing: None
        self.flowing = True
        self.waiting = 0

    async def listen(self, topic: str, receive: Receive) -> None:
        assert topic == TOPIC
        self.listeners.append(receive)

    def send(self, topic: str, payload: bytes) -> bool:
        for receive in self.listeners:
            receive(payload)
        return True


class Town:
    """Three nodes and their beacons."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.air = Air()
        self.registries = {name: StaticRegistry(name, NODES, self.clock, 6.0) for name in NODES}
        self.beacons: dict[str, Beacon] = {}

    def start(self, name: str, boot: int = 1) -> None:
        beacon = self.beacons[name] = Beacon(self.registries[name], self.air, self.clock, 6.0)
        run(self.registries[name].register(Member(name, NODES.index(name) + 1, boot, "0")))
        run(beacon.start())

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds * 4)):
            self.clock.advance(0.25)


@pytest.fixture
def town() -> Town:
    return Town()


def test_a_majority_is_connected_and_knows_who_is_there(town: Town) -> None:
    """One alone is nobody."""
    town.start("a")
    town.pass_time(2)
    states = [town.registries["a"].state]
    town.start("b")
    town.pass_time(2)
    states.append(town.registries["a"].state)
    assert states[0] is not RegistryState.CONNECTED
    assert states[1] is RegistryState.CONNECTED
    assert set(town.registries["a"].members) == set(town.registries["b"].members) == {"a", "b"}


def test_a_node_that_says_goodbye_is_gone_at_once(town: Town) -> None:
    """And one that falls silent after the time-out."""
    for name in NODES:
        town.start(name)
    town.pass_time(2)
    town.beacons["c"].stop()
    assert set(town.registries["a"].members) == {"a", "b"}
    town.registries["c"] = StaticRegistry("c", NODES, town.clock, 6.0)
    town.start("c", boot=2)
    town.pass_time(2)
    assert town.registries["a"].members["c"].boot == 2
    town.air.listeners.clear()
    town.pass_time(7)
    assert "c" not in town.registries["a"].members


def test_what_is_no_heartbeat_changes_nothing(town: Town) -> None:
    """Nothing that comes can end the beacon."""
    town.start("a")
    for rubbish in (b"", b"+", b"+\x05ab", b"?\x01a{}", b"+\x01\xff{}", b"+\x01b{}"):
        town.air.send(TOPIC, rubbish)
    assert town.registries["a"].members.keys() == {"a"}
    town.start("b")
    town.pass_time(2)
    assert town.registries["a"].state is RegistryState.CONNECTED


def test_a_refreshed_entry_is_heard(town: Town) -> None:
    """Load and addresses travel with the heartbeats."""
    town.start("a")
    town.start("b")
    town.pass_time(2)
    own = town.registries["b"].own
    assert own is not None
    town.registries["b"].update(replace(own, clients=7))
    town.pass_time(2)
    assert town.registries["a"].members["b"].clients == 7
