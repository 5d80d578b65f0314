"""The shared grid while its servers die: what was acknowledged is there, and nobody waits for long."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from twisted.python.failure import Failure

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite import IgniteGrid, NoServer
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.contract.driving import Pump, ReactorPump
from tests.contract.gateway_suite import GatewaySuite
from tests.contract.ignitekit import address, clear, make
from tests.enginekit.servers import Server, Servers

CACHE = CacheName.QUEUE
#: Seconds without a commit that a dead server may cost.
STALL = 8.0


class TestGateway(GatewaySuite):
    """On two servers: the clients of a test are on either."""

    servers: list[Server]

    @pytest.fixture(autouse=True)
    def clean(self, ignites: Servers) -> None:
        self.servers = ignites.ignite
        clear(ReactorPump(), self.servers)

    def pump(self) -> Pump:
        return ReactorPump()

    def make(self, pump: Pump, token: str | None = None) -> IgniteGrid:
        assert isinstance(pump, ReactorPump)
        others = {} if token is None else {"token": token}
        return make(pump, self.servers, retry_last=0.2, **others)


class Load:
    """Commits one batch after another, as the store does, and reads what was acknowledged."""

    def __init__(self, grid: IgniteGrid, pump: ReactorPump) -> None:
        self.grid = grid
        self.pump = pump
        self.acknowledged = 0
        self.longest = 0.0
        self.failures = 0
        self.reads = self.failed_reads = 0
        self.wrong: list[object] = []
        self.running = True
        self._last = time.monotonic()
        self._submit()
        self._read()

    def _submit(self) -> None:
        batch = WriteBatch()
        for cache in (CacheName.LOG, CACHE, CacheName.LOG_TURNS):
            batch.put(cache, key(self.acknowledged), value(self.acknowledged))
        self.grid.commit_soon(batch, self._done)

    def _done(self, error: BaseException | None) -> None:
        now = time.monotonic()
        if error is None:
            self.acknowledged += 1
            self.longest = max(self.longest, now - self._last)
            self._last = now
        else:
            self.failures += 1
            if not isinstance(error, Unavailable):
                self.wrong.append(error)
        if self.running:
            self.pump.reactor.callLater(0.05 if error else 0, self._submit)

    def _read(self) -> None:
        if not self.running:
            return
        number = max(self.acknowledged - 1, 0)
        if not self.acknowledged:
            self.pump.reactor.callLater(0.01, self._read)
            return
        reading = self.pump.start(self.grid.get_many(CACHE, [key(number), key(number // 2)]))
        reading.addBoth(self._have, number)

    def _have(self, found: object, number: int) -> None:
        if isinstance(found, Failure):
            self.failed_reads += 1
            if not found.check(Unavailable):
                self.wrong.append(found)
        else:
            self.reads += 1
            if found != [value(number), value(number // 2)]:
                self.wrong.append((number, found))
        self.pump.reactor.callLater(0.005, self._read)

    def until(self, count: int, timeout: float = 30) -> None:
        self.pump.until(lambda: self.acknowledged >= count, timeout)


def key(number: int) -> bytes:
    return b"%08d" % number


def value(number: int) -> bytes:
    return b"%d" % number * 200


@pytest.fixture
def pump() -> ReactorPump:
    return ReactorPump()


@pytest.fixture
def grid(ignites: Servers, pump: ReactorPump) -> Iterator[IgniteGrid]:
    clear(pump, ignites.ignite)
    grid = make(pump, ignites.ignite)
    pump.run(grid.open())
    pump.run(grid.identify(20, time.time_ns()))
    yield grid
    pump.run(grid.close())


def used_by(grid: IgniteGrid, servers: Servers) -> Server:
    """Whose gateway it writes through."""
    connection = grid.gateway._connection
    assert connection is not None
    port = connection.transport.getPeer().port  # type: ignore[attr-defined]
    (server,) = (server for server in servers.ignite if server.ports["gateway"] == port)
    return server


@pytest.mark.parametrize("which", ["ours", "the other"])
@pytest.mark.parametrize("how", ["kill", "terminate", "pause"])
def test_a_server_dies_between_commits(
    grid: IgniteGrid, pump: ReactorPump, ignites: Servers, which: str, how: str
) -> None:
    """Nothing acknowledged is lost, nobody is told an untruth, and it goes on soon."""
    load = Load(grid, pump)
    load.until(200)
    ours = used_by(grid, ignites)
    (other,) = (server for server in ignites.ignite if server is not ours)
    victim = ours if which == "ours" else other
    if how == "terminate":
        os.kill(victim.pid, signal.SIGTERM)
        victim.touched = True
        pump.until(lambda: not victim.alive, 30)
    else:
        getattr(victim, how)()
    count = load.acknowledged
    load.until(count + 300, 60)
    load.running = False
    assert load.wrong == []
    numbers = range(load.acknowledged)
    for cache in (CacheName.LOG, CACHE, CacheName.LOG_TURNS):
        found = pump.run(grid.get_many(cache, [key(number) for number in numbers]))
        assert [number for number in numbers if found[number] != value(number)] == []
    print(f"\n{which} {how}: {load.longest:.2f} s, {load.failures} repeated, {load.failed_reads}/{load.reads} reads")
    # A paused server has to be given up by the other one first.
    assert load.longest <= (STALL if how != "pause" else 2 * STALL)


@pytest.mark.parametrize("cache", [CacheName.LOG, CacheName.LOG_INDEX])
def test_a_dropped_server_is_not_believed_that_something_is_absent(
    ignites: Servers, pump: ReactorPump, cache: CacheName
) -> None:
    """It stood still, was dropped, and answers questions of that time before it notices."""
    dropped, other = ignites.ignite
    clear(pump, ignites.ignite)
    writing = make(pump, [other], answer_timeout=30.0)
    reading = make(pump, [other], addresses=(address(dropped.address),), read_timeout=60.0, read_patience=60.0)
    for grid in (writing, reading):
        pump.run(grid.open())
    assert pump.run(reading.get(cache, key(0))) is None
    dropped.pause()
    batch = WriteBatch()
    batch.put(cache, key(0), value(0))
    pump.run(writing.commit(batch))
    # Acknowledged by the server that is left. The question waits in the dropped one's socket.
    found = pump.start(reading.get(cache, key(0)))
    waits_until = time.monotonic() + 0.5
    pump.until(lambda: time.monotonic() > waits_until)
    dropped.resume()
    got: list[object] = []
    found.addErrback(lambda failure: failure.check(Unavailable)).addCallback(got.append)
    pump.until(lambda: bool(got), 60)
    # "Not ready" would be true, too: it has no other address.
    assert got[0] in (value(0), Unavailable)
    for grid in (writing, reading):
        pump.run(grid.close())
    dropped.end()  # it would in its own time, or has


def test_nobody_there_is_told_clearly(ignite: Server, pump: ReactorPump) -> None:
    """In the time that was given."""
    grid = make(pump, [ignite], open_timeout=1.0)
    ignite.kill()
    with pytest.raises(NoServer, match=r"no Ignite server answers at 127.0.0.1:\d+ .*start one with"):
        pump.run(grid.open())
