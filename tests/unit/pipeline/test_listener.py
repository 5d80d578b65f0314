"""Real sockets on loopback: accepting, limits, half-close, readers that do not read, and one port for all."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import iot_mqtt
from iot_mqtt.native import accept
from iot_mqtt.pipeline import (
    Batch,
    CloseReason,
    Context,
    Layout,
    ListenerSettings,
    OutboxSettings,
    Stage,
    WebSocketSettings,
    ports,
)
from iot_mqtt.pipeline.ports import SAY_SECONDS, CalmPort
from iot_mqtt.pipeline.reasons import SHUTTING_DOWN

if TYPE_CHECKING:
    from .conftest import Server

FAREWELL = CloseReason("farewell")


class Echo(Stage):
    """Sends back what it reads; notes how its connections ended."""

    ended: list[CloseReason | None] = []
    peers: list[str] = []

    def active(self, ctx: Context) -> None:
        type(self).peers.append(ctx.channel.peer)

    def read(self, ctx: Context, batch: Batch) -> None:
        ctx.write(batch)

    def read_complete(self, ctx: Context) -> None:
        ctx.flush()

    def inactive(self, ctx: Context, reason: CloseReason | None) -> None:
        type(self).ended.append(reason)


@pytest.fixture
def echo() -> Layout:
    """A layout of one echo stage, with fresh notes."""
    Echo.ended, Echo.peers = [], []
    return Layout([("echo", Echo)])


def connect(port: int) -> socket.socket:
    """A client that does not wait for ever."""
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def read_all(client: socket.socket) -> bytes:
    """Everything until the server closes."""
    pieces = []
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def until(condition: object, seconds: float = 5.0) -> None:
    """Wait in a client's thread."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def test_bytes_come_back(server: Server, echo: Layout) -> None:
    """Small and large, and the counters agree."""
    listening = server.listen(echo)
    data = bytes(range(256)) * 8192

    def client() -> tuple[str, bytes]:
        with connect(listening.port) as sock:
            sock.sendall(b"hello")
            assert sock.recv(100) == b"hello"
            (channel,) = listening
            sock.sendall(data)
            received = b""
            while len(received) < len(data):
                received += sock.recv(1 << 20)
            # The reactor's thread counts what it has sent behind the sending: the last bytes may be here before that.
            give_up = time.monotonic() + 5
            while channel.bytes_sent < 5 + len(data) and time.monotonic() < give_up:
                time.sleep(0.001)
            assert channel.bytes_received == channel.bytes_sent == 5 + len(data)
            host, number = sock.getsockname()
            return f"{host}:{number}", received

    mine, received = server.run(client)
    assert received == data
    assert Echo.peers == [mine]


def test_packets_are_sent_at_once(server: Server, echo: Layout) -> None:
    """TCP_NODELAY is inherited from the port."""
    listening = server.listen(echo)

    def client() -> int:
        with connect(listening.port) as sock:
            sock.sendall(b"x")
            sock.recv(1)
            (channel,) = listening
            link: object = channel.outbox.link
            with socket.socket(fileno=os.dup(link.fileno())) as handle:  # type: ignore[attr-defined]
                return handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    assert server.run(client)


def test_the_end_of_a_connection_is_told_once_with_its_reason(server: Server, echo: Layout) -> None:
    """Closed in order, and reset."""
    listening = server.listen(echo)

    def client() -> None:
        connect(listening.port).close()
        until(lambda: len(Echo.ended) == 1)
        sock = connect(listening.port)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        until(lambda: len(Echo.ended) == 2)
        until(lambda: listening.counts.open == 0)

    server.run(client)
    assert [reason.name for reason in Echo.ended if reason] == ["peer_closed", "peer_reset"]
    assert len(listening) == 0


def test_connections_over_the_limit_are_closed_at_once_and_counted(server: Server, echo: Layout) -> None:
    """And there is room again when one of the others ends."""
    listening = server.listen(echo, ListenerSettings("small", port=0, max_connections=2))

    def client() -> None:
        first, second, third = (connect(listening.port) for _ in range(3))
        assert read_all(third) == b""
        first.close()
        until(lambda: listening.counts.open == 1)
        with connect(listening.port) as fourth:
            fourth.sendall(b"x")
            assert fourth.recv(1) == b"x"
        second.close()

    server.run(client)
    assert (listening.counts.accepted, listening.counts.refused) == (3, 1)


def test_the_last_packet_arrives_though_more_is_coming_in(server: Server) -> None:
    """Bytes that were not read do not turn the close into a reset that swallows our answer."""

    class Refuse(Stage):
        def read(self, ctx: Context, batch: Batch) -> None:
            ctx.write([b"too large"])
            ctx.close(FAREWELL)

    listening = server.listen(Layout([("refuse", Refuse)]))

    def client() -> bytes:
        with connect(listening.port) as sock:
            for _ in range(20):  # a client in the middle of its packet: a reset would break one of these
                sock.sendall(b"x" * 10_000)
                time.sleep(0.005)
            return read_all(sock)

    assert server.run(client) == b"too large"


def test_a_peer_that_ends_its_input_still_gets_its_answers(server: Server, echo: Layout) -> None:
    """As a script does that pipes into netcat."""
    listening = server.listen(echo, ListenerSettings("pipe", port=0, outbox=OutboxSettings(1 << 22, 1 << 20, 1 << 24)))
    data = b"x" * (1 << 22)

    def client() -> int:
        with connect(listening.port) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            time.sleep(0.05)
            return len(read_all(sock))

    assert server.run(client) == len(data)


def test_a_reader_that_never_reads_is_closed_and_its_memory_freed(server: Server) -> None:
    """Bounded outbox, named reason; and the others do not notice."""
    reasons: list[CloseReason | None] = []

    class Pour(Stage):
        def read(self, ctx: Context, batch: Batch) -> None:
            for _ in range(1000):
                ctx.write([b"x" * 65536])
                ctx.flush()

        def inactive(self, ctx: Context, reason: CloseReason | None) -> None:
            reasons.append(reason)

    limits = OutboxSettings(high_water=100_000, low_water=10_000, hard_limit=1_000_000)
    listening = server.listen(Layout([("pour", Pour)]), ListenerSettings("slow", port=0, outbox=limits))

    def client() -> None:
        with connect(listening.port) as sock:
            sock.sendall(b"go")
            until(lambda: bool(reasons))

    server.run(client)
    assert [reason.name for reason in reasons if reason] == ["outbox_limit"]


def test_a_close_that_the_peer_does_not_take_is_aborted_in_time(server: Server) -> None:
    """The linger time is the bound, also for a peer that keeps its side open."""

    class Pour(Stage):
        def read(self, ctx: Context, batch: Batch) -> None:
            ctx.write([b"x" * 8_000_000])
            ctx.close(FAREWELL)

    settings = ListenerSettings("linger", port=0, linger=0.2)
    stuck = server.listen(Layout([("pour", Pour)]), settings)

    class Bye(Stage):
        def read(self, ctx: Context, batch: Batch) -> None:
            ctx.close(FAREWELL)

    polite = server.listen(Layout([("bye", Bye)]), settings)

    def client() -> None:
        with connect(stuck.port) as first, connect(polite.port) as second:
            first.sendall(b"x")
            second.sendall(b"x")
            assert second.recv(1) == b""  # FIN comes at once …
            until(lambda: polite.counts.open == 0 and stuck.counts.open == 0)  # … and the socket is not kept

    server.run(client)


def test_reading_can_be_paused_and_resumed(server: Server) -> None:
    """What is not read waits in the kernel, and in the end at the peer."""
    paused: list[Context] = []
    read: list[bytes] = []

    class Pause(Stage):
        def read(self, ctx: Context, batch: Batch) -> None:
            read.extend(batch)
            if not paused:
                paused.append(ctx)
                ctx.set_reading(False)
                ctx.channel.wheel.schedule(0.1, lambda: ctx.set_reading(True))

    listening = server.listen(Layout([("pause", Pause)]))

    def client() -> None:
        with connect(listening.port) as sock:
            sock.sendall(b"1")
            until(lambda: bool(paused))
            sock.sendall(b"2")
            time.sleep(0.02)
            assert read == [b"1"]
            until(lambda: read == [b"1", b"2"])

    server.run(client)


def test_a_closed_port_refuses_and_its_connections_stay(server: Server, echo: Layout) -> None:
    """How a node drains."""
    listening = server.listen(echo)

    def client() -> None:
        with connect(listening.port) as sock:
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
            server.reactor.callFromThread(listening.stop)
            until(lambda: not hasattr(listening._port, "socket"))  # deleted once it is closed
            with pytest.raises(OSError, match="refused"):
                connect(listening.port)
            sock.sendall(b"y")
            assert sock.recv(1) == b"y"
            (channel,) = listening
            server.reactor.callFromThread(channel.close, SHUTTING_DOWN)
            assert read_all(sock) == b""

    server.run(client)
    assert [reason.name for reason in Echo.ended if reason] == ["shutting_down"]


def test_a_connection_that_cannot_be_set_up_does_not_cost_the_port(server: Server, echo: Layout) -> None:
    """The next one is served."""
    attempts: list[int] = []

    def make() -> Stage:
        attempts.append(1)
        if len(attempts) == 1:
            raise ZeroDivisionError
        return Echo()

    listening = server.listen(Layout([("sometimes", make)]))

    def client() -> None:
        # The reset may come before connect() has returned.
        with contextlib.suppress(ConnectionResetError), connect(listening.port) as sock:
            assert read_all(sock) == b""
        with connect(listening.port) as sock:
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"

    server.run(client)
    assert len(attempts) == 2


def test_running_out_of_descriptors_is_survived_calmly(
    server: Server, echo: Layout, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port rests instead of trying in every turn; the log says it once, and then it goes on."""
    listening = server.listen(echo)
    calls: list[int] = []

    def exhausted(descriptor: int) -> tuple[int, tuple[Any, ...]] | None:
        """There are no descriptors for a while."""
        calls.append(descriptor)
        if len(calls) <= 2:
            raise OSError(errno.EMFILE, "too many open files")
        return accept(descriptor)

    monkeypatch.setattr(ports, "accept", exhausted)

    def client() -> None:
        with connect(listening.port) as sock:
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"

    CalmPort._said = -SAY_SECONDS
    server.run(client)
    assert 3 <= len(calls) <= 5
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_two_listeners_may_share_a_port(server: Server, echo: Layout) -> None:
    """Several nodes behind one port of a machine."""
    first = server.listen(echo, ListenerSettings("one", port=0, reuse_port=True))
    second = server.listen(echo, ListenerSettings("two", port=first.port, reuse_port=True))
    assert first.port == second.port


def test_ipv6_listeners_say_so(server: Server, echo: Layout) -> None:
    """Host in brackets, peer too."""
    try:
        listening = server.listen(echo, ListenerSettings("six", host="::1", port=0))
    except Exception:
        pytest.skip("no IPv6 on this machine")

    def client() -> None:
        with socket.create_connection(("::1", listening.port), timeout=5) as sock:
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"

    server.run(client)
    assert Echo.peers[0].startswith("[::1]:")


def test_one_port_tells_mqtt_from_websocket(server: Server, echo: Layout) -> None:
    """By the first byte; anything else is closed."""
    listening = server.listen(echo, ListenerSettings("any", port=0, detect=True, websocket=WebSocketSettings()))
    handshake = (
        b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
    )

    def client() -> None:
        with connect(listening.port) as mqtt:
            mqtt.sendall(b"\x10hello")
            assert mqtt.recv(100) == b"\x10hello"
        with connect(listening.port) as web:
            web.sendall(handshake)
            assert web.recv(1000).startswith(b"HTTP/1.1 101")
            web.sendall(b"\x82\x81\0\0\0\0x")
            assert web.recv(100) == b"\x82\x01x"
        with connect(listening.port) as other:
            other.sendall(b"SSH-2.0")
            assert read_all(other) == b""
        until(lambda: len(Echo.ended) == 3)

    server.run(client)
    assert [reason.name for reason in Echo.ended if reason][-1] == "unknown_protocol"


def test_a_proxy_header_comes_before_everything_else(server: Server, echo: Layout) -> None:
    """Also before the WebSocket handshake that is detected."""
    listening = server.listen(
        echo, ListenerSettings("proxied", port=0, proxy_protocol=True, trusted_proxies=("127.0.0.1",), detect=True)
    )
    seen: list[str] = []

    def client() -> None:
        with connect(listening.port) as sock:
            sock.sendall(b"PROXY TCP4 198.51.100.7 203.0.113.5 51234 1883\r\n\x10hello")
            assert sock.recv(100) == b"\x10hello"
            (channel,) = listening
            seen.append(channel.peer)

    server.run(client)
    assert seen == ["198.51.100.7:51234"]


def test_nothing_but_the_outbox_writes_to_a_transport() -> None:
    """The one rule that keeps memory bounded: transports have no limit of their own."""
    package = Path(iot_mqtt.__file__).parent
    # The connection to the grid's gateway is no channel; it writes as a producer that pauses, from a bounded queue. So
    # does the bridge to codecs' workers; a worker itself writes as it is read from, and so do a gateway's own end and
    # the trial of a codec, which waits for each answer.
    bounded = {
        package / "pipeline" / "outbox.py",
        package / "grid" / "ignite" / "connection.py",
        package / "plugins" / "process" / "bridge.py",
        package / "plugins" / "process" / "child.py",
        package / "plugins" / "process" / "trial.py",
        package / "custom_protocols" / "gateway" / "client.py",
    }
    offenders = [
        f"{path.relative_to(package)}:{number}"
        for path in package.rglob("*.py")
        if path not in bounded
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"transport\.(write|writeSequence|writeSomeData)\b|\.(sendall|sendmsg)\(", line)
    ]
    assert [each for each in offenders if not each.startswith(("admin/", "app/"))] == []
