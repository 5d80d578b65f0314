"""Reading off the reactor: servers that are gone, break off, answer nonsense, or say that they cannot."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite import Address, IgniteSettings
from iot_mqtt.grid.ignite import thread as thread_module
from iot_mqtt.grid.ignite.reader import Reader
from iot_mqtt.ports.grid import CacheName
from tests.contract.driving import Pump

CACHE = CacheName.QUEUE
SETTINGS = IgniteSettings(
    gateways=(),
    addresses=(Address("one", 1), Address("two", 2)),
    read_patience=0.4,
    retry_first=0.04,
    retry_last=0.05,
)


class Server:
    """What the threads meet at an address: each request takes the next thing from ``script``, or is answered well."""

    def __init__(self) -> None:
        self.script: list[object] = []
        self.down: set[str] = set()
        self.opened: list[str] = []
        self.requests = 0


class FakeConnection:
    """The part of pyignite's that is used."""

    def __init__(self, server: Server, host: str) -> None:
        self.server = server
        self.host = host
        self.answer = bytearray()

    def send(self, data: bytes, reconnect: bool) -> None:
        assert not reconnect
        self.server.requests += 1
        (id,) = struct.unpack_from("<q", data, 6)
        if self.host in self.server.down:
            raise ConnectionResetError("reset")
        step = self.server.script.pop(0) if self.server.script else None
        if isinstance(step, Exception):
            raise step
        body = struct.pack("<i", 1) + struct.pack("<bi", 12, 1) + b"k" + struct.pack("<bi", 12, 1) + b"v"
        flags = 0
        if isinstance(step, str):
            flags, body = 1, struct.pack("<ibi", 1000, 9, len(step)) + step.encode()
        elif isinstance(step, bytes):
            body = step
        self.answer = bytearray(struct.pack("<iqh", len(body) + 10, id, flags) + body)

    def recv(self, reconnect: bool) -> bytearray:
        return self.answer

    def close(self) -> None: ...


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()

    def open_(self: object, address: Address) -> FakeConnection:
        server.opened.append(address.host)
        if address.host in server.down:
            raise ConnectionRefusedError("refused")
        return FakeConnection(server, address.host)

    monkeypatch.setattr(thread_module.ThinThread, "_open", open_)
    return server


@pytest.fixture
def pump() -> Pump:
    return Pump()


@pytest.fixture
def reader(server: Server, pump: Pump) -> Iterator[Reader]:
    reader = Reader(SETTINGS, pump.cross)
    reader.start()
    pump.until(lambda: reader.connected)
    yield reader
    pump.run(reader.stop())


def test_what_waits_is_asked_at_once(server: Server, reader: Reader, pump: Pump) -> None:
    """Keys of one cache in one question, each answered to whoever asked."""
    before = server.requests
    asked = [pump.start(reader.get_many(CACHE, [b"k", b"absent"])) for _ in range(100)]
    pump.until(lambda: all(one.called for one in asked))
    assert all(one.result == [b"v", None] for one in asked)
    assert server.requests - before < 50


@pytest.mark.parametrize(
    "trouble",
    [
        ConnectionResetError("reset"),
        TimeoutError("slow"),
        OSError("broken"),
        EOFError(),
        b"",
        b"\x05\x00\x00\x00nonsense",
    ],
)
def test_a_broken_connection_is_not_noticed(server: Server, reader: Reader, pump: Pump, trouble: object) -> None:
    """The next server is asked."""
    server.script.append(trouble)
    assert pump.run(reader.get_many(CACHE, [b"k"])) == [b"v"]
    assert server.opened == ["one", "two"]
    assert reader.trouble is None


def test_nobody_there_is_unavailable(server: Server, reader: Reader, pump: Pump) -> None:
    """After some patience; never absent. And it is found when somebody is there again."""
    server.down.update(("one", "two"))
    for _ in range(2):
        with pytest.raises(Unavailable, match="cannot be re"):
            pump.run(reader.get_many(CACHE, [b"k"]))
    assert not reader.connected
    assert reader.trouble is not None and "refused" in reader.trouble
    server.down.clear()
    assert pump.run(reader.get_many(CACHE, [b"k"])) == [b"v"]


def test_a_server_that_cannot_is_asked_again(server: Server, reader: Reader, pump: Pump) -> None:
    """It may be finding the others just now. If it stays so, that is what is told."""
    server.script += ["not yet", "not yet"]
    assert pump.run(reader.get_many(CACHE, [b"k"])) == [b"v"]
    assert reader.connected
    server.script += ["partitions are lost"] * 100
    with pytest.raises(Unavailable, match="partitions are lost"):
        pump.run(reader.get_many(CACHE, [b"k"]))
    assert reader.connected


def test_a_bug_is_told_and_hinders_nobody(server: Server, reader: Reader, pump: Pump) -> None:
    """Nobody waits for ever."""
    server.script.append(ValueError("a bug below"))
    with pytest.raises(Unavailable, match="a bug below"):
        pump.run(reader.get_many(CACHE, [b"k"]))
    assert pump.run(reader.get_many(CACHE, [b"k"])) == [b"v"]


def test_closing_does_not_wait_for_a_dead_server(server: Server, pump: Pump) -> None:
    """Whoever waits is told; nothing is read afterwards."""
    server.down.update(("one", "two"))
    reader = Reader(SETTINGS, pump.cross)
    reader.start()
    asked = pump.start(reader.get_many(CACHE, [b"k"]))
    asked.addErrback(lambda failure: failure.check(Unavailable))
    pump.run(reader.stop())
    assert asked.result is Unavailable
    with pytest.raises(Unavailable, match="not open"):
        pump.run(reader.get_many(CACHE, [b"k"]))


def _refusing(listener: socket.socket, seen: list[bytes], enough: int) -> None:
    """A server that takes no clients now: it refuses, and says that the version is the right one."""
    why = b"Thin client connection is not allowed"
    body = struct.pack("<bhhhbi", 0, 1, 7, 0, 9, len(why)) + why + struct.pack("<i", 1)
    while len(seen) < enough:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            seen.append(connection.recv(1000))
            connection.sendall(struct.pack("<i", len(body)) + body)


def test_a_server_that_refuses_is_not_asked_without_end(pump: Pump) -> None:
    """pyignite asks it again at once, hundreds of times a second, and never anybody else."""
    seen: list[bytes] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        serving = threading.Thread(target=_refusing, args=(listener, seen, 200), daemon=True)
        serving.start()
        address = Address("127.0.0.1", listener.getsockname()[1])
        reader = Reader(IgniteSettings(gateways=(), addresses=(address,), read_patience=0.4), pump.cross)
        reader.start()
        with pytest.raises(Unavailable, match="not allowed"):
            pump.run(reader.get_many(CACHE, [b"k"]))
        pump.run(reader.stop())
        listener.shutdown(socket.SHUT_RDWR)
        serving.join()
    assert 2 <= len(seen) < 20
