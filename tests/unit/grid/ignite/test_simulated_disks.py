"""Simulated servers that keep what they have on disk: any of them may go, and all of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.grid import CacheName, Pair
from tests.contract.grid_suite import Opened
from tests.simulation.ignite.copies import partition_of
from tests.unit.grid.ignite.test_simulated_contract import SimulatedPump, make

CACHE = CacheName.SESSIONS
PAIRS = [(b"%d" % number, b"of %d" % number) for number in range(50)]


@pytest.fixture
def pump() -> SimulatedPump:
    return SimulatedPump(disks=True)


@pytest.fixture
def opened(pump: SimulatedPump) -> Iterator[Opened]:
    found = Opened(make(pump), pump)
    found.put(CACHE, *PAIRS)
    yield found
    pump.run(found.grid.close())


def _keep(opened: Opened, *pairs: Pair) -> None:
    """As a node does: again, if the connection broke meanwhile."""
    while True:
        with suppress(Unavailable):
            return opened.put(CACHE, *pairs)


def test_what_was_answered_is_there_after_all_had_no_power(pump: SimulatedPump, opened: Opened) -> None:
    """Nothing answers until all of them are back, in whatever order they come."""
    servers = pump.servers
    servers.lose_power()
    pump.until(lambda: bool(servers.members))
    assert not any(server.ready for server in servers.members)
    pump.until(lambda: servers.robust and len(servers.members) == 3)
    assert sorted(opened.all(CACHE)) == sorted(PAIRS)
    opened.put(CACHE, (b"later", b"too"))


def test_what_both_holders_have_taken_away_is_waited_for(pump: SimulatedPump, opened: Opened) -> None:
    """It is not absent meanwhile, and the latest of it is found again."""
    servers = pump.servers
    key = PAIRS[0][0]
    first, second = (pump.servers.servers[int(one.name[1:])] for one in servers.placement.owners[partition_of(key)])
    servers.crash(first)
    _keep(opened, (key, b"newer"))
    servers.crash(second)
    pump.until(lambda: first.member or second.member)
    assert servers.placement.lost
    assert dict(opened.all(CACHE)) == {**dict(PAIRS), key: b"newer"}
    assert opened.get(CACHE, key) == b"newer"


def test_a_server_that_comes_back_takes_what_it_missed(pump: SimulatedPump, opened: Opened) -> None:
    """It has an old copy, which nobody is given."""
    servers = pump.servers
    away = servers.servers[0]
    servers.crash(away)
    _keep(opened, *((key, b"newer") for key, _ in PAIRS))
    assert servers.placement.missing
    pump.until(lambda: away.member and not servers.placement.missing)
    for server in servers.servers[1:]:
        servers.crash(server)
    pump.until(lambda: len(servers.members) == 3)
    assert {value for _, value in opened.all(CACHE)} == {b"newer"}
