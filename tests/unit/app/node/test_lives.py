"""One life after the other: what could not begin leaves nothing behind, and the next one is at the same ports."""

from __future__ import annotations

import errno
import gc
import logging
import re
import signal
import socket
import weakref
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.python.failure import Failure

from iot_mqtt.app.config.reading import LoadedConfig, Reread
from iot_mqtt.app.config.sections import AdminConfig, Config, GridConfig, ListenerConfig, NodeConfig
from iot_mqtt.app.node import lives
from iot_mqtt.app.node.lives import Lives
from iot_mqtt.app.node.service import Service
from iot_mqtt.errors import Unavailable
from iot_mqtt.pipeline.reactor import TurnReactor
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.filling import Filler, Mark, Unfinished
from tests.unit.app.node.lifekit import Turning

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow


class Often(Service):
    """A life that comes as far as its ports and then cannot begin, so many times."""

    failures: ClassVar[int]
    made: ClassVar[list[Often]]

    def __init__(
        self,
        config: Config,
        reactor: TurnReactor,
        on_over: Callable[[str], None],
        loaded: LoadedConfig | None = None,
        reread: Reread | None = None,
    ) -> None:
        super().__init__(config, reactor, on_over, loaded, reread)
        self.made.append(self)

    async def start(self, before_listening: Callable[[], Awaitable[None]] | None = None) -> str:
        ready = await super().start(before_listening)
        if 1 < len(self.made) <= 1 + self.failures:
            raise Unavailable("the cluster does not let it in")
        return ready

    def paused(self) -> None:
        """As when the cluster has fenced it."""
        self._over("it was paused")


@pytest.fixture
def turning() -> Iterator[Turning]:
    """A reactor that nothing else uses."""
    turning = Turning()
    yield turning
    turning.reactor.disconnectAll()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Two listeners and an admin port, wherever there is room."""
    return Config(
        node=NodeConfig(data_dir=str(tmp_path), gc_threshold=0, drain_seconds=1.0),
        listeners={"first": ListenerConfig(), "second": ListenerConfig()},
        admin=AdminConfig(port=0),
        grid=GridConfig(kind="memory"),
    )


def never(reason: str) -> None:
    raise AssertionError(reason)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_life_that_cannot_open_its_last_port_gives_the_others_back(turning: Turning, config: Config) -> None:
    """The admin port is taken: both listeners are open by then."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        full = lives.at_ports(config, {"admin": taken.getsockname()[1]})
        service = Service(full, turning.reactor, never)
        with pytest.raises(CannotListenError) as refused:
            turning.run(service.start())
        assert lives.reason(Failure(refused.value)).startswith("admin.port: Couldn't listen on 127.0.0.1:")
        ports = service.ports
        assert set(ports) == {"listeners.first", "listeners.second"}
        turning.run(service.abandon())
        turning.run(service.release_ports())
    assert not any(accepts(port) for port in ports.values())
    assert turning.left == []


def test_a_listener_whose_port_is_taken_is_named(turning: Turning, config: Config) -> None:
    """There may be many, and of some nobody has written the port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        service = Service(lives.at_ports(config, {"listeners.second": taken.getsockname()[1]}), turning.reactor, never)
        with pytest.raises(CannotListenError) as refused:
            turning.run(service.start())
    assert lives.reason(Failure(refused.value)).startswith("listeners.second.port: Couldn't listen on 127.0.0.1:")
    turning.run(service.abandon())
    turning.run(service.release_ports())


def test_a_grid_that_is_being_filled_is_nobodys(turning: Turning, config: Config) -> None:
    """A restore was killed: no client is to find a part of what there was."""
    service = Service(config, turning.reactor, never)
    turning.run(service._grid.open())
    turning.run(Mark(service._grid, Filler("iot-mqtt backup restore", ""), "1").begin())
    with pytest.raises(Unfinished, match="iot-mqtt backup restore"):
        turning.run(service.start())
    turning.run(service.stop())


def test_a_node_that_never_served_does_not_wait_to_drain(
    turning: Turning, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that was full at the first start: nobody was promised what cannot be written."""
    patient = replace(config, node=replace(config.node, drain_seconds=60.0))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        service = Service(lives.at_ports(patient, {"admin": taken.getsockname()[1]}), turning.reactor, never)
        with pytest.raises(CannotListenError):
            turning.run(service.start())
    forever: Deferred[None] = Deferred()
    monkeypatch.setattr(service._store, "settled", lambda: forever)
    turning.run(service.stop())


def test_a_stop_that_the_grid_holds_up_says_what_waits(
    turning: Turning, config: Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In words, and once, although it is waited for twice."""
    service = Service(replace(config, node=replace(config.node, drain_seconds=0.3)), turning.reactor, never)
    turning.run(service.start())
    monkeypatch.setattr(service._grid, "commit_soon", lambda batch, done: None)
    for number in range(3):
        service._store.save_received("client", [number])
    turning.run(service.stop())
    (line,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert line.startswith("the 0.3 s that a stop may take are over, and ")
    assert re.search(r"\b\d+ operations wait for the grid, which has not answered for 0 s", line)
    assert service._store.waiting >= 3


def test_what_keeps_the_grid_from_the_last_commit_is_told_in_its_words(
    turning: Turning, config: Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And no repr of it."""
    service = Service(config, turning.reactor, never)
    turning.run(service.start())

    async def refused() -> None:
        raise Unavailable("the grid is full")

    monkeypatch.setattr(service._store, "settled", refused)
    turning.run(service.stop())
    told = {one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR}
    assert told == {"stopping with something that was not written: the grid is full"}


def test_a_stop_begins_with_a_line(
    turning: Turning, config: Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By what signal, and how long it may take."""
    monkeypatch.setattr(turning.reactor, "stop", lambda: None)
    node = Lives(patient(config), turning.reactor, lambda failure: failure.raiseException())
    node.begin()
    service = node._service
    assert service is not None
    turning.until(lambda: hasattr(service, "view") and service.view.ready)
    with caplog.at_level(logging.INFO, "iot_mqtt.app.node.lives"):
        node.signalled(signal.SIGTERM)
    stopped(turning, node)
    assert [one.getMessage() for one in caplog.records] == ["SIGTERM: the node stops, within 60 s"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "/data/admin.token"),
            "/data/admin.token: No space left on device",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "/proc/token"),
            "/proc/token: No space left on device; 0 bytes are free",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "[Errno 28] No space left on device"),
        (Unavailable("the grid is away"), "the grid is away"),
    ],
)
def test_why_a_node_did_not_start_is_said_for_people(error: Exception, said: str) -> None:
    """The file first, and no repr of it."""
    assert lives.reason(Failure(error)) == said


class Waiting(Service):
    """A life that waits for the cluster until it is stopped."""

    async def start(self, before_listening: Callable[[], Awaitable[None]] | None = None) -> str:
        self.waited: Deferred[str] = Deferred()
        return await self.waited

    async def stop(self) -> None:
        self.waited.errback(Unavailable("the registry was closed"))


def test_who_is_stopped_while_it_starts_has_not_failed(
    turning: Turning, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it waited for is given up then."""
    monkeypatch.setattr(lives, "Service", Waiting)
    failed: list[Failure] = []
    node = Lives(config, turning.reactor, failed.append)
    node.begin()
    stopping = node.stop()
    assert stopping is not None and stopping.called
    assert failed == []


def test_ports_are_released_once(turning: Turning, config: Config) -> None:
    """Again is nothing, and so is before anything was opened."""
    service = Service(config, turning.reactor, never)
    turning.run(service.release_ports())
    turning.run(service.start())
    ports = service.ports
    assert len(ports) == 3 and all(accepts(port) for port in ports.values())
    for _ in range(2):
        turning.run(service.release_ports())
        assert service.ports == {}
    assert not any(accepts(port) for port in ports.values())
    turning.run(service.stop())
    assert turning.left == []


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_the_next_life_is_at_the_same_ports_however_often_it_fails(
    turning: Turning, config: Config, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """Each attempt opens the ports of the one before; none of them may keep them."""
    Often.failures, Often.made = failures, []
    monkeypatch.setattr(lives, "Service", Often)
    monkeypatch.setattr(lives, "AGAIN_SECONDS", 0.01)
    failed: list[Failure] = []
    node = Lives(config, turning.reactor, failed.append)
    node.begin()
    turning.until(lambda: Often.made[0].view.ready)
    ports = Often.made[0].ports

    Often.made[0].paused()
    turning.until(lambda: bool(failed) or (len(Often.made) == failures + 2 and Often.made[-1].view.ready))
    assert not failed
    assert Often.made[-1].ports == ports
    assert all(service.ports == {} for service in Often.made[:-1])
    assert all(accepts(port) for port in ports.values())

    # The life that is there now may end in the same way.
    Often.made[-1].paused()
    turning.until(lambda: bool(failed) or (len(Often.made) == failures + 3 and Often.made[-1].view.ready))
    assert Often.made[-1].ports == ports

    stopping = node.stop()
    assert stopping is not None
    stopped: list[object] = []
    stopping.addBoth(stopped.append)
    turning.until(lambda: bool(stopped))
    assert stopped == [None]
    assert not failed
    assert turning.left == []


class Held(Often):
    """A life whose start, but for the first one's, waits at the grid until the test lets it go on."""

    held: ClassVar[list[Deferred[None]]]

    async def _open_grid(self) -> int:
        number = await super()._open_grid()
        if len(self.made) > 1:
            waiting: Deferred[None] = Deferred()
            self.held.append(waiting)
            await waiting
        return number


def patient(config: Config) -> Config:
    """Of a node that takes a minute to drain."""
    return replace(config, node=replace(config.node, drain_seconds=60.0))


def begun(turning: Turning, config: Config, monkeypatch: pytest.MonkeyPatch, failures: int = 0) -> Lives:
    """A node whose first life serves, and has something that cannot be committed any more once that is over."""
    Often.failures, Often.made, Held.held = failures, [], []
    monkeypatch.setattr(lives, "Service", Held)
    node = Lives(patient(config), turning.reactor, lambda failure: failure.raiseException())
    node.begin()
    turning.until(lambda: Often.made[0].view.ready)
    forever: Deferred[None] = Deferred()
    monkeypatch.setattr(Often.made[0]._store, "settled", lambda: forever)
    return node


def stopped(turning: Turning, node: Lives) -> None:
    """Told to stop, as SIGTERM does; it has to be over long before it would have drained."""
    done: list[object] = []
    stopping = node.stop()
    assert stopping is not None
    stopping.addBoth(done.append)
    turning.until(lambda: bool(done))
    assert done == [None]


def test_a_node_that_is_stopped_while_its_life_is_abandoned_does_not_drain(
    turning: Turning, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster does not let go of it: whoever is not part of it has promised nothing."""
    node = begun(turning, config, monkeypatch)
    ports = Often.made[0].ports
    abandon = Often.made[0].abandon

    async def never_done() -> None:
        await abandon()
        await Deferred()

    monkeypatch.setattr(Often.made[0], "abandon", never_done)
    Often.made[0].paused()
    stopped(turning, node)
    assert len(Often.made) == 1
    assert not any(accepts(port) for port in ports.values())
    assert turning.left == []


def test_a_life_that_begins_when_the_node_is_stopped_never_serves(
    turning: Turning, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped in order, and the ports of the one before are closed."""
    node = begun(turning, config, monkeypatch)
    ports = Often.made[0].ports
    Often.made[0].paused()
    turning.until(lambda: bool(Held.held))
    beginning = Often.made[1]
    closed: list[None] = []
    close = beginning._grid.close

    async def seen() -> None:
        closed.append(None)
        await close()

    monkeypatch.setattr(beginning._grid, "close", seen)
    done: list[object] = []
    stopping = node.stop()
    assert stopping is not None
    stopping.addBoth(done.append)
    Held.held[0].callback(None)  # what it waited for comes after all
    turning.until(lambda: bool(done))
    assert closed == [None]
    assert beginning.ports == {} and not (hasattr(beginning, "view") and beginning.view.ready)
    assert not any(accepts(port) for port in ports.values())
    assert turning.left == []


def test_a_node_that_is_stopped_between_two_attempts_begins_no_other(
    turning: Turning, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the next one then."""
    monkeypatch.setattr(lives, "AGAIN_SECONDS", 0.2)
    node = begun(turning, config, monkeypatch, failures=3)
    Often.made[0].paused()
    turning.until(lambda: bool(Held.held))
    Held.held[0].errback(Unavailable("the cluster does not let it in"))
    turning.until(lambda: bool(turning.reactor.getDelayedCalls()))
    stopped(turning, node)
    turning.until(lambda: turning.left == [])
    assert len(Often.made) == 2


def test_a_first_life_that_is_stopped_while_it_begins_never_serves(
    turning: Turning, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it waited for comes after all."""
    Often.failures, Often.made, Held.held = 0, [Service.__new__(Often)], []
    monkeypatch.setattr(lives, "Service", Held)
    node = Lives(config, turning.reactor, lambda failure: failure.raiseException())
    node.begin()
    turning.until(lambda: bool(Held.held))
    done: list[object] = []
    stopping = node.stop()
    assert stopping is not None
    stopping.addBoth(done.append)
    Held.held[0].callback(None)
    turning.until(lambda: bool(done))
    assert Often.made[1].ports == {}
    assert turning.left == []


def test_nothing_of_an_abandoned_life_goes_on(turning: Turning, config: Config) -> None:
    """Whoever tries something again and again: it would never work, and all that it refers to would stay."""
    threads = turning.reactor.getThreadPool()
    threads.start()
    service = Service(config, turning.reactor, never)
    turning.run(service.start())
    for clock in (service.broker.clock, service._store._clock):
        trying(clock)
    turning.run(service.abandon())
    turning.run(service.release_ports())
    assert turning.left == []
    there = weakref.ref(service)
    del service, clock
    # The start had it set apart, as the next life's start would have it back.
    gc.unfreeze()
    # What was begun in a thread ends there.
    turning.until(lambda: gc.collect() >= 0 and there() is None)
    threads.stop()


def trying(clock: Clock) -> None:
    """Again and again, as everybody does who waits for the grid."""
    clock.call_later(0.01, partial(trying, clock))
