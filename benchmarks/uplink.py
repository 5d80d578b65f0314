"""How many records a second go through the log into files: a broker, publishers at QoS 1, and the uplink behind them.

    python -m benchmarks.uplink                     200,000 messages of 100 bytes of JSON
    python -m benchmarks.uplink --messages 50000 --publishers 4

Publishing without an uplink, publishing with one, and draining what waited because the files were blocked; with 250
messages of one topic after the other, as gateways and loggers send them, and with ten topics in turn. What turning
messages into records costs is measured by itself.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.durable import Node, say
from benchmarks.flood import PAYLOAD, STRIDE, Publisher, packet, publish, text
from benchmarks.whole import cpu_seconds
from iot_mqtt.codec.runs import run_of
from iot_mqtt.ports.log import LogRun, Reference
from iot_mqtt.uplink.records import RulePlan
from iot_mqtt.uplink.rules import Rule, Rules
from iot_mqtt.values import NOBODY, CodecId, Origin

SECONDS = 300.0
#: What is published.
BODY = b'{"t":71.3,"n":1790000000,"state":"running","pad":"'
JSON = BODY + b"x" * (PAYLOAD - len(BODY) - 2) + b'"}'
#: What a gateway's codec makes.
READING = (
    b'{"id":"0.7-12345","node":"n","gateway":"p0","device":"d1","ts":1790000000000,"ingest_ts":1790000000000,"seq":7,'
    b'"values":{"t":71.3,"on":true},"codec":"acme","schema":3}'
)
#: So many messages have different packet ids.
BLOCKS = 260


class JsonPublisher(Publisher):
    """Publishes to its topics in turn, from blocks that were made before: it costs next to nothing."""

    def __init__(self, port: int, name: str, topics: Sequence[str]) -> None:
        super().__init__(port, name, topics)
        frames = [packet(0x32, text(topic) + bytes(2) + JSON) for topic in topics]
        block = b"".join(frames[number % len(frames)] for number in range(STRIDE))
        size, at = len(frames[0]), 4 + len(topics[0])
        self._blocks = []
        for number in range(BLOCKS):
            made, ids = bytearray(block), range(number * STRIDE + 1, (number + 1) * STRIDE + 1)
            made[at::size] = bytes(value >> 8 for value in ids)
            made[at + 1 :: size] = bytes(value & 255 for value in ids)
            self._blocks.append(bytes(made))

    def _next(self) -> bytes:
        if self.sent % STRIDE:
            self.sent += 1
            return b""
        self.sent += 1
        return self._blocks[self.sent // STRIDE % BLOCKS]


class UplinkNode(Node):
    """A broker with files behind it, or without."""

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__(folder, "iot-mqtt")
        self._uplink = kind

    def _command(self) -> list[str]:
        more = [f"uplink.kind={self._uplink}", "uplink.file.rotate_seconds=1", "listeners.gateway.enabled=false"]
        return [*super()._command(), *(word for setting in more for word in ("--set", setting))]

    @property
    def files(self) -> Path:
        return self.folder / "data" / "uplink"

    def lag(self) -> float:
        """Messages that are not in a finished file."""
        return self.metrics()["iot_mqtt_uplink_lag_messages"]


def _flood(node: Node, publishers: int, messages: int, topics: int) -> float:
    made = [
        JsonPublisher(node.port, f"p{number}", [f"up/p{number}/d{n}" for n in range(topics)])
        for number in range(publishers)
    ]
    return messages / publish(made, messages // publishers, SECONDS)


def _drained(node: UplinkNode) -> float:
    began = time.monotonic()
    while node.lag() and time.monotonic() - began < SECONDS:
        time.sleep(0.05)
    return time.monotonic() - began


def _records() -> None:
    """CPU of what the reader makes of runs of the log."""
    plan = RulePlan(Rules([Rule("up/#")]), "node-1")
    for name, payload, origin in (
        ("wrapped JSON", JSON, NOBODY),
        ("readings", READING, Origin(codec=CodecId("acme", "3"))),
    ):
        figures = {}
        for length in (1, 10, 250):
            run = run_of(b"up/p0/d1", [payload] * length, list(range(1, length + 1)))
            logged = LogRun(Reference(0, 0, 1 << 40, length), run, b"up/p0/d1", "p0", 1_790_000_000.5, origin)
            began, rounds = time.process_time(), 50_000 // length
            for _ in range(rounds):
                plan.records(logged, "0.12345678")
            figures[f"in_runs_of_{length}_us"] = (time.process_time() - began) / rounds / length * 1e6
        say(f"records of {name}", **figures)


def _blocked(node: UplinkNode, publishers: int, messages: int, topics: int) -> None:
    node.files.parent.mkdir()
    node.files.write_bytes(b"")
    node.start()
    rate = _flood(node, publishers, messages, topics)
    cpu = cpu_seconds(node.pid)
    node.files.unlink()
    began = time.monotonic()
    while node.metrics()["iot_mqtt_uplink_sent_messages_total"] == 0:
        time.sleep(0.01)
    waited = time.monotonic() - began
    say(
        f"draining a backlog, topics in turn: {topics}",
        published_per_s=rate,
        drained_per_s=messages / _drained(node),
        cpu_us=(cpu_seconds(node.pid) - cpu) / messages * 1e6,
        begins_after=waited,
    )
    size = sum(path.stat().st_size for path in node.files.rglob("*.jsonl"))
    say("a record in the files", bytes=size / messages)


def main(arguments: list[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="benchmarks.uplink")
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--publishers", type=int, default=4)
    told = parser.parse_args(arguments)
    each = max(1, told.messages // told.publishers // STRIDE) * STRIDE
    messages = each * told.publishers
    folder = Path(tempfile.mkdtemp(prefix="bench-uplink-"))
    started: list[Node] = []
    _records()
    try:
        for topics in (1, 10):
            for kind in ("none", "file"):
                started.append(node := UplinkNode(folder / f"{kind}{topics}", kind))
                node.start()
                cpu = cpu_seconds(node.pid)
                rate = _flood(node, told.publishers, messages, topics)
                more = f"{_drained(node):.1f}s" if kind == "file" else "-"
                say(
                    f"QoS 1, {PAYLOAD} bytes, topics in turn: {topics}, kind: {kind}",
                    published_per_s=rate,
                    cpu_us=(cpu_seconds(node.pid) - cpu) / messages * 1e6,
                    in_files_after=more,
                )
                node.kill()
            started.append(blocked := UplinkNode(folder / f"blocked{topics}", "file"))
            _blocked(blocked, told.publishers, messages, topics)
            blocked.kill()
    finally:
        for one in started:
            one.kill()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
