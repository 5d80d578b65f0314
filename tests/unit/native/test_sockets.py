"""What every turn asks of the system: the compiled form and its twin do the same on real sockets."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FORMS = [name for name in ("_pure_sockets", "_sockets") if find_spec(f"iot_mqtt.native.{name}") is not None]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> ModuleType:
    """One of both."""
    return import_module(f"iot_mqtt.native.{request.param}")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends that do not wait."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        yield ours, theirs


Pair = tuple[socket.socket, socket.socket]


@pytest.mark.parametrize("room", [10, 65_536, 65_537, 500_000])
def test_what_is_there_is_received(form: ModuleType, pair: Pair, room: int) -> None:
    """As much as there is room for, however much that is; then nothing."""
    ours, theirs = pair
    theirs.sendall(b"0123456789abc")
    first = form.receive(ours.fileno(), room)
    assert first == b"0123456789abc"[:room]
    if room == 10:
        assert form.receive(ours.fileno(), room) == b"abc"
    assert form.receive(ours.fileno(), room) is None


@pytest.mark.parametrize("room", [10, 500_000])
def test_an_end_is_empty_and_a_closed_socket_an_error(form: ModuleType, pair: Pair, room: int) -> None:
    """Two different things."""
    ours, theirs = pair
    theirs.close()
    assert form.receive(ours.fileno(), room) == b""
    number = ours.fileno()
    ours.close()
    with pytest.raises(OSError, match="descriptor"):
        form.receive(number, room)


@pytest.mark.parametrize("size", [5, 100_000])
def test_what_the_kernel_takes_is_counted(form: ModuleType, pair: Pair, size: int) -> None:
    """All, a part, or nothing; a view is as good as bytes."""
    ours, theirs = pair
    data = b"x" * size
    assert form.send(ours.fileno(), data) == size
    assert len(theirs.recv(size, socket.MSG_WAITALL)) == size
    assert form.send(ours.fileno(), memoryview(data)[2:]) == size - 2
    taken = [form.send(ours.fileno(), b"y" * 300_000) for _ in range(20)]
    assert 0 in taken
    assert any(0 < one < 300_000 for one in taken)


def test_a_broken_connection_takes_nothing(form: ModuleType, pair: Pair) -> None:
    """Whether the peer or we have closed it; no signal either."""
    ours, theirs = pair
    theirs.close()
    assert form.send(ours.fileno(), b"x") == -1
    number = ours.fileno()
    ours.close()
    assert form.send(number, b"x") == -1


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_who_comes_is_accepted(form: ModuleType, family: socket.AddressFamily, host: str) -> None:
    """One after the other, with the address as Python has it, and without ever waiting; then nobody."""
    with socket.socket(family) as listening:
        try:
            listening.bind((host, 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        listening.listen()
        listening.setblocking(False)
        assert form.accept(listening.fileno()) is None
        clients = [socket.create_connection(listening.getsockname()[:2]) for _ in range(2)]
        for client in clients:
            descriptor, address = form.accept(listening.fileno())
            assert address == client.getsockname()
            assert not os.get_blocking(descriptor)
            assert not os.get_inheritable(descriptor)
            assert form.receive(descriptor, 10) is None
            client.sendall(b"x")
            assert form.receive(descriptor, 10) == b"x"
            os.close(descriptor)
            client.close()
        number = listening.fileno()
        assert form.accept(number) is None
    with pytest.raises(OSError, match="descriptor"):
        form.accept(number)


def test_a_socket_that_listens_to_files_has_no_addresses(form: ModuleType, tmp_path: Path) -> None:
    """Only that somebody is there is said."""
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        client.connect(listening.getsockname())
        descriptor, address = form.accept(listening.fileno())
        os.close(descriptor)
        assert not any(address)


def test_an_end_may_be_sent_and_the_other_still_sends(form: ModuleType, pair: Pair) -> None:
    """FIN, and no more."""
    ours, theirs = pair
    form.send_end(ours.fileno())
    assert theirs.recv(1) == b""
    theirs.sendall(b"x")
    assert form.receive(ours.fileno(), 1) == b"x"
    number = ours.fileno()
    ours.close()
    with pytest.raises(OSError, match="descriptor"):
        form.send_end(number)


class Reader:
    """What is watched."""

    def __init__(self, log: list[Any], answer: object = None) -> None:
        self._log = log
        self._answer = answer

    def doRead(self) -> object:
        self._log.append(("read", self))
        if isinstance(self._answer, ZeroDivisionError):
            raise self._answer
        return self._answer() if callable(self._answer) else self._answer


class Watched:
    """Turns whose events are taken down."""

    def __init__(self, form: ModuleType) -> None:
        self.log: list[Any] = []
        self.selectables: dict[int, Reader] = {}
        self.reads: set[int] = set()
        self.poller = select.epoll()
        self.at_end: list[Any] = []
        self.turns = form.Turns(
            self.poller,
            self.selectables,
            self.reads,
            self.at_end,
            lambda one, why: self.log.append(("over", one, why)),
            lambda one, error: self.log.append(("raised", one, error)),
            lambda one, number, event: self.log.append(("other", one, number, event)),
            lambda error: self.log.append(("failed", error)),
        )

    def watch(self, end: socket.socket, answer: object = None, events: int = select.EPOLLIN) -> Reader:
        reader = self.selectables[end.fileno()] = Reader(self.log, answer)
        self.poller.register(end.fileno(), events)
        return reader


@pytest.fixture
def watched(form: ModuleType) -> Iterator[Watched]:
    """See its class."""
    made = Watched(form)
    yield made
    made.poller.close()


def test_a_new_socket_is_watched(watched: Watched, pair: Pair) -> None:
    """It is known, and read; not twice, and not where there is none."""
    ours, theirs = pair
    reader = Reader(watched.log)
    watched.turns.watch(ours.fileno(), reader)
    assert watched.reads == {ours.fileno()}
    assert watched.selectables == {ours.fileno(): reader}
    theirs.sendall(b"x")
    watched.turns.turn(5)
    assert watched.log == [("read", reader)]
    with pytest.raises(FileExistsError):
        watched.turns.watch(ours.fileno(), reader)
    with pytest.raises(OSError, match="descriptor"):
        watched.turns.watch(10_000, reader)
    assert watched.reads == {ours.fileno()}


def test_who_can_be_read_is(watched: Watched, pair: Pair) -> None:
    """Once for each turn; and nothing happens where nothing is."""
    ours, theirs = pair
    reader = watched.watch(ours)
    watched.turns.turn(0)
    assert watched.log == []
    theirs.sendall(b"x")
    watched.turns.turn(5)
    watched.turns.turn(-1)
    assert watched.log == [("read", reader)] * 2
    assert watched.turns.ready == 1


def test_what_a_read_says_is_told(watched: Watched, pair: Pair) -> None:
    """That it is over; what it raised."""
    ours, theirs = pair
    over, error = OSError("over"), ZeroDivisionError()
    one, other = watched.watch(ours, over), watched.watch(theirs, error)
    ours.sendall(b"x")
    theirs.sendall(b"x")
    watched.turns.turn(0)
    assert watched.turns.ready == 2
    assert ("over", one, over) in watched.log
    assert ("raised", other, error) in watched.log
    assert len(watched.log) == 4


def test_everything_else_is_for_others(watched: Watched, pair: Pair) -> None:
    """Who can be written to, or has lost its peer."""
    ours, theirs = pair
    reader = watched.watch(ours, events=select.EPOLLIN | select.EPOLLOUT)
    watched.turns.turn(0)
    theirs.close()
    watched.turns.turn(0)
    first, second = watched.log
    assert first == ("other", reader, ours.fileno(), select.EPOLLOUT)
    assert second[:3] == ("other", reader, ours.fileno())
    assert second[3] & select.EPOLLHUP


def test_who_is_gone_is_not_asked(watched: Watched, pair: Pair) -> None:
    """One event may take away who has another one in the same turn."""
    ours, theirs = pair
    watched.watch(ours, watched.selectables.clear)
    watched.watch(theirs, watched.selectables.clear)
    ours.sendall(b"x")
    theirs.sendall(b"x")
    watched.turns.turn(0)
    assert watched.turns.ready == 2
    assert len(watched.log) == 1


def test_calls_are_made_behind_the_reads_of_a_turn(watched: Watched, pair: Pair) -> None:
    """Once; one that fails stops no other; what they ask for comes next, and before anybody waits."""
    ours, theirs = pair
    error = ZeroDivisionError()

    def fails() -> None:
        raise error

    def asks() -> None:
        watched.log.append("asks")
        watched.at_end.append(lambda: watched.log.append("asked"))

    reader = watched.watch(ours, lambda: watched.at_end.extend([fails, asks]))
    theirs.sendall(b"x")
    watched.turns.turn(5)
    assert watched.log == [("read", reader), ("failed", error), "asks"]
    watched.log.clear()
    ours.recv(1)
    watched.turns.turn(5)
    watched.turns.turn(0)
    assert watched.log == ["asked"]


def test_turns_go_on_until_something_is_due_or_they_are_interrupted(watched: Watched, pair: Pair) -> None:
    """By a clock that nobody sets, or by whoever has something else to do."""
    ours, theirs = pair
    began = time.monotonic()
    watched.turns.run(began + 0.1)
    assert 0.1 <= time.monotonic() - began < 3
    watched.turns.run(began)
    reads: list[int] = []

    def third() -> None:
        reads.append(watched.turns.ready)
        watched.turns.interrupted = len(reads) == 3

    watched.watch(ours, third)
    theirs.sendall(b"x")
    watched.turns.run(began + 60)
    watched.turns.run(began + 60)
    assert reads == [1, 1, 1]
    assert watched.turns.interrupted


def test_a_wait_may_be_longer_than_milliseconds_can_say(watched: Watched, pair: Pair) -> None:
    """There is something to read at once."""
    ours, theirs = pair
    reader = watched.watch(ours)
    theirs.sendall(b"x")
    watched.turns.turn(1e12)
    assert watched.log == [("read", reader)]


def test_a_poller_that_is_closed_is_an_error(watched: Watched) -> None:
    """And no endless loop."""
    watched.poller.close()
    with pytest.raises((OSError, ValueError)):
        watched.turns.turn(0)
