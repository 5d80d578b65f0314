"""A codec is replaced again and again while gateways post: no frame is lost or read twice, and memory stays.

``PLUGIN_RELOADS=200`` is the full size.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from systemkit.listener import Listener
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import StartBroker

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto knows no plugins")

RELOADS = int(os.environ.get("PLUGIN_RELOADS", "20"))
ISOLATION = os.environ.get("PLUGIN_ISOLATION", "inline")
RATE = 1000
LINES = 4
MIB = 1 << 20

CODEC = '''
"""Lines; every line is a reading."""

from iot_mqtt.sdk import Codec, Line, Login, Readings, WhenSafe

#: Something that would be noticed if it stayed.
BALLAST = bytearray(4 << 20)


class Reloaded(Codec):
    framing = Line()
    version = "{version}"

    def decode(self, frame):
        word, _, number = frame.decode().partition(" ")
        if word == "login":
            return [Login(number)]
        return [Readings("d", {{"n": int(number), "by": "{version}"}}, sequence=int(number)), WhenSafe(int(number))]

    def safe(self, token):
        return b"safe %d\\n" % token
'''


def project(folder: Path, version: str) -> Path:
    """A vendor's project."""
    package = folder / "src" / "reloaded"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(CODEC.format(version=version))
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "reloaded"\nversion = "{version}"\n'
        '[project.entry-points."iot_mqtt.codecs"]\nreloaded = "reloaded:Reloaded"\n'
    )
    return folder


def ctl(broker: BrokerProcess, *words: str) -> None:
    """As an operator does it."""
    command = [sys.executable, "-m", "iot_mqtt", "ctl", "--data-dir", str(broker.data_dir), "plugins", *words]
    subprocess.run(command, check=True, capture_output=True)


def roll_back(broker: BrokerProcess, token: str) -> None:
    """Back to the version before, and so by turns."""
    url = f"http://127.0.0.1:{broker.ports['admin']}/api/v1/plugins/reloaded/rollback"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, b'{"drain": false}', headers, method="POST")
    with urllib.request.urlopen(request, timeout=50) as answer:
        assert json.loads(answer.read())["state"] == "ready"


class Line(threading.Thread):
    """A gateway that posts numbered lines, and reconnects now and then so that it meets new versions."""

    def __init__(self, port: int, name: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._name = name
        self._stop_asked = stop
        self.sent = self.safe = self.connections = 0

    def run(self) -> None:
        while not self._stop_asked.is_set():
            with socket.create_connection(("127.0.0.1", self._port), timeout=50) as sock:
                self.connections += 1
                sock.sendall(f"login {self._name}\n".encode())
                until = time.monotonic() + 0.3
                rest = b""
                while time.monotonic() < until or self.safe < self.sent:
                    if time.monotonic() < until:
                        first, self.sent = self.sent + 1, self.sent + RATE // LINES // 50
                        sock.sendall(b"".join(b"r %d\n" % number for number in range(first, self.sent + 1)))
                        time.sleep(0.02)
                    sock.settimeout(0.001 if time.monotonic() < until else 10)
                    try:
                        data = sock.recv(65_536)
                    except TimeoutError:
                        continue
                    assert data, "closed in mid flow"
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        self.safe = max(self.safe, int(line.split()[1]))


@pytest.mark.timeout(900)
def test_frames_go_on_while_their_codec_is_replaced(start_broker: StartBroker, tmp_path: Path) -> None:
    """v1 and v2 by turns under 1,000 frames a second; every reading once and in order, from both versions."""
    broker = start_broker(settings={"listeners.gateway.codec": "reloaded", "mqtt.sys_interval": 0})
    for version in ("1.0", "2.0"):
        ctl(broker, "install", str(project(tmp_path / version, version)))
        ctl(broker, *(("enable", "reloaded", "--isolation", ISOLATION) if version == "1.0" else ("reload", "reloaded")))
    listener = Listener(broker, "up/#")
    stop = threading.Event()
    lines = [Line(broker.ports["gateway"], f"line-{number}", stop) for number in range(LINES)]

    def found(number: int) -> list[Any]:
        return listener.of(f"up/line-{number}/")

    token = (broker.data_dir / "admin.token").read_text().strip()
    for line in lines:
        line.start()
    sizes: list[int] = []
    for number in range(RELOADS):
        roll_back(broker, token)
        time.sleep(0.1)
        if number >= min(10, RELOADS // 2):
            sizes.append(broker.rss())
    stop.set()
    deadline = time.monotonic() + 60
    for line in lines:
        line.join(deadline - time.monotonic())
        assert not line.is_alive(), "frames were not confirmed"
    while any(len(found(number)) < line.sent for number, line in enumerate(lines)):
        assert time.monotonic() < deadline, [(len(found(number)), line.sent) for number, line in enumerate(lines)]
        time.sleep(0.05)
    half = len(sizes) // 2
    growth = sum(sizes[half:]) / len(sizes[half:]) - sum(sizes[:half]) / half
    total = sum(line.sent for line in lines)
    versions = {one["values"]["by"] for number in range(LINES) for one in found(number)}
    print(
        f"reloads={RELOADS} frames={total} connections={sum(line.connections for line in lines)} "
        f"versions={sorted(versions)} growth={growth / MIB:.1f} MiB"
    )
    for number, line in enumerate(lines):
        assert [one["seq"] for one in found(number)] == list(range(1, line.sent + 1))
    assert versions == {"1.0", "2.0"}
    # A version that stayed would cost 4 MiB each time.
    assert growth < 8 * MIB
    listener.close()
