"""The reactor: short way for reads, ends of turns, and exceptions logged and survived as in Twisted."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from twisted.logger import globalLogPublisher

from iot_mqtt.codec import Connect, Publish, encode
from iot_mqtt.pipeline import Batch, Context, Layout, Stage, reactor
from iot_mqtt.pipeline.mqtt import MqttCodecStage
from iot_mqtt.pipeline.rows import Ends
from iot_mqtt.pipeline.transport import LARGE_READ, READ_SIZE, whole_packets
from iot_mqtt.values import ProtocolVersion

if TYPE_CHECKING:
    from .conftest import Server


def division_by_zero(event: Any) -> bool:
    """Whether that is what was logged."""
    failure = event.get("log_failure") or event.get("failure")
    return isinstance(getattr(failure, "value", None), ZeroDivisionError)


def test_a_call_at_the_end_of_a_turn_comes_after_all_reads_of_the_turn(server: Server) -> None:
    """And only once."""
    order: list[str] = []

    class Read(Stage):
        def read(self, ctx: Context, batch: Batch) -> None:
            order.append("read")
            if order.count("read") == 1:
                server.reactor.call_at_turn_end(lambda: order.append("end"))

    listening = server.listen(Layout([("read", Read)]))

    def client() -> None:
        pairs = [socket.create_connection(("127.0.0.1", listening.port), timeout=5) for _ in range(20)]
        while len(listening) < 20:
            pass
        held: list[int] = []

        def hold() -> None:  # while the reactor is in here, all of them become readable
            for pair in pairs:
                pair.sendall(b"x")
            held.append(1)

        server.reactor.callFromThread(hold)
        while order.count("read") < 20:
            pass
        for pair in pairs:
            pair.close()

    server.run(client)
    assert order.count("end") == 1
    assert order.index("end") == 20


def test_a_call_asked_for_outside_of_a_turn_comes_soon(server: Server) -> None:
    """From a timer, for instance; and a call that fails stops neither the others nor the reactor."""
    called: list[str] = []

    def asks() -> None:
        server.reactor.call_at_turn_end(lambda: 1 // 0)
        server.reactor.call_at_turn_end(lambda: called.append("end"))
        server.reactor.callLater(0.01, server.reactor.stop)

    logged: Any = []
    globalLogPublisher.addObserver(logged.append)
    try:
        server.reactor.callLater(0, asks)
        server.reactor.run(installSignalHandlers=False)
    finally:
        globalLogPublisher.removeObserver(logged.append)
    assert called == ["end"]
    assert any(division_by_zero(each) for each in logged)


def test_a_timer_that_is_asked_for_at_the_end_of_a_turn_is_not_slept_through(server: Server) -> None:
    """The reactor reckons how long to sleep before it ends a turn that a timer began."""
    called: list[float] = []

    def asks() -> None:
        server.reactor.call_at_turn_end(lambda: server.reactor.callLater(0, answers))

    def answers() -> None:
        called.append(server.reactor.seconds() - begin)
        server.reactor.stop()

    begin = server.reactor.seconds()
    server.reactor.callLater(0, asks)
    watchdog = server.reactor.callLater(5, server.reactor.stop)
    server.reactor.run(installSignalHandlers=False)
    if watchdog.active():
        watchdog.cancel()
    assert called
    assert called[0] < 2


class Failing(Ends):
    """A pipeline that does not even catch what it raises."""

    def fire_read(self, batch: list[bytes]) -> None:
        raise ZeroDivisionError

    def fire_inactive(self, reason: object) -> None: ...

    def dismantle(self) -> None: ...


def test_an_exception_in_doread_is_logged_and_ends_that_connection_only(server: Server) -> None:
    """As Twisted's own reactor does it."""
    listening = server.listen(Layout([("stage", Stage)]))
    logged: Any = []

    def client() -> None:
        with (
            socket.create_connection(("127.0.0.1", listening.port), timeout=5) as bad,
            socket.create_connection(("127.0.0.1", listening.port), timeout=5) as good,
        ):
            while len(listening) < 2:
                pass
            channel = next(each for each in listening if each.peer.endswith(f":{bad.getsockname()[1]}"))
            channel.pipeline = Failing()
            bad.sendall(b"x")
            with contextlib.suppress(ConnectionResetError):
                assert bad.recv(1) == b""
            good.sendall(b"x")
            while listening.counts.open != 1:
                pass

    globalLogPublisher.addObserver(logged.append)
    try:
        server.run(client)
    finally:
        globalLogPublisher.removeObserver(logged.append)
    assert any(division_by_zero(each) for each in logged)


def test_who_sends_much_is_read_in_fewer_turns(server: Server) -> None:
    """The first read is as small as any; the next ones are larger while there is that much."""
    reads: list[int] = []

    class Read(Stage):
        def read(self, ctx: Context, batch: Batch) -> None:
            reads.extend(map(len, batch))

    listening = server.listen(Layout([("read", Read)]))

    def client() -> None:
        with socket.create_connection(("127.0.0.1", listening.port), timeout=5) as pair:
            while max(reads, default=0) <= READ_SIZE and len(reads) < 10_000:
                pair.sendall(b"x" * LARGE_READ)

    server.run(client)
    assert reads[0] <= READ_SIZE < max(reads) <= LARGE_READ


@pytest.mark.parametrize(
    ("size", "missing", "room"),
    [
        (100_000, 30_000, 430_000),
        (100_000, 0, 500_000),
        (300_000, 100_000, 400_000),
        (600_000, 300_000, 300_000),
        (600_000, 0, LARGE_READ),
        (600_000, 10, LARGE_READ),
        (600_000, 550_000, LARGE_READ),
    ],
)
def test_a_read_ends_with_a_packet_unless_that_makes_it_small(size: int, missing: int, room: int) -> None:
    """Half as large, at least."""
    assert whole_packets(LARGE_READ, size, missing) == room


def test_large_packets_are_read_as_wholes(server: Server) -> None:
    """As soon as their size is known, and as long as it stays; then small ones are read as ever."""
    reads: list[int] = []
    codec = MqttCodecStage()

    class Read(Stage):
        def read(self, ctx: Context, batch: Batch) -> None:
            reads.extend(map(len, batch))
            ctx.fire_read(batch)

    listening = server.listen(Layout([("read", Read), ("mqtt", lambda: codec)]))
    connect = encode(Connect(ProtocolVersion.V311, "c"), ProtocolVersion.V311)
    packet = encode(Publish(b"t", bytes(100_000)), ProtocolVersion.V311)
    small = encode(Publish(b"t", b"x"), ProtocolVersion.V311)
    whole = LARGE_READ // len(packet) * len(packet)

    def client() -> None:
        with socket.create_connection(("127.0.0.1", listening.port), timeout=5) as pair:
            pair.sendall(connect)
            while whole not in reads and len(reads) < 10_000:
                pair.sendall(packet * 20)
            (channel,) = listening
            assert channel.large == len(packet)
            pair.sendall(small * (LARGE_READ // len(small)) + small[:2])
            deadline = time.monotonic() + 5
            while channel.large and time.monotonic() < deadline:
                pair.sendall(small[2:] + small[:2])
                time.sleep(0.01)
            assert channel.large == 0

    server.run(client)
    assert whole in reads


def test_timers_do_not_look_at_the_wall_clock(server: Server) -> None:
    """Put back by an hour, it would hold everybody up for an hour; a real one is in ``test_disk_and_clock``."""
    before = time.monotonic()
    assert before <= server.reactor.seconds() <= time.monotonic()


def test_a_thread_that_hangs_is_waited_for_a_moment_only(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that does not answer keeps no node from stopping."""
    monkeypatch.setattr(reactor, "THREAD_SECONDS", 0.01)
    pool, go = server.reactor.getThreadPool(), threading.Event()
    pool.start()
    pool.callInThread(go.wait, 20)
    pool.stop()
    assert [thread.daemon for thread in pool.threads if thread.is_alive()] == [True]
    go.set()
