"""The gateway of examples/gateway-node against the codec: a real process and a real socket."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iot_mqtt.custom_protocols.gateway import GatewayCodec
from iot_mqtt.framing import framer_of
from iot_mqtt.sdk import Answer, Command, Event, Heartbeat, Login, Readings, WhenSafe
from tests.cases.gateway import codec

PROGRAM = Path(__file__).parents[3] / "examples" / "gateway-node" / "gateway.mjs"
NODE = shutil.which("node")
FRAMES = 6

pytestmark = pytest.mark.skipif(NODE is None, reason="needs node")


class Connection:
    """One connection of the gateway, as the broker sees it."""

    def __init__(self, listener: socket.socket) -> None:
        self.socket, _ = listener.accept()
        self.socket.settimeout(20)
        self.codec = codec()
        self._framer = framer_of(GatewayCodec.framing)
        self._events: list[Event] = []

    def next(self) -> Event:
        """Waits for one."""
        while not self._events:
            data = self.socket.recv(65536)
            assert data, "the gateway ended the connection"
            items = self._framer.feed(data)
            frames = [item for item in items if isinstance(item, bytes)]
            assert len(frames) == len(items)
            self._events = [event for event in self.codec.decode_many(frames) if not isinstance(event, Heartbeat)]
        return self._events.pop(0)

    def frame(self) -> tuple[int, dict[str, dict[str, object]]]:
        """A frame of eight devices, and its sequence."""
        found = {}
        while not isinstance(event := self.next(), WhenSafe):
            assert isinstance(event, Readings) and isinstance(event.values, bytes) and event.time
            found[event.device] = json.loads(event.values)
        return event.token, found


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Where the gateway connects to."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(20)
        yield made


@pytest.fixture
def gateway(listener: socket.socket) -> Iterator[subprocess.Popen[str]]:
    """The program, which posts fifty frames a second."""
    assert NODE is not None
    process = subprocess.Popen(
        [NODE, str(PROGRAM), "127.0.0.1", str(listener.getsockname()[1]), "gw-7", "user", "secret"],
        env={**os.environ, "EVERY": "20"},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def test_it_posts_answers_and_sends_again(listener: socket.socket, gateway: subprocess.Popen[str]) -> None:
    """Everything that was not acknowledged comes once more, in order, and a command is done."""
    first = Connection(listener)
    assert first.next() == Login("gw-7", "user", b"secret", 20.0)
    first.socket.sendall(first.codec.welcome())
    sequences = [first.frame()[0] for _ in range(3)]
    first.socket.sendall(
        first.codec.safe(sequences[0]) + first.codec.encode(Command(9, "plc-3", {"running": False}, b""))
    )
    while not isinstance(event := first.next(), Answer):
        pass
    assert event == Answer(9, True)
    first.socket.close()

    second = Connection(listener)
    assert isinstance(second.next(), Login)
    second.socket.sendall(second.codec.welcome())
    again = [second.frame() for _ in range(FRAMES - 1)]
    assert [sequence for sequence, _ in again] == list(range(sequences[0] + 1, sequences[0] + FRAMES))
    assert again[0][1]["plc-3"]["running"] is True and again[-1][1]["plc-3"]["running"] is False
    for _, devices in again:
        assert sorted(devices) == [f"plc-{number}" for number in range(8)]
    assert again[-1][1]["plc-4"]["running"] is True
    second.socket.sendall(second.codec.safe(again[-1][0]))
    second.socket.close()

    third = Connection(listener)
    assert isinstance(third.next(), Login)
    third.socket.sendall(third.codec.welcome())
    assert third.frame()[0] == again[-1][0] + 1
    gateway.kill()
    told, _ = gateway.communicate(timeout=50)
    assert told.startswith("command 9 for plc-3")
    third.socket.close()
