"""What the tests of the ZooKeeper registry need: a connection that can be cut, and a node in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from tests.contract.driving import Driver
from tests.contract.registrykit import BenchDriver

CHILD = Path(__file__).with_name("registry_child.py")


class Line:
    """A TCP proxy to one server, for one node. ``cut`` ends its connections and refuses new ones."""

    def __init__(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._server = (host, int(port))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._flowing = threading.Event()
        self._flowing.set()
        self._held: list[threading.Event] = []
        self._cut = False
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            self._cut = True
            sockets, self._sockets = self._sockets, set()
        for one in sockets:
            _end(one)

    def mend(self) -> None:
        self._cut = False
        self._flowing.set()

    def stall(self) -> None:
        """Connections stay, and nothing goes through: a network that swallows everything."""
        self._flowing.clear()

    def forget(self) -> None:
        """What is stalled gets no answer ever; who connects anew is served."""
        self._held.append(self._flowing)
        self._flowing = threading.Event()
        self._flowing.set()

    def close(self) -> None:
        self._closed = True
        for flowing in (*self._held, self._flowing):
            flowing.set()
        _end(self._listening)
        self.cut()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            if self._cut:
                near.close()
                continue
            try:
                far = socket.create_connection(self._server, timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._sockets |= {near, far}
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                target.sendall(data)
        _end(source)
        _end(target)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


class Child:
    """A node with a real reactor in a process of its own. What it tells arrives in order."""

    def __init__(self, hosts: str, path: str, node_id: str, boot: int, session_timeout: float, lease: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD), hosts, path, node_id, str(boot), str(session_timeout), lease],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(CHILD.parents[2])},
        )
        self._lines: SimpleQueue[dict[str, Any]] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))

    def told(self, key: str, driver: Driver) -> list[dict[str, Any]]:
        """What it says until something with this key comes, that included; the nodes of the test go on meanwhile."""
        lines: list[dict[str, Any]] = []

        def came() -> bool:
            with suppress(Empty):
                while not lines or key not in lines[-1]:
                    lines.append(self._lines.get_nowait())
            return bool(lines) and key in lines[-1]

        driver.until(came)
        return lines

    def so_far(self, driver: BenchDriver) -> list[dict[str, Any]]:
        """What has arrived and was not asked for, or does within half a second."""
        driver.pass_time(0.5)
        lines = []
        with suppress(Empty):
            while True:
                lines.append(self._lines.get_nowait())
        return lines

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def child(hosts: str, path: str, node_id: str, boot: int, session_timeout: float, lease: str = "") -> Iterator[Child]:
    """Ends with the block, paused or not."""
    process = Child(hosts, path, node_id, boot, session_timeout, lease)
    try:
        yield process
    finally:
        process.kill()
