"""Where the broker under test comes from: it runs already, or this suite starts it.

A *variant* is a broker with one thing configured differently (QoS 1 at most, a server keep alive ...), which the
specification lets a server announce and then binds it to. Brokers that were not started here cannot be
reconfigured, so tests that need a variant are skipped for them.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 30.0


class NoVariant(Exception):
    """This broker cannot be configured that way."""


@dataclass(frozen=True, slots=True)
class Variant:
    """How each broker is told; None where it has no such setting."""

    iot_mqtt: tuple[str, ...] | None
    mosquitto: tuple[str, ...] | None


VARIANTS = {
    "default": Variant((), ()),
    "max_qos_1": Variant(("mqtt.max_qos=1",), ("max_qos 1",)),
    "max_qos_0": Variant(("mqtt.max_qos=0",), ("max_qos 0",)),
    "server_keep_alive": Variant(("mqtt.server_keep_alive=2",), None),  # mosquitto takes no max_keepalive below 10
    "small_packets": Variant(("mqtt.max_packet_size=200",), ("max_packet_size 200",)),
    "receive_maximum_2": Variant(("mqtt.receive_maximum=2",), ("max_inflight_messages 2",)),
    "alias_maximum_2": Variant(("mqtt.topic_alias_maximum=2",), ("max_topic_alias 2",)),
    "no_alias": Variant(("mqtt.topic_alias_maximum=0",), ("max_topic_alias 0",)),
    "no_retain": Variant(("mqtt.retain_available=false",), ("retain_available false",)),
    "no_wildcard": Variant(("mqtt.wildcard_available=false",), None),
    "no_shared": Variant(("mqtt.shared_available=false",), None),
    "no_identifiers": Variant(("mqtt.subscription_identifiers_available=false",), None),
    "closed": Variant(("auth.allow_anonymous=false",), ("allow_anonymous false",)),
    "connect_timeout": Variant(("mqtt.connect_timeout=1",), None),
}


@dataclass(slots=True)
class Running:
    """A broker that accepts connections."""

    host: str
    port: int
    websocket: tuple[str, int, str] | None = None
    process: subprocess.Popen[str] | None = None
    directory: str | None = None

    def stop(self) -> None:
        """Stop the process, if it is ours, and remove what it left."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)


def start(name: str, variant: str) -> Running:
    """Start the named broker on free loopback ports."""
    if name == "iot-mqtt":
        return _start_iot_mqtt(VARIANTS[variant].iot_mqtt)
    if name == "mosquitto":
        return _start_mosquitto(VARIANTS[variant].mosquitto)
    raise NoVariant(f"this suite cannot start {name}; give --broker HOST:PORT")


def _start_iot_mqtt(settings: tuple[str, ...] | None) -> Running:
    if settings is None:
        raise NoVariant("iot-mqtt has no such setting")
    directory = tempfile.mkdtemp(prefix="wire-iot-mqtt-")
    options = [
        f"node.data_dir={directory}",
        "listeners.mqtt.port=0",
        "listeners.ws.port=0",
        "listeners.gateway.port=0",
        "admin.port=0",
        *settings,
    ]
    command = [str(ROOT / ".venv/bin/iot-mqtt"), "serve", *(part for option in options for part in ("--set", option))]
    log = open(Path(directory) / "stderr.log", "w")  # noqa: SIM115 - the child keeps it
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=directory)
    log.close()
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("ready"):
            ports = dict(word.split("=", 1) for word in line.split()[1:] if "=" in word)
            host, port = ports["mqtt"].rsplit(":", 1)
            return Running(host, int(port), websocket_address(ports.get("ws")), process, directory)
    tail = (Path(directory) / "stderr.log").read_text()[-2000:]
    Running("", 0, None, process, directory).stop()
    raise RuntimeError(f"iot-mqtt did not get ready with {settings}: {tail}")


def websocket_address(address: str | None) -> tuple[str, int, str] | None:
    """``HOST:PORT`` or ``HOST:PORT/PATH`` taken apart."""
    if not address:
        return None
    where, _, path = address.removeprefix("ws://").partition("/")
    host, port = where.rsplit(":", 1)
    return host, int(port), f"/{path or 'mqtt'}"


def _start_mosquitto(settings: tuple[str, ...] | None) -> Running:
    if settings is None:
        raise NoVariant("mosquitto has no such setting")
    binary = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    if not os.path.exists(binary):
        raise NoVariant("mosquitto is not installed")
    directory = tempfile.mkdtemp(prefix="wire-mosquitto-")
    port, web = free_port(), free_port()
    config = Path(directory) / "mosquitto.conf"
    anonymous = () if any(line.startswith("allow_anonymous") for line in settings) else ("allow_anonymous true",)
    # Options of one listener follow its `listener` line, so the plain one comes last and takes the settings.
    lines = [f"listener {web} 127.0.0.1", "protocol websockets", f"listener {port} 127.0.0.1", "protocol mqtt"]
    config.write_text("\n".join([*lines, *anonymous, *settings, "sys_interval 1"]) + "\n")
    with open(Path(directory) / "mosquitto.log", "w") as log:
        process = subprocess.Popen([binary, "-c", str(config)], stdout=log, stderr=log, text=True)
    running = Running("127.0.0.1", port, ("127.0.0.1", web, "/mqtt"), process, directory)
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return running
        except OSError:
            time.sleep(0.02)
    said = (Path(directory) / "mosquitto.log").read_text()
    running.stop()
    raise RuntimeError(f"mosquitto did not start: {said}")
