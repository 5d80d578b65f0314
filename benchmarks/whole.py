"""The whole broker beside mosquitto: medians and ratios, on this machine, now.

    python benchmarks/whole.py                      all scenarios, 3 rounds
    python benchmarks/whole.py --only p2p_q0 --rounds 5 --version 5
    python benchmarks/whole.py --scale 0.1          a quick look

Every run gets a freshly started broker on a free port with an empty data directory; the brokers take turns, so
that a busy moment of the machine hits both. The load generator is ``load/load.c``, built by gcc on first use.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_port

HERE = Path(__file__).parent
SOURCE = HERE / "load" / "load.c"
BUILD = HERE.parent / "build" / "load"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """One load, and the figures of it that are compared; True: more is better."""

    name: str
    what: str
    mode: str
    #: Connections or messages in all, or messages of each publisher.
    count: int
    options: dict[str, object]
    figures: dict[str, bool]


RATE = {"out_per_s": True, "broker_us": False}
#: More than any broker takes in the time given: those runs end by the clock.
MANY = 3_000_000
SCENARIOS = [
    Scenario("p2p_q0", "10 pairs, QoS 0", "pubsub", MANY, {"pubs": 10, "seconds": 2}, RATE),
    Scenario("p2p_q1", "10 pairs, QoS 1", "pubsub", MANY, {"pubs": 10, "seconds": 2, "qos": 1}, RATE),
    Scenario("p2p_q2", "10 pairs, QoS 2", "pubsub", MANY, {"pubs": 10, "seconds": 2, "qos": 2}, RATE),
    Scenario("fanout_q0", "1 to 50, QoS 0", "pubsub", MANY, {"shape": "fanout", "subs": 50, "seconds": 2}, RATE),
    Scenario(
        "fanin_drip",
        "200 to 1, a packet per send",
        "pubsub",
        MANY,
        {"shape": "fanin", "pubs": 200, "seconds": 2, "window": 50, "drip": True},
        RATE,
    ),
    Scenario(
        "many_drip",
        "2000 to 1, a packet per send",
        "pubsub",
        MANY,
        {"shape": "fanin", "pubs": 2000, "seconds": 2, "window": 20, "drip": True},
        RATE,
    ),
    Scenario(
        "connect",
        "CONNECT to CONNACK, 100 at once; memory of each while held",
        "connect",
        5_000,
        {"conc": 100},
        {"connects_per_s": True, "p99_us": False, "idle_bytes": False},
    ),
    Scenario(
        "latency_5k",
        "10 pairs, 5000 messages/s in an open loop",
        "pubsub",
        MANY,
        {"pubs": 10, "rate": 5_000, "seconds": 3},
        {"p50_us": False, "p99_us": False, "broker_us": False},
    ),
    Scenario(
        "retained",
        "20,000 set, then read by 4",
        "retained",
        20_000,
        {"subs": 4},
        {"set_per_s": True, "deliver_per_s": True},
    ),
]


class Broker:
    """A broker that runs for one load. ``command`` may use {port} and {dir}."""

    def __init__(self, name: str, command: Sequence[str], files: dict[str, str]) -> None:
        self.name, self._command, self._files = name, command, files

    @contextmanager
    def running(self) -> Iterator[tuple[int, int]]:
        """Start it; gives port and process id; stops it whatever happens."""
        folder = Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-"))
        port = free_port()
        words = {"port": port, "dir": folder}
        for name, text in self._files.items():
            (folder / name).write_text(text.format(**words))
        log = folder / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [word.format(**words) for word in self._command], stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )
        try:
            _wait_accepting(process, port, log)
            yield port, process.pid
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            shutil.rmtree(folder, ignore_errors=True)


def mosquitto() -> Broker:
    """Debian's mosquitto with its queue limits off and nothing written to disk."""
    conf = (
        f"user {os.environ.get('USER', 'root')}\nlistener {{port}} 127.0.0.1\nallow_anonymous true\n"
        "max_queued_messages 0\nmax_inflight_messages 0\nset_tcp_nodelay true\nlog_type error\n"
    )
    program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    return Broker("mosquitto", [program, "-c", "{dir}/mosquitto.conf"], {"mosquitto.conf": conf})


def ours() -> Broker:
    """This checkout, as ``make run`` has it."""
    script = Path(sys.executable).with_name("iot-mqtt")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "iot_mqtt"]
    settings = ["node.data_dir={dir}/data", "listeners.mqtt.port={port}", "listeners.ws.port=0", "admin.port=0"]
    settings += ["listeners.gateway.port=0"]
    sets = [word for setting in settings for word in ("--set", setting)]
    return Broker("iot-mqtt", [*program, "serve", *sets], {})


def command_line(text: str) -> Broker:
    """NAME='command with {port} and {dir}': any other broker."""
    name, _, command = text.partition("=")
    return Broker(name, ["sh", "-c", f"exec {command}"], {})


def _wait_accepting(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until a CONNECT is answered: an open port is not enough."""
    hello = b"\x10\x11\x00\x04MQTT\x04\x02\x00\x00\x00\x05probe"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"ended with {process.returncode}:\n{log.read_text()[-2000:]}")
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as sock:
                sock.sendall(hello)
                if sock.recv(4) == b"\x20\x02\x00\x00":
                    sock.sendall(b"\xe0\x00")
                    time.sleep(0.2)
                    return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"does not answer:\n{log.read_text()[-2000:]}")


def build() -> Path:
    """Compile the load generator if its source is newer."""
    program = BUILD / "load"
    if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise SystemExit("the load generator wants a C compiler: apt-get install gcc libc6-dev")
        subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", str(program), str(SOURCE)], check=True)
    return program


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    parts = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(parts[11]) + int(parts[12])) / TICKS


def resident_bytes(pid: int) -> int:
    """VmRSS."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found.group(1)) * 1024 if found else 0


def run_once(program: Path, broker: Broker, scenario: Scenario, version: int, scale: float) -> dict[str, float]:
    """One fresh broker under one load; its figures, and what went wrong under "failed"."""
    count = scenario.count if "seconds" in scenario.options else max(10, int(scenario.count * scale))
    options = {**scenario.options, "count": count, "version": version}
    if "seconds" in options:
        options["seconds"] = float(str(options["seconds"])) * scale
    words = [scenario.mode]
    for key, value in options.items():
        words += [f"--{key}"] if value is True else [f"--{key}", str(value)]
    with broker.running() as (port, pid):
        resident, cpu = resident_bytes(pid), cpu_seconds(pid)
        with subprocess.Popen(
            [str(program), *words, "--port", str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as load:
            assert load.stdin is not None
            assert load.stdout is not None
            assert load.stderr is not None
            line = load.stdout.readline()
            if not line:
                return {"failed": 1.0, **_said(load.stderr.read())}
            figures: dict[str, float] = json.loads(line)
            if scenario.mode == "connect":
                time.sleep(0.5)
                figures["idle_bytes"] = (resident_bytes(pid) - resident) / count
            figures["broker_cpu"] = cpu_seconds(pid) - cpu
            load.stdin.close()
            figures["failed"] = float(load.wait() != 0)
    messages = (figures.get("in_per_s", 0) + figures.get("out_per_s", 0)) * figures["seconds"]
    figures["broker_us"] = 1e6 * figures["broker_cpu"] / messages if messages else 0.0
    return figures


def _said(text: str) -> dict[str, float]:
    print(f"  {text.strip()}", file=sys.stderr)
    return {}


def report(scenario: Scenario, runs: dict[str, list[dict[str, float]]]) -> None:
    """Medians, and ratios to the first broker; "!" where something was lost or refused."""
    reference = next(iter(runs))
    print(f"{scenario.name}: {scenario.what}")
    for key, more in scenario.figures.items():
        cells, first = [], None
        for name, results in runs.items():
            values = [result[key] for result in results if key in result]
            if not values:
                cells.append(f"{name} failed")
                continue
            median = statistics.median(values)
            mark = "!" if any(result["failed"] for result in results) else ""
            if name == reference:
                first = median
                cells.append(f"{name} {_figure(median)}{mark}")
            else:
                ratio = f" x{median / first:.2f}" if first else ""
                cells.append(f"{name} {_figure(median)}{mark}{ratio}")
        print(f"  {key:<15}({'more' if more else 'less'})  " + "   ".join(cells))
    bound = [
        f"{name} {statistics.median(result.get('load_cpu', 0) for result in results):.0%}"
        for name, results in runs.items()
    ]
    print(f"  {'load generator':<22}CPU beside " + ", ".join(bound), flush=True)


def _figure(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="whole", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="names of scenarios, with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--version", type=int, choices=(4, 5), default=4, help="protocol: 4 is 3.1.1")
    parser.add_argument("--scale", type=float, default=1.0, help="shorter or longer runs")
    parser.add_argument("--broker", action="append", default=[], metavar="NAME=COMMAND", help="one more broker")
    parser.add_argument("--without", action="append", default=[], metavar="NAME", help="leave a broker out")
    parser.add_argument("--json", type=Path, help="also write every single figure here")
    options = parser.parse_args(arguments)
    wanted = options.only.split(",") if options.only else [scenario.name for scenario in SCENARIOS]
    if unknown := set(wanted) - {scenario.name for scenario in SCENARIOS}:
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    brokers = [mosquitto(), ours(), *map(command_line, options.broker)]
    brokers = [broker for broker in brokers if broker.name not in options.without]
    program = build()
    everything, failed = {}, False
    for scenario in SCENARIOS:
        if scenario.name not in wanted:
            continue
        runs: dict[str, list[dict[str, float]]] = {broker.name: [] for broker in brokers}
        for _ in range(options.rounds):
            for broker in brokers:
                runs[broker.name].append(run_once(program, broker, scenario, options.version, options.scale))
        report(scenario, runs)
        everything[scenario.name] = runs
        failed |= any(result["failed"] for results in runs.values() for result in results)
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
