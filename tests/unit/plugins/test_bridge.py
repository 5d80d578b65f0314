"""What is left in the broker of a worker process that is gone: nothing, without help of Python's collector."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from twisted.internet.error import ProcessDone, ProcessExitedAlready
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from iot_mqtt.plugins.process import bridge
from iot_mqtt.plugins.process.bridge import WorkerProcess
from iot_mqtt.plugins.process.launch import make_mark


class _FakeTransport:
    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol

    def loseConnection(self) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connectionLost()

    def abortConnection(self) -> None:
        self.loseConnection()


class _FakeProcess:
    def __init__(self, protocol: Any) -> None:
        self.pid: int | None = 4711
        self.signals: list[str] = []
        self._protocol = protocol

    def signalProcess(self, name: str) -> None:
        if self.pid is None:
            raise ProcessExitedAlready
        self.signals.append(name)

    def exit(self) -> None:
        self.pid = None
        protocol, self._protocol = self._protocol, None
        protocol.processExited(Failure(ProcessDone(0)))


class _FakeReactor(Clock):
    """Starts no process. ``without`` is called in vain."""

    def __init__(self, without: str = "") -> None:
        super().__init__()
        self.processes: list[_FakeProcess] = []
        #: What a worker does first, with what it was given.
        self.act: Callable[[Mapping[int, Any]], None] = lambda _: None
        self._without = without

    def spawnProcess(self, protocol: Any, *_: object, childFDs: Mapping[int, Any], **__: object) -> _FakeProcess:
        self._try("spawnProcess")
        self.act(childFDs)
        self.processes.append(_FakeProcess(protocol))
        return self.processes[-1]

    def adoptStreamConnection(self, _: int, __: int, factory: Any) -> None:
        self._try("adoptStreamConnection")
        protocol = factory.buildProtocol(None)
        protocol.makeConnection(_FakeTransport(protocol))

    def _try(self, name: str) -> None:
        if name == self._without:
            raise OSError(24, "Too many open files")


class _FakeUser:
    """``bridge.Told`` that asks at the end what the worker dealt with last."""

    def __init__(self) -> None:
        self.process: WorkerProcess
        self.ends: list[tuple[str, tuple[int, bool, int]]] = []

    def received(self, data: bytes) -> None: ...

    def line(self, text: str) -> None: ...

    def ended(self, how: str) -> None:
        self.ends.append((how, self.process.busy_with()))


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def _descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def _started(reactor: _FakeReactor) -> tuple[WorkerProcess, _FakeUser]:
    user = _FakeUser()
    user.process = WorkerProcess(reactor, {}, user)
    return user.process, user


def _exit(process: WorkerProcess, reactor: _FakeReactor) -> None:
    reactor.processes[0].exit()
    reactor.advance(1.0)


ENDS = pytest.mark.parametrize(
    "end",
    [
        pytest.param(_exit, id="exited"),
        pytest.param(lambda process, _: process.kill(), id="killed"),
        pytest.param(lambda process, _: process.finish(), id="finished"),
    ],
)


@ENDS
def test_the_descriptors_of_a_worker_are_closed_with_it(end: Callable[[WorkerProcess, _FakeReactor], None]) -> None:
    """A node that reloads a plugin every day does not run out of files."""
    before, reactor = _descriptors(), _FakeReactor()
    process, _ = _started(reactor)
    assert _descriptors() != before
    end(process, reactor)
    assert _descriptors() == before


@ENDS
def test_a_worker_that_is_gone_leaves_memory(end: Callable[[WorkerProcess, _FakeReactor], None]) -> None:
    """The collector of a node looks at old objects only when there are many more than before."""
    reactor = _FakeReactor()
    process, user = _started(reactor)
    gone = weakref.ref(process)
    end(process, reactor)
    if reactor.processes[0].pid is not None:
        reactor.processes[0].exit()
    reactor.advance(5.0)
    del process, user
    assert gone() is None


def test_who_hears_of_the_end_can_still_ask_what_the_worker_dealt_with() -> None:
    """The connection on whose frame it died is held off."""
    reactor = _FakeReactor()
    process, user = _started(reactor)
    _exit(process, reactor)
    assert user.ends == [("exit code 0", (0, False, 0))]


def test_a_worker_that_cuts_what_it_shares_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has memory mapped that another one cuts is killed when he reads it."""

    def unsealed() -> int:
        with tempfile.TemporaryFile() as file:
            file.write(bytes(100))
            file.flush()
            return os.dup(file.fileno())

    monkeypatch.setattr(bridge, "make_mark", unsealed)
    reactor = _FakeReactor()
    reactor.act = lambda given: os.ftruncate(given[4], 0)
    process, user = _started(reactor)
    assert process.busy_with() == (0, False, 0)
    _exit(process, reactor)
    assert user.ends == [("exit code 0", (0, False, 0))]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can seal memory")
@pytest.mark.parametrize("size", [0, 1 << 30])
def test_what_is_shared_stays_as_large_as_it_is(size: int) -> None:
    """Memory that a worker takes there is in none of its limits."""
    mark = make_mark()
    with pytest.raises(PermissionError):
        os.ftruncate(mark, size)
    os.close(mark)


@pytest.mark.parametrize("call", ["spawnProcess", "adoptStreamConnection"])
def test_a_worker_that_cannot_be_started_leaves_nothing(call: str) -> None:
    """It is tried again and again: a node that is short of descriptors would lose more of them each time."""
    before, reactor = _descriptors(), _FakeReactor(call)
    with pytest.raises(OSError, match="Too many"):
        _started(reactor)
    assert _descriptors() == before
    for process in reactor.processes:
        assert process.signals == ["KILL"]
        process.exit()
