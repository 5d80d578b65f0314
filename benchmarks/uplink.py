"""How many records a second go through the log into files: a broker, publishers at QoS 1, and the uplink behind them.

    python -m benchmarks.uplink                     200,000 messages of 100 bytes
    python -m benchmarks.uplink --messages 50000 --publishers 4

Publishing without an uplink, publishing with one, and draining what waited because the files were blocked.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.durable import Node, say
from benchmarks.flood import PAYLOAD, Publisher, publish

SECONDS = 300.0


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


def _flood(node: Node, publishers: int, messages: int) -> float:
    made = [
        Publisher(node.port, f"p{number}", [f"up/p{number}/d{n}" for n in range(10)]) for number in range(publishers)
    ]
    return messages / publish(made, messages // publishers, SECONDS)


def _drained(node: UplinkNode) -> float:
    began = time.monotonic()
    while node.lag() and time.monotonic() - began < SECONDS:
        time.sleep(0.05)
    return time.monotonic() - began


def main(arguments: list[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="benchmarks.uplink")
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--publishers", type=int, default=4)
    told = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="bench-uplink-"))
    started: list[Node] = []
    try:
        for kind in ("none", "file"):
            started.append(node := UplinkNode(folder / kind, kind))
            node.start()
            rate = _flood(node, told.publishers, told.messages)
            more = f"{_drained(node):.1f}s" if kind == "file" else "-"
            say(f"QoS 1, {PAYLOAD} bytes, uplink.kind: {kind}", published_per_s=rate, in_files_after=more)
            node.kill()
        started.append(blocked := UplinkNode(folder / "blocked", "file"))
        blocked.files.parent.mkdir()
        blocked.files.write_bytes(b"")
        blocked.start()
        rate = _flood(blocked, told.publishers, told.messages)
        blocked.files.unlink()
        began = time.monotonic()
        while blocked.metrics()["iot_mqtt_uplink_sent_messages_total"] == 0:
            time.sleep(0.01)
        waited = time.monotonic() - began
        say(
            "draining a backlog",
            published_per_s=rate,
            drained_per_s=told.messages / _drained(blocked),
            begins_after=waited,
        )
        size = sum(path.stat().st_size for path in blocked.files.rglob("*.jsonl"))
        say("a record in the files", bytes=size / told.messages)
    finally:
        for one in started:
            one.kill()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
