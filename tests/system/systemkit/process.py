"""One broker as a real process: started, watched, killed, started again on the same data and ports.

``TEST_BROKER=mosquitto`` runs the same tests against mosquitto, which proves the tests themselves; the
default is this project's broker. A test never sees which one it is, except where the specification leaves
room and the table of the test says so.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from systemkit.forking import Forked, clean_environment, forker
from systemkit.identity import assert_balanced
from tests.ports import free_port

#: The broker under test: "iot-mqtt" or "mosquitto".
KIND = os.environ.get("TEST_BROKER", "iot-mqtt")
MOSQUITTO = KIND == "mosquitto"
#: Whether brokers with nothing special about them are forked off a process that is warm already.
FORKING = os.environ.get("TEST_FORKING") != "off"
#: A stop by SIGTERM takes no longer than this (``node.drain_seconds`` of the tests, and some air).
DRAIN_SECONDS = 5
_READY = re.compile(r"^ready\b.*$", re.MULTILINE)
_BOUND = re.compile(r"([\w-]+)=[\w.\[\]:]*?:(\d+)(?=\s|$)")
_FAULTS = ("Traceback (most recent call last)", "Unhandled Error", "Unhandled error", "never retrieved")


@dataclass(frozen=True, slots=True)
class ServerTls:
    """Files of a TLS listener; ``ca`` is whom client certificates must come from."""

    cert: Path
    key: Path
    ca: Path | None = None
    require_client_certificate: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """How a broker is to be started; each broker reads its own part."""

    tls: ServerTls | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    #: A configuration file, below the settings.
    config: Path | None = None
    mosquitto: Sequence[str] = ()
    #: As ``ulimit -n``; 0: as the tests themselves have it.
    descriptors: int = 0


class BrokerProcess:
    """A broker on loopback. ``start`` returns when it accepts; ``close`` checks how it ended."""

    def __init__(self, folder: Path, options: Options) -> None:
        self.folder = folder
        self.options = options
        self.data_dir = folder / "data"
        self.log = folder / "broker.log"
        names = ["mqtt", "ws", "gateway", "admin"] + (["mqtts"] if options.tls else [])
        self.ports = {name: free_port() for name in names}
        self.process: subprocess.Popen[bytes] | Forked | None = None
        self.started_in = 0.0
        self._killed = False
        self._log_start = 0

    # --- life ---------------------------------------------------------------------------------------

    def start(self, timeout: float = 90) -> BrokerProcess:
        """Start, on the ports and data of before, and wait until clients get in."""
        assert self.process is None, "already running"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        began = time.monotonic()
        self.process = self._spawn(self.command())
        self._killed = False
        self._wait_ready(began + timeout)
        self.started_in = time.monotonic() - began
        return self

    def kill(self) -> None:
        """SIGKILL, as a power switch would."""
        assert self.process is not None
        self._killed = True
        self.process.kill()
        self.process.wait()
        self.process = None

    def terminate(self, timeout: float = DRAIN_SECONDS + 5) -> int:
        """SIGTERM; returns the exit code. It has to be able to say what became of all messages."""
        assert self.process is not None
        self.assert_explained()
        self.process.terminate()
        try:
            return self.process.wait(timeout)
        finally:
            self.reap()

    def restart(self, *, kill: bool = True) -> BrokerProcess:
        """Kill (or stop in peace) and start again on the same data and ports."""
        if kill:
            self.kill()
        else:
            assert self.terminate() == 0
        return self.start()

    def close(self) -> None:
        """Stop if still running, then assert a clean end: exit code 0 and no traceback in the log."""
        code = self.process.poll() if self.process else None
        died = self.process is not None and code is not None
        if self.process is not None and not died:
            try:
                code = self.terminate()
            except subprocess.TimeoutExpired:
                code = -signal.SIGKILL
        self.reap()
        text = self.log_text(whole=True)
        assert not died, f"the broker ended by itself with {code}:\n{text[-4000:]}"
        assert code in (None, 0), f"exit code {code} after SIGTERM:\n{text[-4000:]}"
        self.assert_no_traceback()

    def reap(self) -> None:
        """Make sure that the process is gone."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait()
            self.process = None

    def assert_explained(self) -> None:
        """The loss identity holds, if the admin port says anything at all."""
        if MOSQUITTO or self.process is None or self.process.poll() is not None:
            return
        with contextlib.suppress(OSError):
            assert_balanced(self.metrics())

    # --- what it says and uses --------------------------------------------------------------------------

    def log_text(self, *, whole: bool = False) -> str:
        """The log of this run, or of all runs of this broker."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(0 if whole else self._log_start)
            return file.read().decode("utf-8", "replace")

    def assert_no_traceback(self) -> None:
        """Nothing in the log looks like a bug of ours."""
        text = self.log_text(whole=True)
        for fault in _FAULTS:
            at = text.find(fault)
            assert at < 0, f"in the log of the broker:\n{text[max(0, at - 500) : at + 3000]}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def rss(self) -> int:
        """Resident bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no VmRSS")

    def descriptors(self) -> int:
        """Open file descriptors."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        parts = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    def http(self, path: str, *, token: str | None = None, timeout: float = 30) -> str:
        """GET from the admin port."""
        secure = "admin.tls.cert" in self.options.settings
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        request = urllib.request.Request(f"http{'s' * secure}://127.0.0.1:{self.ports['admin']}{path}")
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=timeout, context=context if secure else None) as answer:
            return str(answer.read().decode())

    def metrics(self) -> dict[str, float] | None:
        """Samples of ``/metrics`` by ``name{labels}``; None for a broker that has none."""
        if MOSQUITTO:
            return None
        samples = {}
        for line in self.http("/metrics").splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples

    # --- ours or mosquitto ------------------------------------------------------------------------------

    def command(self) -> list[str]:
        """The command line that starts it."""
        command = self._mosquitto_command() if MOSQUITTO else self._our_command()
        if limit := self.options.descriptors:
            return ["sh", "-c", f'ulimit -n {limit} && exec "$@"', "sh", *command]
        return command

    def _our_command(self) -> list[str]:
        settings: dict[str, object] = {
            "node.data_dir": self.data_dir,
            "node.drain_seconds": DRAIN_SECONDS,
            "listeners.mqtt.port": self.ports["mqtt"],
            "listeners.ws.port": self.ports["ws"],
            "listeners.gateway.port": self.ports["gateway"],
            "admin.port": self.ports["admin"],
        }
        if tls := self.options.tls:
            settings |= {
                "listeners.mqtts.enabled": "true",
                "listeners.mqtts.host": "127.0.0.1",
                "listeners.mqtts.port": self.ports["mqtts"],
                "listeners.mqtts.tls.cert": tls.cert,
                "listeners.mqtts.tls.key": tls.key,
            }
            if tls.ca is not None:
                settings["listeners.mqtts.tls.ca"] = tls.ca
            if tls.require_client_certificate:
                settings["listeners.mqtts.tls.require_client_certificate"] = "true"
        settings |= self.options.settings
        sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        file = [] if self.options.config is None else ["--config", str(self.options.config)]
        return [*our_command(), "serve", *file, *sets]

    def _mosquitto_command(self) -> list[str]:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        lines = [
            f"user {os.environ.get('USER', 'root')}",
            "persistence true",
            f"persistence_location {self.data_dir}/",
            "max_queued_messages 0",
            "max_inflight_messages 0",
            "set_tcp_nodelay true",
            "log_dest stderr",
            *self.options.mosquitto,
            f"listener {self.ports['mqtt']} 127.0.0.1",
            "allow_anonymous true",
            f"listener {self.ports['ws']} 127.0.0.1",
            "protocol websockets",
        ]
        if tls := self.options.tls:
            lines += [f"listener {self.ports['mqtts']} 127.0.0.1", f"certfile {tls.cert}", f"keyfile {tls.key}"]
            if tls.ca is not None:
                lines.append(f"cafile {tls.ca}")
            if tls.require_client_certificate:
                lines.append("require_certificate true")
        conf = self.folder / "mosquitto.conf"
        conf.write_text("\n".join(lines) + "\n")
        return [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", str(conf)]

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes] | Forked:
        environment, usual = self.environment(), our_command()
        with self.log.open("ab") as log:
            if FORKING and list(command[: len(usual) + 1]) == [*usual, "serve"]:
                warm = forker(usual[0])
                if warm.environment == environment:
                    return warm.fork(command[len(usual) :], log.fileno(), self.folder)
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=environment
            )

    def environment(self) -> dict[str, str]:
        """What it is started with."""
        return clean_environment()

    def _wait_ready(self, deadline: float) -> None:
        assert self.process is not None
        while time.monotonic() < deadline:
            if (code := self.process.poll()) is not None:
                self.process = None
                raise AssertionError(f"ended with {code} instead of getting ready:\n{self.log_text()[-4000:]}")
            if self._is_ready():
                return
            time.sleep(0.01)
        raise AssertionError(f"not ready in time:\n{self.log_text()[-4000:]}")

    def _is_ready(self) -> bool:
        if MOSQUITTO:  # says nothing, and opens its listeners one after the other
            return all(_accepts(port) for name, port in self.ports.items() if name != "admin")
        line = _READY.search(self.log_text())
        if line is None:
            return False
        self.ports |= {name: int(port) for name, port in _BOUND.findall(line.group())}
        return True


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def our_command() -> list[str]:
    """The installed ``iot-mqtt`` beside this Python, or the module where it is not installed."""
    script = Path(sys.executable).with_name("iot-mqtt")
    return [str(script)] if script.exists() else [sys.executable, "-m", "iot_mqtt"]
