"""What a node tells systemd."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from iot_mqtt.app.node.notifying import Notifier


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    """Systemd's end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "notify"))
        end.setblocking(False)
        yield end


def test_it_tells_how_a_node_is(listening: socket.socket) -> None:
    """In the words of sd_notify(3), a datagram each."""
    notifier = Notifier(listening.getsockname())
    notifier.ready("ready mqtt=127.0.0.1:1883\nREADY=0")
    notifier.reloading()
    notifier.reloaded()
    notifier.alive()
    notifier.stopping()
    heard = [listening.recv(4096).decode() for _ in range(5)]
    assert heard[0] == "READY=1\nSTATUS=ready mqtt=127.0.0.1:1883 READY=0"
    assert heard[1].startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert heard[2:] == ["READY=1", "WATCHDOG=1", "STOPPING=1\nSTATUS=draining"]


def test_an_address_may_be_abstract() -> None:
    """As systemd writes it in containers."""
    name = f"iot-mqtt-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(f"\0{name}")
        end.settimeout(5)
        Notifier(f"@{name}").alive()
        assert end.recv(64) == b"WATCHDOG=1"


def test_nobody_is_told_where_nobody_listens(tmp_path: Path) -> None:
    """Neither without the variable, nor when the other end is gone or full; nothing is waited for."""
    Notifier().ready("ready")
    Notifier(str(tmp_path / "gone")).ready("ready")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "full"))
        for _ in range(10_000):
            Notifier(str(tmp_path / "full")).alive()


@pytest.mark.parametrize(
    ("environ", "period"),
    [
        ({"NOTIFY_SOCKET": "/run/n"}, 0.0),
        ({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "30000000"}, 30.0),
        ({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 0.0),
        ({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "soon"}, 0.0),
        ({"WATCHDOG_USEC": "30000000"}, 0.0),
        ({}, 0.0),
    ],
)
def test_what_the_environment_says_is_for_this_process_alone(environ: dict[str, str], period: float) -> None:
    """It is taken out: a plugin's worker must not speak for the node."""
    kept = {"HOME": "/root"}
    told = environ | kept
    notifier = Notifier.of(told)
    assert notifier == Notifier(environ.get("NOTIFY_SOCKET", ""), period)
    assert told == kept
