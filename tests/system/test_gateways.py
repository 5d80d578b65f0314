"""Gateways at a real broker: the example in Node, kills in mid flow, rubbish, commands, captures."""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from systemkit.listener import Listener
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import StartBroker
from systemkit.waiting import wait_until

from iot_mqtt.custom_protocols.gateway.wire import Type
from tests.doubles import gateway as client

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto knows no gateways")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "gateway-node" / "gateway.mjs"
UPLINK = {"uplink.kind": "file", "uplink.file.rotate_seconds": 0.2}


@pytest.fixture
def listen() -> Iterator[Callable[..., Listener]]:
    """Make subscribers that end with the test."""
    made: list[Listener] = []

    def make(broker: BrokerProcess, *filters: str) -> Listener:
        made.append(Listener(broker, *filters))
        return made[-1]

    yield make
    for one in made:
        one.close()


def uplinked(broker: BrokerProcess) -> list[dict[str, Any]]:
    """The records in finished files, in the order of their names."""
    paths = sorted((broker.data_dir / "uplink").glob("*/dt=*/[!.]*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]


class Line:
    """A gateway that keeps what is not safe, reconnects, and sends it again."""

    def __init__(self, port: int, name: str) -> None:
        self._port = port
        self._name = name
        self._kept: dict[int, bytes] = {}
        self._socket: socket.socket | None = None
        self._inbox = client.Inbox()
        self.commands: list[client.Ordered] = []
        self.reconnects = 0

    def post(self, number: int, devices: int) -> None:
        """A frame whose readings carry its number."""
        readings = [(f"d{device}", [("n", Type.U32, number)]) for device in range(devices)]
        self._kept[number] = client.data(readings, sequence=number, time=1_763_700_000_000 + number, wants_ack=True)
        self._send(self._kept[number])
        self.read(0)

    def _send(self, data: bytes) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendall(data)
        except OSError:
            self._lose()

    def _lose(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def connect(self, seconds: float = 20) -> None:
        """Until it is let in; then what is kept goes out again."""
        wait_until(self._let_in, seconds)
        for data in list(self._kept.values()):
            self._send(data)

    def _let_in(self) -> bool:
        try:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=5)
            self._inbox = client.Inbox()
            self._socket.sendall(client.login(self._name, heartbeat=30))
            answer = self._socket.recv(65_536)
        except OSError:
            self._lose()
            return False
        self.reconnects += 1
        if not answer:
            self._lose()
            return False
        self._take(answer)
        return True

    def read(self, seconds: float) -> None:
        """What has come."""
        if self._socket is None:
            return
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(65_536)
        except (TimeoutError, BlockingIOError):
            data = None
        except OSError:
            data = b""
        if data == b"":
            self._lose()
        elif data:
            self._take(data)
        if self._socket is not None:
            self._socket.settimeout(5)

    def _take(self, data: bytes) -> None:
        for message in self._inbox.feed(data):
            if isinstance(message, client.Ack):
                for number in [number for number in self._kept if number <= message.sequence]:
                    del self._kept[number]
            elif isinstance(message, client.Ordered):
                self.commands.append(message)

    def settle(self, seconds: float = 10) -> None:
        """Until everything is safe."""
        began = time.monotonic()
        while self.waiting:
            assert time.monotonic() - began < seconds, "not safe in time"
            self.read(0.1)

    @property
    def connected(self) -> bool:
        return self._socket is not None

    @property
    def waiting(self) -> int:
        return len(self._kept)

    def close(self) -> None:
        self._lose()


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_a_gateway_that_was_written_from_the_document_alone(
    start_broker: StartBroker, listen: Callable[..., Listener]
) -> None:
    """Eight devices post; a subscriber and the uplink have a record each; a command comes down and is answered."""
    broker = start_broker(settings=UPLINK)
    listener = listen(broker, "up/#", "status/#")
    node = shutil.which("node")
    assert node is not None
    words = [node, str(EXAMPLE), "127.0.0.1", str(broker.ports["gateway"]), "line-7"]
    process = subprocess.Popen(words, env={"EVERY": "20"}, stdout=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: listener.of("up/line-7/plc-3"))
        listener.publish("down/line-7/plc-3", {"running": False})
        wait_until(lambda: len(listener.of("status/")) == 3)
        listener.publish("down/line-7/plc-9", {"running": False})
        wait_until(lambda: len(listener.of("status/")) == 6)
        broker.restart()
        before = len(uplinked(broker))
        wait_until(lambda: len(uplinked(broker)) >= before + 400)
    finally:
        process.kill()
        output, _ = process.communicate()
    assert "command 1 for plc-3" in output
    assert [payload["state"] for payload in listener.of("status/line-7/plc-3/")] == ["queued", "sent", "acked"]
    assert listener.of("status/line-7/plc-9/")[-1]["detail"] == "not understood"
    records = uplinked(broker)
    stopped = [one["values"]["running"] for one in records if one["device"] == "plc-3"]
    assert stopped[0] is True and stopped[-1] is False
    posted = sorted({one["seq"] for one in records if one["device"] == "plc-0"})
    assert posted == list(range(posted[0], posted[-1] + 1))
    assert Counter((one["device"], one["seq"]) for one in records if one["seq"] < posted[-1]) == {
        (f"plc-{number}", one): 1 for number in range(8) for one in posted[:-1]
    }


def test_what_a_gateway_sends_again_over_kills_is_there_once(start_broker: StartBroker) -> None:
    """The broker is killed in mid flow, several times; the gateway resends all that it is not sure of."""
    broker = start_broker(settings=UPLINK)
    dice = random.Random(6)
    line = Line(broker.ports["gateway"], "line-1")
    line.connect()
    kills = {150, 300, 450, 600}
    for number in range(1, 801):
        line.post(number, devices=3)
        if number in kills:
            time.sleep(dice.random() * 0.05)
            broker.kill()
            broker.start()
        if not line.connected:
            line.connect()
    began = time.monotonic()
    while line.waiting and time.monotonic() - began < 30:
        if not line.connected:
            line.connect()
        line.read(0.1)
    line.close()
    assert line.waiting == 0 and line.reconnects == len(kills) + 1
    wait_until(lambda: len(uplinked(broker)) >= 2400, 60)
    found = Counter((one["device"], one["seq"]) for one in uplinked(broker))
    assert len(found) == 2400 and set(found.values()) == {1}
    for device in ("d0", "d1", "d2"):
        order = [one["seq"] for one in uplinked(broker) if one["device"] == device]
        assert order == sorted(order)


LOGIN = client.login("bad", heartbeat=30)
GOOD = client.data([("d", [("n", Type.U32, 1)])], sequence=1, wants_ack=True)
#: What is wrong with it, the bytes, and the reason that is counted.
RUBBISH = [
    ("another magic", b"\x69" + LOGIN[1:], "magic"),
    ("HTTP", b"GET / HTTP/1.1\r\n\r\n", "magic"),
    ("MQTT", bytes.fromhex("100c00044d5154540402003c0000"), "magic"),
    ("data before the login", GOOD, "no_login"),
    ("another magic behind a good frame", LOGIN + GOOD + b"\x00" * 20, "magic"),
    ("a length that lies: too short", LOGIN + GOOD[:8] + (5).to_bytes(2, "big") + GOOD[10:], ""),
    ("a length of 65535 and nothing behind it", LOGIN + GOOD[:8] + b"\xff\xff" + GOOD[10:], ""),
    ("a length of 0", LOGIN + GOOD[:8] + b"\0\0", ""),
]


@pytest.mark.parametrize(("name", "data", "reason"), RUBBISH, ids=[name for name, *_ in RUBBISH])
def test_rubbish_costs_nobody_else_anything(broker: BrokerProcess, name: str, data: bytes, reason: str) -> None:
    """The connection is closed and the reason counted, or it waits for the rest of a frame; another gateway goes on."""
    good = Line(broker.ports["gateway"], "good")
    good.connect()
    with socket.create_connection(("127.0.0.1", broker.ports["gateway"]), timeout=5) as bad:
        bad.sendall(data)
        waits = "nothing behind" in name
        bad.settimeout(0.3 if waits else 5)
        try:
            while bad.recv(4096):
                pass
            assert not waits
        except TimeoutError:
            assert waits, "it was not closed"
        except ConnectionResetError:
            pass
    good.post(1, devices=1)
    good.settle()
    good.close()
    if reason:
        metrics = broker.metrics()
        assert metrics is not None
        key = f'iot_mqtt_gateway_connections_refused_total{{codec="gateway",reason="{reason}"}}'
        assert metrics.get(key) == 1, {name: value for name, value in metrics.items() if "refused" in name}


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "behind the login"])
def test_a_gateway_that_sends_no_more_hears_what_is_safe(
    broker: BrokerProcess, listen: Callable[..., Listener], *, waits: bool
) -> None:
    """It closes its side behind its frames, and reads to the end: all that was taken is acknowledged."""
    name = f"half-{waits}"
    listener = listen(broker, f"up/{name}/#")
    frames = b"".join(
        client.data([("d", [("n", Type.U32, number)])], sequence=number, wants_ack=True) for number in range(1, 1001)
    )
    inbox, came = client.Inbox(), list[client.Message]()
    with socket.create_connection(("127.0.0.1", broker.ports["gateway"]), timeout=20) as one:
        one.sendall(client.login(name) + (b"" if waits else frames))
        if waits:
            came += inbox.feed(one.recv(65_536))
            one.sendall(frames)
        one.shutdown(socket.SHUT_WR)
        while data := one.recv(65_536):
            came += inbox.feed(data)
    assert came[-1] == client.Ack(1000)
    wait_until(lambda: len(listener.of(f"up/{name}/d")) == 1000)


def test_frames_in_any_pieces_give_the_same_values(broker: BrokerProcess, listen: Callable[..., Listener]) -> None:
    """Cut at every byte, and fifty glued together."""
    listener = listen(broker, "up/#")
    frames = [client.data([("d", [("n", Type.U32, number)])], sequence=number) for number in range(1, 51)]
    with socket.create_connection(("127.0.0.1", broker.ports["gateway"])) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in client.login("cut") + frames[0] + frames[1]:
            one.sendall(bytes((byte,)))
        wait_until(lambda: len(listener.of("up/cut/d")) == 2)
    with socket.create_connection(("127.0.0.1", broker.ports["gateway"])) as one:
        one.sendall(client.login("glued") + b"".join(frames))
        wait_until(lambda: len(listener.of("up/glued/d")) == 50)
    assert [one["values"]["n"] for one in listener.of("up/glued/d")] == list(range(1, 51))


def test_a_command_waits_for_its_gateway_over_a_kill(broker: BrokerProcess, listen: Callable[..., Listener]) -> None:
    """Queued while the gateway is away, through a kill of the broker, and delivered to its next connection."""
    line = Line(broker.ports["gateway"], "line-2")
    line.connect()
    line.post(1, devices=1)
    line.settle()
    line.close()
    sender = listen(broker, "status/#")
    sender.publish("down/line-2/d0", {"speed": 3}, CorrelationData=b"c")
    wait_until(lambda: sender.of("status/"))
    broker.kill()
    broker.start()
    line.connect()
    began = time.monotonic()
    while not line.commands and time.monotonic() - began < 10:
        line.read(0.1)
    (ordered,) = line.commands
    assert (ordered.device, ordered.body) == ("d0", b'{"speed": 3}')
    line.close()


def test_frames_are_in_a_trace_of_their_gateway(broker: BrokerProcess, tmp_path: Path) -> None:
    """In hex, with what the codec made of them, and what was answered."""
    ctl = [sys.executable, "-m", "iot_mqtt", "ctl", "--data-dir", str(broker.data_dir)]
    line = Line(broker.ports["gateway"], "line-traced")
    line.connect()
    # A pipe that nobody reads could fill, and the trace would not end.
    told = tmp_path / "trace"
    command = [*ctl, "trace", "line-traced", "--seconds", "4", "--json"]
    with told.open("wb") as output, subprocess.Popen(command, stdout=output) as tracing:
        number = 0
        while tracing.poll() is None:
            number += 1
            line.post(number, devices=1)
            line.settle()
            line.read(0.1)
    found = [json.loads(one) for one in told.read_text(encoding="utf-8").splitlines()]
    line.close()
    frames = [one for one in found if one.get("packet") == "FRAME"]
    assert {one["direction"] for one in frames} == {"in", "out"}
    assert any(one.get("packet") == "EVENT" and '"device": "d0"' in one["text"] for one in found), found


def test_what_goes_over_a_link_can_be_captured_and_decoded(broker: BrokerProcess) -> None:
    """``ctl capture``, then ``frames decode`` of its file."""
    ctl = [sys.executable, "-m", "iot_mqtt", "ctl", "--data-dir", str(broker.data_dir)]
    begun = json.loads(subprocess.check_output([*ctl, "capture", "start", "gateway", "--json"], text=True))
    line = Line(broker.ports["gateway"], "line-3")
    line.connect()
    line.post(1, devices=2)
    line.settle()
    line.close()
    subprocess.check_call([*ctl, "capture", "stop", begun["id"]])
    decode = [sys.executable, "-m", "iot_mqtt", "frames", "decode", begun["file"], "--codec", "gateway"]
    found = [json.loads(line) for line in subprocess.check_output(decode, text=True).splitlines()]
    text = json.dumps(found)
    assert '"line-3"' in text and '"d0"' in text and '"d1"' in text
