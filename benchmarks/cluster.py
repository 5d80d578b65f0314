"""What it costs that a message crosses from one node to another, on real Ignite servers and ZooKeeper of its own.

    python -m benchmarks cluster                    all parts
    python -m benchmarks cluster --only latency
    python -m benchmarks cluster --seconds 10
    python -m benchmarks cluster --grid synced      the grid on disk, each commit synced (``FSYNC``); or ``cached``
    python -m benchmarks cluster --one-port         one node, then two, on one port of this machine (``reuse_port``)

Publishers are connected to the first node, subscribers to the second. Two Ignite servers, one ZooKeeper server, two
nodes and the load generator share the machine, which should have nothing else to do; ``cpu`` is the share of a core
that each took. The servers begin cold, so each load runs for a while before it is measured (``--warm``).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.durable import Node, say
from benchmarks.whole import build, cpu_seconds
from iot_mqtt.app.engines import Cluster, Places, Plan
from iot_mqtt.app.engines.snippet import settings
from tests.ports import free_port

PAIRS = 10
MANY = 3_000_000


class Member(Node):
    """One of several nodes. With ``tls`` (a listener's certificate and key) it has a port for that, too."""

    def __init__(self, folder: Path, plan: Plan, number: int, tls: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, "iot-mqtt")
        self.tls_port = free_port()
        servers = plan.addresses("ignite", "gateway")
        # Each through a server of its own: what crosses between nodes crosses between servers, too.
        mine = [servers[number % len(servers)]]
        self._settings = {**settings(plan), "grid.ignite.gateway": mine, "node.id": f"bench-{number}"}
        for name, value in (tls or {}).items():
            self._settings[f"listeners.mqtts.tls.{name}"] = value
            self._settings["listeners.mqtts.port"] = self.tls_port

    def _command(self) -> list[str]:
        told = [f"{key}={_text(value)}" for key, value in self._settings.items()]
        return [*super()._command(), *(word for setting in told for word in ("--set", setting))]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True, slots=True)
class Grounds:
    """Two nodes, and what they stand on."""

    nodes: tuple[Member, Member]
    #: Process ids by name.
    processes: dict[str, int]

    def busy(self) -> dict[str, float]:
        """Process time of each so far, in seconds."""
        return {name: cpu_seconds(pid) for name, pid in self.processes.items()}


@contextmanager
def grounds(grid: str, tls: Mapping[str, str] | None = None) -> Iterator[Grounds]:
    """Servers and nodes, all gone at the end."""
    with tempfile.TemporaryDirectory(prefix="bench-cluster-") as folder, ExitStack() as stack:
        servers = Cluster(Path(folder) / "servers", Places.find(), die_with_parent=True)
        plan = Plan.make(ignite=2, zookeeper=1, persistence=grid != "memory", synced=grid == "synced")
        stack.callback(servers.down, gently=False)
        servers.up(plan)
        nodes = Member(Path(folder) / "a", plan, 1, tls), Member(Path(folder) / "b", plan, 2, tls)
        for node in nodes:
            stack.callback(node.kill)
            node.start()
        processes = {"node a": nodes[0].pid, "node b": nodes[1].pid}
        for member in plan.members:
            life = servers.process(member).life()
            assert life is not None
            processes[member.name] = life.pid
        yield Grounds(nodes, processes)


@dataclass(frozen=True, slots=True)
class Part:
    """One load, and which of its figures are told."""

    name: str
    what: str
    options: tuple[str, ...]
    figures: tuple[str, ...]


PARTS = (
    # Not as fast as it goes: what a link cannot carry of QoS 0 is dropped, and a closed loop never recovers from that.
    Part("forward", "QoS 0, 64 bytes, 120,000 messages/s offered", ("--rate", "120000"), ("out_per_s", "p99_us")),
    Part("latency", "QoS 0, 64 bytes, 2000 messages/s in an open loop", ("--rate", "2000"), ("p50_us", "p99_us")),
    Part("plain", "QoS 1, 64 bytes, to receivers that are not kept", ("--qos", "1"), ("out_per_s",)),
    Part("durable", "QoS 1, 64 bytes, to receivers with kept sessions", ("--qos", "1", "--durable"), ("out_per_s",)),
    Part(
        "durable-latency",
        "the same, 2000 messages/s in an open loop",
        ("--qos", "1", "--durable", "--rate", "2000"),
        ("p50_us", "p99_us"),
    ),
)


def load(ground: Grounds, part: Part, seconds: float) -> dict[str, float]:
    """What the load generator found."""
    first, second = ground.nodes
    words = ["pubsub", "--port", str(first.port), "--readers-port", str(second.port), "--pubs", str(PAIRS)]
    words += ["--count", str(MANY), "--seconds", str(seconds), *part.options]
    done = subprocess.run([str(build()), *words], capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(ground: Grounds, part: Part, seconds: float) -> None:
    """One load from the first node to the second."""
    before, began = ground.busy(), time.monotonic()
    found = load(ground, part, seconds)
    taken = time.monotonic() - began
    after = ground.busy()
    busy = {name: (after[name] - before[name]) / taken for name in before}
    messages = found["out_per_s"] * found["seconds"]
    say(
        part.what,
        **{name: found[name] for name in part.figures},
        us_a=1e6 * (after["node a"] - before["node a"]) / max(1.0, messages),
        us_b=1e6 * (after["node b"] - before["node b"]) / max(1.0, messages),
        lost=found["lost"],
        disorder=found["disorder"],
        cpu=" ".join(f"{name}={share:.0%}" for name, share in {**busy, "load": found["load_cpu"]}.items()),
    )


class Sharer(Member):
    """One of several nodes on one port; the kernel spreads connections over them."""

    def __init__(self, folder: Path, plan: Plan, number: int, port: int) -> None:
        super().__init__(folder, plan, number)
        self.port = port
        self._settings["listeners.mqtt.reuse_port"] = True

    def start(self, timeout: float = 120) -> float:
        """Seconds until it is ready: who connects may reach another one."""
        seconds, began = super().start(timeout), time.monotonic()
        while time.monotonic() - began < timeout:
            with suppress(OSError, ValueError):
                if self.metrics():
                    break
            time.sleep(0.1)
        return seconds


#: Loads for nodes on one port: publishers and subscribers are on whichever node the kernel gave them.
SHARED = (
    Part("QoS 0", "QoS 0, 64 bytes, each publisher to a subscriber of its own", ("--pubs", "40"), ("out_per_s",)),
    Part("QoS 1", "QoS 1, likewise", ("--pubs", "40", "--qos", "1"), ("out_per_s",)),
    Part("paced", "QoS 1, 20,000 messages/s offered", ("--pubs", "40", "--qos", "1", "--rate", "20000"), ("p99_us",)),
)


def one_port(seconds: float) -> None:
    """The same loads with one node and with two."""
    for count in (1, 2):
        with tempfile.TemporaryDirectory(prefix="bench-port-") as folder, ExitStack() as stack:
            servers = Cluster(Path(folder) / "servers", Places.find(), die_with_parent=True)
            plan = Plan.make(ignite=1, zookeeper=1)
            stack.callback(servers.down, gently=False)
            servers.up(plan)
            port = free_port()
            nodes = [Sharer(Path(folder) / f"node-{number}", plan, number, port) for number in range(1, count + 1)]
            for node in nodes:
                stack.callback(node.kill)
                node.start()
            for part in SHARED:
                words = ["pubsub", "--port", str(port), "--count", str(MANY), "--seconds", str(seconds), *part.options]
                before = [cpu_seconds(node.pid) for node in nodes]
                found = json.loads(subprocess.run([str(build()), *words], capture_output=True, check=True).stdout)
                taken = [cpu_seconds(node.pid) - then for node, then in zip(nodes, before, strict=True)]
                say(
                    f"{count} on one port, {part.what}",
                    **{name: found[name] for name in part.figures},
                    us=1e6 * sum(taken) / max(1.0, found["out_per_s"] * found["seconds"]),
                    lost=found["lost"],
                    cpu=" ".join(f"{one / found['seconds']:.0%}" for one in taken),
                )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are named."""
    parser = argparse.ArgumentParser(prog="cluster", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="names of parts, with commas between: " + ", ".join(part.name for part in PARTS))
    parser.add_argument("--seconds", type=float, default=5.0, help="of publishing, in each part")
    parser.add_argument("--warm", type=float, default=5.0, help="seconds of each load before it is measured")
    parser.add_argument("--grid", choices=("memory", "cached", "synced"), default="memory", help="where the grid is")
    parser.add_argument("--one-port", action="store_true", help="one node, then two, on one port of this machine")
    options = parser.parse_args(arguments)
    if options.one_port:
        one_port(options.seconds)
        return 0
    wanted = options.only.split(",") if options.only else [part.name for part in PARTS]
    if unknown := set(wanted) - {part.name for part in PARTS}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    with grounds(options.grid) as ground:
        for part in PARTS:
            if part.name in wanted:
                if options.warm:
                    load(ground, part, options.warm)
                measure(ground, part, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
