"""Connections that nobody knows yet: however many, slow or large they are, everybody else is served."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from systemkit import wire
from systemkit.certificates import Authority
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess, ServerTls
from systemkit.starting import brokers
from systemkit.waiting import wait_until

from tests.abuse import plans

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="these bounds are ours")

#: As ``ulimit -n``.
DESCRIPTORS = 256
REQUEST_TIMEOUT = 1.5
CONNECT_TIMEOUT = 1.5
MIB = 1 << 20


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with few descriptors and short times."""
    settings = {
        "admin.request_timeout": REQUEST_TIMEOUT,
        "admin.idle_timeout": REQUEST_TIMEOUT,
        "mqtt.connect_timeout": 30,
    }
    with brokers(tmp_path_factory.mktemp("small")) as start:
        yield start(settings=settings, descriptors=DESCRIPTORS)


def _round_trip(broker: BrokerProcess) -> float:
    """A message there and back by mosquitto's own programs; the seconds that it took."""
    began = time.monotonic()
    where = ["-h", "127.0.0.1", "-p", str(broker.ports["mqtt"]), "-t", "caps/echo", "-q", "1"]
    done = subprocess.run(
        ["mosquitto_rr", *where, "-e", "caps/echo", "-m", "there", "-W", "30"],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, f"MQTT is not served: {done.returncode} {done.stdout} {done.stderr}"
    assert done.stdout.strip() == "there"
    return time.monotonic() - began


@contextlib.contextmanager
def _sockets(port: int, count: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many connections, as far as they are let in, each of which has sent something."""
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError):
                sock = socket.create_connection(("127.0.0.1", port), 2)
                opened.append(sock)
                if first:
                    sock.sendall(first)
        yield opened
    finally:
        for sock in opened:
            sock.close()


def _closed(sock: socket.socket, within: float) -> bool:
    """Whether the broker closes a connection in time; whatever it says before is skipped."""
    deadline = time.monotonic() + within
    try:
        while (left := deadline - time.monotonic()) > 0:
            sock.settimeout(left)
            if not sock.recv(65536):
                return True
    except TimeoutError:
        return False
    except OSError:
        return True
    return False


def test_a_full_admin_port_leaves_mqtt_alone(small: BrokerProcess) -> None:
    """More connections to the admin port than the process has descriptors: MQTT and ``ctl`` work all the time."""
    with _sockets(small.ports["admin"], DESCRIPTORS + 50, b"GET /health HTTP/1.1\r\n"):
        assert _round_trip(small) < 5
        health = json.loads(small.http("/health"))
        # That connections were refused for want of descriptors is told for a minute.
        assert all("LimitNOFILE" in alarm for alarm in health.get("alarms", ())), health
        assert small.descriptors() < DESCRIPTORS * 3 // 4
    small.assert_no_traceback()


def test_a_full_mqtt_port_leaves_the_admin_port_and_the_other_listeners_alone(small: BrokerProcess) -> None:
    """More connections to the MQTT port than there are descriptors: admin, WebSocket and gateways are let in."""
    before = small.cpu_seconds()
    with _sockets(small.ports["mqtt"], DESCRIPTORS + 50):
        assert small.metrics() is not None
        for name in ("ws", "gateway"):
            with _sockets(small.ports[name], 1) as (sock,):
                assert not _closed(sock, 0.2), f"{name} lets nobody in"
        time.sleep(0.5)
        samples = small.metrics() or {}
        assert samples['iot_mqtt_listener_refused_total{listener="mqtt"}'] > 0
    # Calm: a loop over a port that nobody can accept from would take a core.
    assert small.cpu_seconds() - before < 3
    wait_until(lambda: small.descriptors() < DESCRIPTORS // 2)
    _round_trip(small)
    small.assert_no_traceback()
    assert small.log_text().count("\n") < 50, "the log is flooded"


def test_a_request_has_to_come_in_time(small: BrokerProcess) -> None:
    """A header or a body at a byte now and then, and a connection kept alive for nothing, are closed."""
    token = (small.data_dir / "admin.token").read_text().strip()
    body = f"POST /api/v1/publish HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 500\r\n\r\n"
    began = time.monotonic()
    with (
        _sockets(small.ports["admin"], 1, b"GET /health HTTP/1.1\r\nX: ") as header,
        _sockets(small.ports["admin"], 1, body.encode()) as content,
        _sockets(small.ports["admin"], 1, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n") as idle,
        _sockets(small.ports["admin"], 1) as silent,
    ):
        slow = header + content
        while time.monotonic() - began < REQUEST_TIMEOUT + 0.5:
            for sock in slow:
                with contextlib.suppress(OSError):
                    sock.sendall(b"a")
            time.sleep(0.1)
        names = ("header", "body", "idle", "silent")
        ends = [_closed(sock, 1) for sock in (*slow, *idle, *silent)]
        assert all(ends), f"still open: {[name for name, end in zip(names, ends, strict=True) if not end]}"


def test_who_has_no_token_sends_no_bodies(small: BrokerProcess) -> None:
    """What a stranger sends to the API is thrown away, however much of it there is."""
    head = b"POST /api/v1/publish HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n"
    before = small.rss()
    with _sockets(small.ports["admin"], 24, head) as opened:
        for sock in opened:
            with contextlib.suppress(OSError):
                sock.sendall(b"x" * 1_900_000)
        time.sleep(0.3)
        assert small.rss() - before < 12 * MIB
        health = json.loads(small.http("/health"))
        # That connections were refused for want of descriptors is told for a minute.
        assert all("LimitNOFILE" in alarm for alarm in health.get("alarms", ())), health


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[BrokerProcess]:
    """A broker with all the descriptors there are, TLS, and a log to replay."""
    cert, key = authority.server()
    settings = {
        "mqtt.connect_timeout": CONNECT_TIMEOUT,
        "admin.request_timeout": CONNECT_TIMEOUT,
        "log.record": "['feed/#']",
    }
    with brokers(tmp_path_factory.mktemp("caps")) as start:
        yield start(settings=settings, tls=ServerTls(cert, key))


#: Resident bytes of a broker before the first attack: what one has left behind must not hide the next.
_calm: dict[int, int] = {}


class _Watched:
    """Watches how much memory a broker takes, beyond what it took before all attacks."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.worst = 0
        self._broker = broker
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> _Watched:
        self._before = _calm.setdefault(self._broker.pid, self._broker.rss())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.worst = max(self.worst, self._broker.rss() - self._before)


#: The beginning of a CONNECT whose client id never ends, as large as packets may be.
_HALF = b"\x10" + wire.variable(1_000_000) + b"\x00\x04MQTT\x05\x02\x00\x00\x00" + b"\xff\xff" + b"c" * 990_000
_UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)


#: Most of a ClientHello of 128 kB, in seven records.
_HELLO = (b"\x16\x03\x01\x40\x00\x01\x01\xff\xff\x03\x03" + bytes(16_378)) + 6 * (
    b"\x16\x03\x01\x40\x00" + bytes(16_384)
)


def _ws_frame(payload: bytes) -> bytes:
    return b"\x82\xff" + len(payload).to_bytes(8, "big") + bytes(4) + payload


@pytest.mark.parametrize(
    ("listener", "first"),
    [
        ("gateway", b"\x68" + bytes(6) + b"\x01" + b"\xff\xff" + bytes(60_000)),
        ("mqtt", b"\x10" + wire.variable(60_000) + b"\x00\x04MQTT" + b"c" * 59_000),
        ("ws", _UPGRADE + _ws_frame(_HALF)),
        ("mqtt", _HALF),
        ("mqtts", _HELLO),
    ],
    ids=["gateway", "60 kB", "WebSocket", "1 MB", "TLS"],
)
def test_half_a_connect_holds_no_memory(broker: BrokerProcess, listener: str, first: bytes) -> None:
    """Hundreds of clients that are about to say who they are: a few MB together, and everybody is served."""
    count = 100 if len(first) > 500_000 else 600
    with _Watched(broker) as watched, _sockets(broker.ports[listener], count, first):
        _round_trip(broker)
    # OpenSSL has 50 kB for each handshake, whatever came, and malloc keeps some of it.
    most = 80 * MIB if listener == "mqtts" else 32 * MIB
    print(f"{watched.worst / MIB:.1f} MB held at most")
    assert watched.worst < most, f"{watched.worst / MIB:.1f} MB held"


def test_a_connect_is_to_be_complete_in_time_on_every_way_in(broker: BrokerProcess) -> None:
    """Bytes that come now and then, handshakes included, buy no time."""
    began = time.monotonic()
    with (
        _sockets(broker.ports["mqtt"], 1, b"\x10") as plain,
        _sockets(broker.ports["ws"], 1, b"GET /mqtt") as half,
        _sockets(broker.ports["ws"], 1, _UPGRADE) as upgraded,
        _sockets(broker.ports["gateway"], 1) as gateway,
        _sockets(broker.ports["mqtts"], 1, b"\x16\x03\x01\x01\x00") as handshake,
    ):
        every = plain + half + upgraded + gateway + handshake
        while time.monotonic() - began < CONNECT_TIMEOUT + 0.5:
            for sock, drip in zip(every, (b"\x7f", b"a", b"\x82", b"", b"\x01"), strict=True):
                with contextlib.suppress(OSError):
                    sock.sendall(drip)
            time.sleep(0.25)
        ends = [_closed(sock, 1.5) for sock in every]
        assert all(ends), f"closed: {ends}"


def test_a_burst_of_silent_connections_closes_nobody_whose_request_is_there(broker: BrokerProcess) -> None:
    """More of them than there are places, all at once and of the same addresses: who has asked is answered first."""

    def come(count: int) -> list[socket.socket]:
        where = "127.0.0.1", broker.ports["admin"]
        sources = [(f"127.0.0.{2 + number % 8}", 0) for number in range(count)]
        return [socket.create_connection(where, 5, source_address=source) for source in sources]

    os.kill(broker.pid, signal.SIGSTOP)
    try:
        before, good, behind = come(24), come(8), come(90)
        for sock in good:
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        os.kill(broker.pid, signal.SIGCONT)
        answers = [sock.recv(65_536) for sock in good]
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    for sock in before + good + behind:
        sock.close()
    assert [answer[:13] for answer in answers] == [b"HTTP/1.1 200 "] * len(good)


def test_a_herd_at_all_ports_at_once_hurts_nobody(broker: BrokerProcess, authority: Authority) -> None:
    """Silent clients and slow ones are closed in time, good ones are served beside them, and nothing is left of it."""
    ports = {name: plans.PORTS[name](broker.ports[name]) for name in ("mqtt", "ws", "gateway", "admin")}
    ports["mqtts"] = plans.mqtt(broker.ports["mqtts"], authority.file)
    counts = {"good": 20, "silent": 60, "slow": 10}
    plan: dict[str, Any] = {
        "ports": {name: port | counts for name, port in ports.items()},
        "seconds": 1.0,
        "stay": CONNECT_TIMEOUT + 1.0,
        "patience": 20.0,
    }
    # There the oldest one is closed for the 65th.
    plan["ports"]["admin"] |= {"good": 10, "silent": 30}
    before = broker.descriptors()
    figures = plans.figures(plans.begin(plan), 60)
    for name in ports:
        found = figures[name]
        good = found["good"]
        assert good["count"] == plan["ports"][name]["good"], f"{name}: {good} {figures['herd']}"
        assert good["p99"] < 3.0, f"{name}: {good}"
        assert not found["again"]["faults"], f"{name}: {found}"
        for kind in ("silent", "slow"):
            bad = found[kind]
            assert bad["count"] == plan["ports"][name][kind], f"{name}: {kind}: {bad}"
            assert bad["longest"] < CONNECT_TIMEOUT + 2.0, f"{name}: {kind}: {bad}"
            # By the clock of a process that may be late itself.
            assert bad["shortest"] > CONNECT_TIMEOUT / 2, f"{name}: {kind}: {bad} {figures['herd']}"
    wait_until(lambda: broker.descriptors() <= before + 5)


def test_many_replays_are_refused_and_share_what_there_is(broker: BrokerProcess) -> None:
    """300 replays in one SUBSCRIBE: a quota (0x97), little memory, and others are served meanwhile."""
    with Plain(broker.ports["mqtt"]) as feed:
        feed.connect("feed")
        for number in range(1, 201):
            feed.publish("feed/1", b"x" * 20_000, qos=1, packet_id=number)
        for _ in range(200):
            feed.expect(wire.PUBACK)
    filters = [(f"$replay/{3600 + number}s/feed/#", 1) for number in range(300)]
    clients = [Plain(broker.ports["mqtt"], version=5) for _ in range(4)]
    with _Watched(broker) as watched:
        for number, client in enumerate(clients):
            client.connect(f"greedy-{number}")
            client.send(wire.subscribe(1, filters, version=5))
        codes = clients[0].expect(wire.SUBACK).body[-300:]
        _round_trip(broker)
        time.sleep(0.5)
    for client in clients:
        client.sock.close()
    assert codes[0] == 1
    assert codes.count(0x97) > 200
    assert set(codes) == {1, 0x97}
    # Of that malloc keeps some 50 MB of the handshakes before; each of the four could have taken 30.
    print(f"{watched.worst / MIB:.1f} MB held at most")
    assert watched.worst < 80 * MIB, f"{watched.worst / MIB:.1f} MB held"
