"""Nodes and Ignite servers of different releases: each says so in a sentence, and nobody waits for the other."""

from __future__ import annotations

import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from systemkit.forking import clean_environment
from systemkit.process import our_command

from tests.enginekit.servers import Servers

HELLO, WELCOME, REFUSED, TOPOLOGY = 0x01, 0x81, 0x82, 0x85
UNKNOWN_VERSION = 6
#: Seconds in which a node must have said what is wrong, its start included.
AT_ONCE = 60


def frame(op: int, body: bytes) -> bytes:
    return struct.pack(">IB", 1 + len(body), op) + body


def read_frame(connection: socket.socket) -> tuple[int, bytes]:
    with connection.makefile("rb") as stream:
        length, op = struct.unpack(">IB", stream.read(5))
        return op, stream.read(length - 1)


def test_a_gateway_refuses_a_node_of_another_version_in_a_sentence(ignites: Servers) -> None:
    """As every node of any version can read it: the status, and a text."""
    host, _, port = ignites.ignite[0].gateway.rpartition(":")
    token = ignites.token.encode()
    for version in (1, 3, 255):
        with closing(socket.create_connection((host, int(port)), 10)) as old:
            identity = struct.pack(">HQI", 0, 0, 0)
            old.sendall(frame(HELLO, bytes((version,)) + struct.pack(">H", len(token)) + token + identity))
            op, body = read_frame(old)
            assert (op, body[0]) == (REFUSED, UNKNOWN_VERSION)
            reason = body[3:].decode()
            assert f"this gateway speaks version 2 of its protocol and the node version {version}" in reason
            assert old.recv(1) == b""


@contextmanager
def gateway_that_says(answer: bytes) -> Iterator[int]:
    """Its port: whoever says HELLO there is told this, and what follows is nonsense to him."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    connection.recv(1024)
                    connection.sendall(answer)
                    connection.recv(1024)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]


def refusal_of_node(port: int, folder: Path) -> str:
    """What a node says, and ends with, that is to use this gateway."""
    settings = {
        "node.id": "node-1",
        "node.data_dir": folder / "data",
        "grid.kind": "ignite",
        "grid.ignite.gateway": f'["127.0.0.1:{port}"]',
        "grid.ignite.addresses": f'["127.0.0.1:{port}"]',
        "registry.kind": "static",
        "registry.static.nodes": '["node-1"]',
    }
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    ended = subprocess.run(
        [*our_command(), "serve", *sets],
        capture_output=True,
        text=True,
        cwd=folder,
        env=clean_environment(),
        timeout=AT_ONCE,
        check=False,
    )
    assert ended.returncode == 1, ended
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_a_node_refuses_a_gateway_of_another_version_in_a_sentence(tmp_path: Path) -> None:
    """It ends with exit code 1, whatever else the gateway says."""
    welcome = frame(WELCOME, b"\x01" + bytes(16) + struct.pack(">I", 1 << 24))
    with gateway_that_says(welcome + frame(TOPOLOGY, struct.pack(">QH", 1, 3))) as port:
        said = refusal_of_node(port, tmp_path)
    assert "it speaks version 1 of its protocol and this node version 2" in said
    assert "have to be of the same release" in said


def test_a_node_that_a_gateway_of_another_version_refuses_says_so(tmp_path: Path) -> None:
    """In the gateway's words, and ends with exit code 1."""
    reason = b"this gateway speaks version 9"
    with gateway_that_says(frame(REFUSED, bytes((6,)) + struct.pack(">H", len(reason)) + reason)) as port:
        assert "refuses this node: this gateway speaks version 9" in refusal_of_node(port, tmp_path)
