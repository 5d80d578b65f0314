"""Three Ignite servers of which two are lost: the third says nothing rather than something that may not be so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from iot_mqtt.app.engines import probe
from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite import IgniteGrid
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.contract.driving import ReactorPump
from tests.contract.ignitekit import make
from tests.enginekit.servers import Server, Servers, running

CACHE = CacheName.CHANNELS
KEYS = [b"%d" % number for number in range(50)]
SWAPS = 8
#: Seconds: the servers' failure detection timeout, and a loaded machine.
DETECTED = 5.0 + 3.0
#: Seconds without a quorum after which a server stops (``iot.ignite.quorum.patience``), and for it to end.
STOPPED = 10.0 + 10.0


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Each test mends them, and what it leaves broken is mended behind it."""
    with running(tmp_path_factory.mktemp("quorum"), ignite=3) as servers:
        yield servers


@pytest.fixture
def logged(three: Servers) -> dict[str, int]:
    """How long each server's log was when the test began."""
    return {server.name: len(server.log_text()) for server in three.ignite}


@pytest.fixture
def pump() -> ReactorPump:
    return ReactorPump()


Opened = Callable[[int], IgniteGrid]


@pytest.fixture
def opened(three: Servers, pump: ReactorPump) -> Iterator[Opened]:
    """Grids as broker nodes have them: every address, one of them in use, and we say which. It has time to answer."""
    grids: list[IgniteGrid] = []

    def opened(used: int) -> IgniteGrid:
        order = three.ignite[used:] + three.ignite[:used]
        grid = make(pump, order, read_patience=2.0, answer_timeout=20.0)
        grid.gateway._dialer._next = 0
        pump.run(grid.open())
        pump.run(grid.identify(1 + len(grids), time.time_ns()))
        grids.append(grid)
        return grid

    yield opened
    for grid in grids:
        pump.run(grid.close())


def batch(value: bytes) -> WriteBatch:
    found = WriteBatch()
    for key in KEYS:
        found.put(CACHE, key, value)
    return found


def told(pump: ReactorPump, grid: IgniteGrid, value: bytes) -> BaseException | None:
    """What comes of a commit."""
    done: list[BaseException | None] = []
    grid.commit_soon(batch(value), done.append)
    pump.until(lambda: bool(done), 60)
    return done[0]


def commits_again(pump: ReactorPump, grid: IgniteGrid, value: bytes) -> None:
    pump.until(lambda: grid.available, 60)
    until = time.monotonic() + 60
    while (error := told(pump, grid, value)) is not None:
        assert isinstance(error, Unavailable)
        assert time.monotonic() < until, error
        pump.turn()
    assert pump.run(grid.get_many(CACHE, KEYS)) == [value] * len(KEYS)


def read_again(pump: ReactorPump, grid: IgniteGrid) -> list[bytes | None]:
    """As soon as the grid answers."""
    pump.until(lambda: grid.available, 60)
    until = time.monotonic() + 60
    while True:
        try:
            return pump.run(grid.get_many(CACHE, KEYS))
        except Unavailable:
            if time.monotonic() > until:
                raise
            pump.turn()


def says_nothing(pump: ReactorPump, grid: IgniteGrid, last: Server) -> None:
    """No write is taken, no read is answered: neither with "absent" nor with what was there."""
    assert isinstance(told(pump, grid, b"lost"), Unavailable)
    for reading in (grid.get_many(CACHE, KEYS), grid.get(CACHE, KEYS[0]), grid.page(CACHE)):
        with pytest.raises(Unavailable):
            pump.run(reading)
    with pytest.raises(probe.NotThere):
        probe.gateway(last.ports["gateway"], last.token)
    with pytest.raises(probe.NotThere):
        probe.ignite_active(last.ports["client"])


def stops(pump: ReactorPump, last: Server, logged: dict[str, int]) -> None:
    pump.until(lambda: not last.alive, STOPPED)
    said = last.log_text()[logged[last.name] :]
    assert "1 of the 2 servers that a quorum takes" in said
    assert "(exit code 3)" in said


@pytest.mark.parametrize("used", [0, 2], ids=["connected to one that dies", "connected to the one that is left"])
def test_one_of_three_says_nothing_and_stops(
    three: Servers, opened: Opened, pump: ReactorPump, logged: dict[str, int], used: int
) -> None:
    """All of memory is gone with that, entries of the last server included, and nothing else: when all are back,
    what was acknowledged is absent, what comes is kept.
    """
    *victims, last = three.ignite
    grid = opened(used)
    assert told(pump, grid, b"first") is None
    for victim in victims:
        victim.kill()
    killed = time.monotonic()
    pump.until(lambda: told(pump, grid, b"lost") is not None, DETECTED)
    assert time.monotonic() - killed < DETECTED
    says_nothing(pump, grid, last)
    stops(pump, last, logged)
    last.touched = True
    three.heal()
    assert read_again(pump, grid) == [None] * len(KEYS)
    commits_again(pump, grid, b"second")


def test_two_of_three_go_on(three: Servers, opened: Opened, pump: ReactorPump) -> None:
    """Whichever server is lost, and it may come back."""
    grid = opened(0)
    assert told(pump, grid, b"0") is None
    for number, server in enumerate(three.ignite):
        server.kill()
        commits_again(pump, grid, b"%d" % (number + 1))
        server.start()
    commits_again(pump, grid, b"at last")


@pytest.mark.parametrize("soon", [True, False], ids=["before it stops", "after it stopped"])
def test_two_that_stood_still_do_not_go_on_by_themselves(
    three: Servers, opened: Opened, pump: ReactorPump, logged: dict[str, int], soon: bool
) -> None:
    """They were dropped by the third, or cannot know; whoever supervises them starts them again."""
    *sleepers, last = three.ignite
    grid = opened(2)
    # Single entries too: of some of them the third server is the one that decides when they are done.
    swappers = [opened(2) for _ in range(SWAPS)]
    assert told(pump, grid, b"first") is None
    for sleeper in sleepers:
        sleeper.pause()
    swaps = [
        pump.start(swapper.compare_and_set(CACHE, b"swapped %d" % number, None, b"by us"))
        for number, swapper in enumerate(swappers)
    ]
    # It waits for the copies on the two, and is not done when these are given up one after the other.
    with pytest.raises(Unavailable, match=r"status 1.*not ready|no connection|connection to the gateway broke"):
        raise told(pump, grid, b"lost") or AssertionError("a write of which nobody else knows was acknowledged")
    outcomes: list[object] = []
    for swap in swaps:
        swap.addErrback(lambda failure: failure.check(Unavailable)).addCallback(outcomes.append)
    pump.until(lambda: len(outcomes) == SWAPS, 60)
    assert outcomes == [Unavailable] * SWAPS
    if soon:
        pump.until(lambda: "1 of the 2 servers" in last.log_text()[logged[last.name] :], 3 * DETECTED)
    else:
        stops(pump, last, logged)
    for sleeper in sleepers:
        sleeper.resume()
    pump.until(lambda: not any(server.alive for server in three.ignite), 90)
    three.heal()
    commits_again(pump, grid, b"second")
