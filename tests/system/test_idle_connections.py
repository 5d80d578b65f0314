"""10,000 connections that do nothing: held, cheap, and all alive when asked."""

from __future__ import annotations

import os
import resource
import socket
import time
from pathlib import Path

import pytest
from systemkit import wire
from systemkit.process import MOSQUITTO, BrokerProcess

CONNECTIONS = int(os.environ.get("IDLE_CONNECTIONS", "10000"))
MOST_BYTES = 6 * 1024
#: Of a connection that is over: its last packets, and how it ended.
REMEMBERED = 1024
#: Connecting this many at once stays within a listen backlog of 50.
_AT_ONCE = 40


def _connect_all(port: int, count: int, label: str) -> list[socket.socket]:
    held: list[socket.socket] = []
    for start in range(0, count, _AT_ONCE):
        batch = []
        for number in range(start, min(start + _AT_ONCE, count)):
            sock = socket.create_connection(("127.0.0.1", port), 20)
            sock.sendall(wire.connect(f"idle-{label}-{number}", keep_alive=600))
            batch.append(sock)
        for sock in batch:
            assert sock.recv(4) == b"\x20\x02\x00\x00"
        held += batch
    return held


def _ping_all(held: list[socket.socket]) -> None:
    for start in range(0, len(held), 500):
        batch = held[start : start + 500]
        for sock in batch:
            sock.sendall(b"\xc0\x00")
        for sock in batch:
            assert sock.recv(2) == b"\xd0\x00"


@pytest.mark.timeout(180)
def test_10000_idle_connections_are_held(broker: BrokerProcess) -> None:
    """Resident bytes of each at most 6 kB; all answer PINGREQ; a second 10,000 find the memory of the first.

    But for what is remembered of those.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(CONNECTIONS, soft - 500)
    base, descriptors = broker.rss(), broker.descriptors()
    sizes = []
    for label in ("first", "second"):
        began = time.monotonic()
        held = _connect_all(broker.ports["mqtt"], count, label)
        took = time.monotonic() - began
        time.sleep(0.5)
        sizes.append(broker.rss() - base)
        _ping_all(held)
        print(
            f"{label}: {count} connections in {took:.1f} s, {sizes[-1] / count:.0f} bytes each, "
            f"{broker.descriptors() - descriptors} descriptors"
        )
        for sock in held:
            sock.close()
        deadline = time.monotonic() + 10
        while broker.descriptors() > descriptors + 5 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert broker.descriptors() <= descriptors + 5, "descriptors left behind"
    if not MOSQUITTO:
        assert sizes[0] / count <= MOST_BYTES
    assert sizes[1] <= sizes[0] * 1.1 + (4 << 20) + count * REMEMBERED, f"grew from {sizes[0]} to {sizes[1]} bytes"


#: What /proc/net/tcp calls a connection that is open, and a timer that asks after the other end.
_ESTABLISHED, _KEEPALIVE = "01", "02"


@pytest.mark.skipif(MOSQUITTO, reason="ours alone")
@pytest.mark.parametrize("listener", ["mqtt", "ws", "gateway"])
def test_the_kernel_asks_after_a_client_that_says_nothing(broker: BrokerProcess, listener: str) -> None:
    """A client without keep-alive whose cable is pulled would be there for ever, where nothing is sent to it."""
    port = broker.ports[listener]
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        mine = sock.getsockname()[1]
        deadline = time.monotonic() + 10
        while (timer := _timer(port, mine)) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert timer == _KEEPALIVE


def _timer(port: int, client: int) -> str | None:
    """The kind of timer that the broker's end of a connection has."""
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        _, local, remote, state, _, timer, *_ = line.split()
        if state == _ESTABLISHED and (local[-4:], remote[-4:]) == (f"{port:04X}", f"{client:04X}"):
            return timer.partition(":")[0]
    return None
