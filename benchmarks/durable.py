"""Durable sessions, figure by figure: how fast, how large, how soon back.

    python -m benchmarks durable                    all parts
    python -m benchmarks durable --only publish,latency
    python -m benchmarks durable --scale 0.1        a quick look

Every part starts its brokers afresh in a directory of its own. The machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import bare_disk
from benchmarks.flood import PAYLOAD, Publisher, Reader, connect, dial, drain, make_session, make_sessions, publish
from benchmarks.whole import build, cpu_seconds, resident_bytes
from tests.ports import free_port

PUBLISHERS = 10
#: Seconds of publishing, at most.
SECONDS = 5.0
LATENCY_ROUNDS = 5
MIB = 1 << 20


class Node:
    """A broker on a directory, started and killed as often as a part wants."""

    def __init__(self, folder: Path, kind: str, lines: str = "") -> None:
        self.folder, self._kind, self._lines = folder, kind, lines
        folder.mkdir(parents=True)
        self.port, self.admin = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, timeout: float = 120) -> float:
        """Seconds from the start of the process to the first CONNACK."""
        with (self.folder / "log").open("ab") as log:
            began = time.monotonic()
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        while time.monotonic() - began < timeout:
            if self._process.poll() is not None:
                raise SystemExit((self.folder / "log").read_text()[-2000:])
            try:
                with dial(self.port) as sock:
                    sock.sendall(connect("probe").replace(b"\x04\x00\x00\x00", b"\x04\x02\x00\x00"))
                    if sock.recv(4) == b"\x20\x02\x00\x00":
                        return time.monotonic() - began
            except OSError:
                time.sleep(0.01)
        raise SystemExit("no CONNACK")

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def peak(self) -> int:
        """Most resident bytes since the start."""
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        return int(found.group(1)) * 1024 if found else 0

    def disk(self) -> int:
        """Bytes of its data."""
        return sum(path.stat().st_size for path in (self.folder / "data").rglob("*") if path.is_file())

    def metrics(self) -> dict[str, float]:
        """Samples without labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
        found = re.findall(r"^(\w+) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in found}

    def _command(self) -> list[str]:
        if self._kind == "mosquitto":
            return self._mosquitto()
        script = Path(sys.executable).with_name("iot-mqtt")
        program = [str(script)] if script.exists() else [sys.executable, "-m", "iot_mqtt"]
        settings = [f"node.data_dir={self.folder}/data", f"listeners.mqtt.port={self.port}", "listeners.ws.port=0"]
        settings += [f"admin.port={self.admin}", "mqtt.sys_interval=0", "listeners.gateway.port=0"]
        return [*program, "serve", *(word for setting in settings for word in ("--set", setting))]

    def _mosquitto(self) -> list[str]:
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        conf = self.folder / "mosquitto.conf"
        conf.write_text(
            f"user {os.environ.get('USER', 'root')}\nlistener {self.port} 127.0.0.1\nallow_anonymous true\n"
            "max_queued_messages 0\nmax_inflight_messages 0\nset_tcp_nodelay true\nlog_type error\n"
            f"persistence true\npersistence_location {data}/\n{self._lines}"
        )
        return [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", str(conf)]


@contextmanager
def node(kind: str = "iot-mqtt", lines: str = "") -> Iterator[Node]:
    """A broker that is not running yet; gone at the end, with its directory."""
    folder = Path(tempfile.mkdtemp(prefix="bench-durable-"))
    broker = Node(folder / kind, kind, lines)
    try:
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


def say(what: str, **figures: float | str) -> None:
    """One line, and the same for programs with --json."""
    cells = [f"{name} {value if isinstance(value, str) else _figure(value)}" for name, value in figures.items()]
    print(f"  {what:<44} " + "   ".join(cells), flush=True)
    RESULTS[what] = figures


RESULTS: dict[str, dict[str, float | str]] = {}


def _figure(value: float) -> str:
    return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"


def publish_part(scale: float) -> None:
    """QoS 1, 100 bytes, to one durable session that is away; then it comes back."""
    kinds = {
        "iot-mqtt, each message in a synced log": ("iot-mqtt", ""),
        "mosquitto, persistence on (syncs every 30 min)": ("mosquitto", ""),
        # Saves all it has, after so many changes; acknowledges before.
        "mosquitto, saves after every 1000 changes": (
            "mosquitto",
            "autosave_on_changes true\nautosave_interval 1000\n",
        ),
    }
    for name, (kind, lines) in kinds.items():
        with node(kind, lines) as broker:
            broker.start()
            make_session(broker.port, "away", "f/#")
            publishers = [Publisher(broker.port, f"p{index}", [f"f/{index}"]) for index in range(PUBLISHERS)]
            cpu = cpu_seconds(broker.pid)
            seconds = publish(publishers, 10_000_000, SECONDS * scale)
            total = sum(one.sent for one in publishers)
            busy = cpu_seconds(broker.pid) - cpu
            reader = Reader.enter(broker.port, "away", "f/0")
            taken = drain([reader], total)
            say(
                name,
                acked_per_s=total / seconds,
                cpu_us=1e6 * busy / total,
                drained_per_s=reader.received / taken,
                missing=total - reader.received,
                disorder=reader.disorder,
            )


class Paced(NamedTuple):
    """5000 messages/s to ten receivers, in microseconds."""

    p50: float
    p99: float
    mean_commit: float
    commits: float
    wrong: float


def _paced(program: Path, broker: Node, seconds: float, *more: str) -> Paced:
    """QoS 1, 10 pairs, in an open loop."""
    words = ["--pubs", "10", "--rate", "5000", "--seconds", str(seconds), "--count", "3000000", "--qos", "1"]
    before = broker.metrics()
    command = [str(program), "pubsub", "--port", str(broker.port), *words, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(done.stderr)
    found, after = json.loads(done.stdout), broker.metrics()
    commits, spent = (
        after[name] - before[name] for name in ("iot_mqtt_grid_commits_total", "iot_mqtt_grid_commit_seconds_total")
    )
    mean = 1e6 * spent / max(1, commits)
    return Paced(found["p50_us"], found["p99_us"], mean, commits, found["lost"] + found["disorder"])


def latency_part(scale: float) -> None:
    """10 pairs, 5000 messages/s in an open loop, QoS 1: receivers that end with their connection, and durable ones.

    In turns with what the disk alone makes somebody wait who comes at any moment, with as many syncs a second and no
    broker. The figures are medians of the rounds. ``limit_us`` is twice the ephemeral p99 and one commit, which is that
    of the disk alone, its p99 as well; with the mean commit in its place, ``with_mean_commit_us``.
    """
    program, seconds = build(), 4 * scale
    ephemeral: list[Paced] = []
    durable: list[Paced] = []
    disk: list[bare_disk.Waits] = []
    for _ in range(LATENCY_ROUNDS):
        with node() as broker:
            broker.start()
            ephemeral.append(_paced(program, broker, seconds))
        with node() as broker:
            broker.start()
            durable.append(_paced(program, broker, seconds, "--durable"))
            disk.append(bare_disk.measure(broker.folder, seconds, seconds / max(1, durable[-1].commits), 1024))
    p99 = [
        _say_rounds("ephemeral receivers", ephemeral, wrong=sum(one.wrong for one in ephemeral)),
        _say_rounds("durable receivers", durable, wrong=sum(one.wrong for one in durable)),
        _say_rounds("the disk alone", disk, sync_us=median(one.sync_mean for one in disk)),
    ]
    limit, mean = 2 * p99[0] + p99[2], median(one.mean_commit for one in durable)
    told = {"limit_us": limit, "with_mean_commit_us": 2 * p99[0] + mean}
    say("durable against that", of_the_limit=f"{p99[1] / limit:.2f}", **told)


def _say_rounds(name: str, rounds: Sequence[Paced] | Sequence[bare_disk.Waits], **more: float) -> float:
    """The medians, and each p99; the median p99."""
    p50, p99 = median(one.p50 for one in rounds), median(one.p99 for one in rounds)
    say(name, p50_us=p50, p99_us=p99, each=" ".join(f"{one.p99:,.0f}" for one in rounds), **more)
    return p99


def backlog_part(scale: float) -> None:
    """1,000,000 messages for 100 sessions: cold start, memory, order; and one that wants 1 in 1000 of them."""
    sessions, topics, total = 100, 10, int(1_000_000 * scale)
    with node() as broker:
        broker.start()
        for index in range(sessions):
            make_session(broker.port, f"s{index:02}", f"d/{index:02}/+")
        make_session(broker.port, "picky", "d/42/7")
        names = [f"d/{index:02}/{number}" for index in range(sessions) for number in range(topics)]
        publishers = [Publisher(broker.port, f"p{index}", names[index::PUBLISHERS]) for index in range(PUBLISHERS)]
        seconds = publish(publishers, total // PUBLISHERS, 300)
        total = sum(one.sent for one in publishers)
        say("filled", messages=total, per_s=total / seconds, disk_mib=broker.disk() / MIB)
        broker.kill()
        started = broker.start()
        say("cold start", first_connack_s=started, rss_mib=resident_bytes(broker.pid) / MIB)
        _pick(broker, total)
        readers = [Reader.enter(broker.port, f"s{index:02}", names[0]) for index in range(sessions)]
        taken = drain(readers, total)
        received = sum(one.received for one in readers)
        say(
            "drained by 100 sessions",
            per_s=received / taken,
            missing=total - received,
            disorder=sum(one.disorder for one in readers),
            peak_rss_mib=broker.peak() / MIB,
        )


def _pick(broker: Node, total: int) -> None:
    before = broker.metrics()
    wanted = total // 1000
    reader = Reader.enter(broker.port, "picky", "d/42/7")
    taken = drain([reader], wanted, 60)
    after = broker.metrics()
    read = after["iot_mqtt_log_read_bytes_total"] - before["iot_mqtt_log_read_bytes_total"]
    stored = after["iot_mqtt_log_bytes"] / max(1.0, after["iot_mqtt_log_messages"])
    say(
        "1 in 1000 of them",
        read_bytes=read,
        needed_bytes=wanted * stored,
        ratio=read / max(1.0, wanted * stored),
        seconds=taken,
        missing=wanted - reader.received,
        disorder=reader.disorder,
    )


def idle_part(scale: float) -> None:
    """100,000 durable sessions with nothing waiting."""
    count = int(100_000 * scale)
    with node() as broker:
        broker.start()
        broker.kill()
        broker.start()
        empty = resident_bytes(broker.pid)
        began = time.monotonic()
        for start in range(0, count, 1000):
            make_sessions(broker.port, [f"idle{number}" for number in range(start, start + 1000)], f"idle/{start}")
        made = time.monotonic() - began
        disk = broker.disk()
        broker.kill()
        started = broker.start()
        say(
            f"{count:,} sessions",
            made_per_s=count / made,
            first_connack_s=started,
            bytes_of_memory_each=(resident_bytes(broker.pid) - empty) / count,
            bytes_of_disk_each=disk / count,
        )


def once_part(scale: float) -> None:
    """The same messages for one session, and for 10,000.

    Pages are compressed, and files made longer than they have to be: a few messages would cost nothing at all.
    """
    messages = int(200_000 * scale)
    for count in (1, int(10_000 * scale)):
        with node() as broker:
            broker.start()
            make_sessions(broker.port, [f"s{number}" for number in range(count)], "one/#")
            publisher = Publisher(broker.port, "p", ["one/x"])
            publish([publisher], 1, 10)
            before = broker.disk()
            publish([publisher], messages + 1, 60)
            each = (broker.disk() - before) / (publisher.sent - 1)
            say(f"{publisher.sent - 1:,} messages for {count:,} sessions", bytes_each=each, payload=PAYLOAD)


PARTS: dict[str, Callable[[float], None]] = {
    "publish": publish_part,
    "latency": latency_part,
    "backlog": backlog_part,
    "idle": idle_part,
    "once": once_part,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are named."""
    parser = argparse.ArgumentParser(prog="durable", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="names of parts, with commas between: " + ", ".join(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="fewer messages and sessions, shorter runs")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args(arguments)
    wanted = options.only.split(",") if options.only else list(PARTS)
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    for name in wanted:
        print(f"{name}: {(PARTS[name].__doc__ or '').strip().splitlines()[0]}", flush=True)
        PARTS[name](options.scale)
    if options.json:
        options.json.write_text(json.dumps(RESULTS, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
