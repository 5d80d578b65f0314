#!/usr/bin/env python3
"""How long a newcomer waits: the pages' own commands, from a clean clone and from a wheel, with an empty home.

    python scripts/newcomer.py FOLDER [clone] [wheel] [cluster]

`clone` goes through README.md: first message, first frame of a gateway as a value, first cleaned row. `wheel` does the
first two with the newest wheel of dist, in a virtual environment. `cluster` goes through docs/cluster.md to three
nodes. FOLDER is made, and must not be there. What is typed has to stand in the page, word for word, or this stops; only
ports and the like are put behind it, so that it runs beside other brokers. Prints seconds, and CPU seconds of what has
ended. Not part of CI: what is timed needs a machine of its own. Needs mosquitto's clients, Node and Java 17.
"""

from __future__ import annotations

import os
import resource
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTENERS = ("listeners.mqtt.port", "listeners.ws.port", "listeners.gateway.port", "admin.port")


class Newcomer:
    """Somebody with a folder, a page and a watch."""

    def __init__(self, folder: Path, page: Path) -> None:
        self.folder = folder
        self.page = " ".join(page.read_text(encoding="utf-8").replace("\\\n", " ").split())
        home = folder.parent / "home"
        home.mkdir(parents=True, exist_ok=True)
        self.environment = {**os.environ, "HOME": str(home), "PIP_CACHE_DIR": str(home / "pip")}
        self.ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        self._began, self._cpu = time.monotonic(), cpu()
        self._left: list[subprocess.Popen[str]] = []

    def reached(self, what: str) -> None:
        """Print how long it took to get here."""
        print(f"{time.monotonic() - self._began:8.1f} s {cpu() - self._cpu:8.1f} s of CPU  {what}", flush=True)

    def typed(self, command: str, further: str = "", *, wait: bool = True) -> subprocess.Popen[str]:
        """Type what the page says, and something behind it. Ends everything if the page does not say it."""
        if " ".join(command.split()) not in self.page:
            raise SystemExit(f"newcomer: the page does not say: {command}")
        running = subprocess.Popen(
            ["bash", "-c", f"exec {command} {further}"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._left.append(running)
        if wait and running.wait():
            raise SystemExit(f"newcomer: {command} ended with {running.returncode}: {said(running)}")
        return running

    def until(self, running: subprocess.Popen[str], word: str) -> str:
        """The line that has this word."""
        assert running.stdout is not None
        seen = []
        for line in running.stdout:
            seen.append(line)
            if word in line:
                return line
        raise SystemExit(f"newcomer: no {word!r} came: {''.join(seen[-20:])}")

    @property
    def sets(self) -> str:
        return " ".join(f"--set {key}={port}" for key, port in self.ports.items())

    def end(self) -> None:
        """Stop what still runs."""
        for running in reversed(self._left):
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGTERM)
                try:
                    running.wait(40)
                except subprocess.TimeoutExpired:
                    os.killpg(running.pid, signal.SIGKILL)
                    running.wait()


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def said(running: subprocess.Popen[str]) -> str:
    return "" if running.stdout is None else running.stdout.read()[-2000:]


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


@contextmanager
def newcomer(folder: Path, page: Path) -> Iterator[Newcomer]:
    somebody = Newcomer(folder, page)
    try:
        yield somebody
    finally:
        somebody.end()


def first_message(me: Newcomer) -> None:
    port = me.ports["listeners.mqtt.port"]
    listening = me.typed("mosquitto_sub -V 5 -t 'plant/#' -q 1 -v", f"-p {port}", wait=False)
    time.sleep(1)
    me.typed("mosquitto_pub -V 5 -t plant/hall-1/temperature -q 1 -m 21.5", f"-p {port}")
    me.until(listening, "plant/hall-1/temperature 21.5")
    me.reached("the first message")


def first_value(me: Newcomer, gateway: str) -> None:
    port = me.ports["listeners.mqtt.port"]
    listening = me.typed("mosquitto_sub -t 'up/line-7/#' -t 'status/#' -v", f"-p {port}", wait=False)
    time.sleep(1)
    command = "node examples/gateway-node/gateway.mjs 127.0.0.1 9600 line-7"
    # The page's port is the one of a broker that is alone.
    me.page += f" {gateway}"
    assert command in me.page
    me.typed(gateway, wait=False)
    me.until(listening, "up/line-7/")
    me.reached("the first frame of a gateway, as a value")


def gateway_of(me: Newcomer, folder: Path) -> str:
    program = folder / "examples" / "gateway-node" / "gateway.mjs"
    return f"node {program} 127.0.0.1 {me.ports['listeners.gateway.port']} line-7"


def clone(folder: Path) -> None:
    checkout = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(checkout)], check=True)
    with newcomer(checkout, checkout / "README.md") as me:
        broker = me.typed("make run", f"ARGS={shlex.quote(me.sets)}", wait=False)
        me.until(broker, "ready ")
        me.reached("ready, from a clean clone")
        first_message(me)
        first_value(me, gateway_of(me, checkout))
        port = me.ports["listeners.mqtt.port"]
        publish = 'mosquitto_pub -i press-7 -t up/press-7/values -q 1 -m \'{"seq": 1, "temperature": 71.3}\''
        me.typed(publish, f"-p {port}")
        me.typed("make pipeline")
        me.reached("Spark is there")
        time.sleep(10)
        me.typed(".venv/bin/iot-mqtt pipeline run clean --once")
        rows = subprocess.run(
            [".venv/bin/iot-mqtt", "pipeline", "files", "clean"],
            cwd=checkout,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert rows and all(Path(row).exists() for row in rows)
        me.reached("the first cleaned row")


def wheel(folder: Path) -> None:
    newest = max((ROOT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    place = folder / "wheel"
    place.mkdir(parents=True)
    (place / newest.name).write_bytes(newest.read_bytes())
    with newcomer(place, ROOT / "docs" / "install.md") as me:
        me.page += " " + " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
        me.typed("python3 -m venv iot-mqtt")
        me.typed("iot-mqtt/bin/pip install iot_mqtt-*.whl")
        broker = me.typed("iot-mqtt/bin/iot-mqtt serve", me.sets, wait=False)
        me.until(broker, "ready ")
        me.reached("ready, from the wheel")
        first_message(me)
        first_value(me, gateway_of(me, ROOT))


def cluster(folder: Path) -> None:
    checkout = folder / "cluster"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(checkout)], check=True)
    with newcomer(checkout, checkout / "docs" / "cluster.md") as me:
        try:
            me.typed("make cluster-up")
            me.reached("the servers of a cluster, from a clean clone")
            ports = []
            for number in (1, 2, 3):
                one = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
                ports.append(one["listeners.mqtt.port"])
                command = (
                    f".venv/bin/iot-mqtt serve --config .cluster/broker.yaml --set node.id=node-{number} "
                    f"--set node.data_dir=.cluster/node-{number}"
                )
                node = me.typed(command, " ".join(f"--set {key}={port}" for key, port in one.items()), wait=False)
                me.until(node, "ready ")
            me.reached("three nodes are ready")
            me.page += f" mosquitto_sub -p {ports[2]} -i logger -c -q 1 -t 'plant/#' -v"
            listening = me.typed(f"mosquitto_sub -p {ports[2]} -i logger -c -q 1 -t 'plant/#' -v", wait=False)
            time.sleep(1)
            me.page += f" mosquitto_pub -p {ports[0]} -q 1 -t plant/hall-1/door -m open"
            me.typed(f"mosquitto_pub -p {ports[0]} -q 1 -t plant/hall-1/door -m open")
            me.until(listening, "plant/hall-1/door open")
            me.reached("a message from the first node at the third")
        finally:
            subprocess.run(["make", "cluster-down", "ARGS=--purge"], cwd=checkout, env=me.environment, check=False)


def main(arguments: list[str]) -> int:
    paths = {"clone": clone, "wheel": wheel, "cluster": cluster}
    if not arguments or not set(arguments[1:]) <= set(paths):
        print(__doc__)
        return 2
    folder = Path(arguments[0]).absolute()
    folder.mkdir(parents=True)
    for name in arguments[1:] or paths:
        paths[name](folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
