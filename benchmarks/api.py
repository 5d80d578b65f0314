"""What calls of the API cost messages: latencies of messages with and without calls beside them.

    python -m benchmarks api                         three nodes on Ignite and ZooKeeper of their own
    python -m benchmarks api --nodes 1               one node by itself
    python -m benchmarks api --scale 0.25            a quarter of the messages and of the calls a second

20,000 messages/s in an open loop, a third each of QoS 0, QoS 1, and QoS 1 to kept sessions, each third from one node to
the next; and 10,000 calls such as a dashboard makes, paced, over keep-alive connections to all nodes in turn. Quiet
phases and phases with calls take turns, so that a machine that gets slower does so for both. ``ratio`` is that of the
medians.

Everything shares the machine. ``idle`` says how much of it was left over, and ``out`` whether all messages went
through: where little is left without calls, latencies tell of the machine and not of the broker, and ``--scale`` finds
the load that fits.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from urllib.parse import quote

from benchmarks.cluster import Member
from benchmarks.durable import Node, say
from benchmarks.flood import dial, packet, take, text
from benchmarks.logins import at, connect
from benchmarks.whole import build, cpu_seconds
from iot_mqtt.app.engines import Cluster, Places, Plan

MESSAGES, CALLS = 20_000, 10_000
#: Calls a second: of 10,000, for 50 seconds.
PACE = 200.0
#: Name and options of the load generator; each gets a part of the messages.
LOADS = (("qos0", ()), ("qos1", ("--qos", "1")), ("kept", ("--qos", "1", "--durable")))
PAIRS = 10
MANY = 3_000_000
#: Clients of each node that only stay, with a subscription each, and retained messages: something to list.
CLIENTS, RETAINED = 300, 300
#: What a dashboard asks for, and how often of a hundred times.
MIX = {
    "status?node=*": 10,
    "nodes": 5,
    "cluster": 5,
    "log": 5,
    "listeners": 4,
    "plugins": 3,
    "uplink": 3,
    "clients?limit=50": 10,
    "sessions?limit=50": 8,
    "subscriptions?limit=50": 5,
    "retained?limit=50": 5,
    "slow?limit=50": 3,
    "clients/{client}": 10,
    "sessions/{client}": 8,
    "clients/{client}/attempts": 3,
    "clients/{client}/why": 4,
    "clients?limit=1000": 1,
    "publish": 8,
}


@dataclass(slots=True)
class Phase:
    """What came of some seconds."""

    #: Of each load: what its generator says.
    loads: dict[str, dict[str, float]]
    #: Seconds of each call, by what it asked for.
    calls: dict[str, list[float]]
    #: Shares of a core of each process, and of the machine what was left over.
    cpu: dict[str, float]
    idle: float
    failed: Counter[str] = field(default_factory=Counter)


@contextmanager
def grounds(count: int) -> Iterator[tuple[list[Node], dict[str, int]]]:
    """Nodes, and the ids of all processes by name; gone at the end."""
    with tempfile.TemporaryDirectory(prefix="bench-api-") as folder, ExitStack() as stack:
        processes: dict[str, int] = {}
        nodes: list[Node] = []
        if count == 1:
            nodes.append(Node(Path(folder) / "node-1", "iot-mqtt"))
        else:
            servers = Cluster(Path(folder) / "servers", Places.find(), die_with_parent=True)
            plan = Plan.make(ignite=2, zookeeper=1)
            stack.callback(servers.down, gently=False)
            servers.up(plan)
            nodes += [Member(Path(folder) / f"node-{number}", plan, number) for number in range(1, count + 1)]
            for member in plan.members:
                life = servers.process(member).life()
                assert life is not None
                processes[member.name] = life.pid
        for number, node in enumerate(nodes, 1):
            stack.callback(node.kill)
            node.start()
            processes[f"node {number}"] = node.pid
        yield nodes, processes


def fill(nodes: Sequence[Node]) -> ExitStack:
    """Let clients come that stay until it is closed."""
    stack = ExitStack()
    for number, node in enumerate(nodes, 1):
        for index in range(CLIENTS):
            sock = stack.enter_context(dial(node.port))
            filter = text(f"idle/{number}/{index}/#")
            sock.sendall(connect(f"idle-{number}-{index:04}") + packet(0x82, b"\0\1" + filter + b"\0"))
            take(sock, 4 + 5)
    with dial(nodes[0].port) as sock:
        kept = (packet(0x31, text(f"kept/{index:04}") + bytes(64)) for index in range(RETAINED))
        sock.sendall(connect("filler") + b"".join(kept) + b"\xc0\0")
        take(sock, 4 + 2)
    return stack


class Caller:
    """Asks a node, again and again, over one connection."""

    def __init__(self, node: Node) -> None:
        token = (node.folder / "data" / "admin.token").read_text().strip()
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection("127.0.0.1", node.admin, timeout=30)

    def call(self, what: str, client: str) -> int:
        """The status of the answer, once all of it is here."""
        path, body = what.replace("{client}", quote(client, safe="")), None
        if what == "publish":
            body = json.dumps({"topic": "from/the/api", "payload": "x" * 64, "qos": 1})
        self._connection.request("GET" if body is None else "POST", f"/api/v1/{path}", body, self._headers)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status


def call_for(callers: Sequence[Caller], nodes: int, pace: float, seconds: float, found: Phase, seed: int) -> None:
    """Calls at a pace, whatever they take: one that is late is measured from when it was due."""
    chance = random.Random(seed)
    count = int(pace * seconds)
    asked = chance.choices(list(MIX), list(MIX.values()), k=count)
    due = itertools.count()
    lock, began = threading.Lock(), time.monotonic()

    def work(caller: Caller) -> None:
        while True:
            with lock:
                number = next(due)
                client = f"idle-{chance.randrange(nodes) + 1}-{chance.randrange(CLIENTS):04}"
            if number >= count:
                return
            when = began + number / pace
            time.sleep(max(0.0, when - time.monotonic()))
            status = caller.call(asked[number], client)
            with lock:
                found.calls.setdefault(asked[number], []).append(time.monotonic() - when)
                if status != 200:
                    found.failed[f"{status} {asked[number]}"] += 1

    threads = [threading.Thread(target=work, args=(one,)) for one in callers]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def phase(
    nodes: Sequence[Node], processes: Mapping[str, int], rate: float, pace: float, seconds: float, seed: int
) -> Phase:
    """Messages for so many seconds, and calls beside them, unless ``pace`` is zero."""
    found = Phase({}, {}, {}, 0.0)
    running = {}
    before = {name: cpu_seconds(pid) for name, pid in processes.items()}
    quiet, began = _idle(), time.monotonic()
    for place, (name, options) in enumerate(LOADS):
        first, second = nodes[place % len(nodes)], nodes[(place + 1) % len(nodes)]
        words = ["pubsub", "--name", name, "--port", str(first.port), "--readers-port", str(second.port)]
        words += ["--pubs", str(PAIRS), "--count", str(MANY), "--rate", str(rate / len(LOADS))]
        words += ["--seconds", str(seconds), *options]
        running[name] = subprocess.Popen([str(build()), *words], stdout=subprocess.PIPE, text=True)
    if pace:
        # Two connections to each: a list does not hold up what comes behind it.
        callers = [Caller(node) for node in (*nodes, *nodes)]
        call_for(callers, len(nodes), pace, seconds, found, seed)
    for name, process in running.items():
        said, _ = process.communicate(timeout=seconds + 60)
        if not said:
            raise SystemExit(f"the load generator of {name} ended with {process.returncode}")
        found.loads[name] = json.loads(said)
    taken = time.monotonic() - began
    found.cpu = {name: (cpu_seconds(pid) - before[name]) / taken for name, pid in processes.items()}
    found.cpu["load"] = sum(one["load_cpu"] for one in found.loads.values())
    found.idle = (_idle() - quiet) / taken
    return found


def _idle() -> float:
    """Seconds that cores of this machine have had nothing to do."""
    return float(Path("/proc/uptime").read_text().split()[1])


def report(quiet: Sequence[Phase], busy: Sequence[Phase], rate: float) -> None:
    """Latencies of both kinds of phases, side by side."""
    for name, _ in LOADS:
        for figure in ("p50_us", "p99_us"):
            without, beside = (median(one.loads[name][figure] for one in phases) for phases in (quiet, busy))
            say(f"{name} {figure}", without=without, beside=beside, ratio=beside / without)
    for figure in ("p50_us", "p99_us"):
        without, beside = (
            median(sum(load[figure] for load in one.loads.values()) / len(LOADS) for one in phases)
            for phases in (quiet, busy)
        )
        say(f"all three, mean {figure}", without=without, beside=beside, ratio=beside / without)
    for what, phases in (("without calls", quiet), ("beside calls", busy)):
        out = median(sum(load["out_per_s"] for load in one.loads.values()) for one in phases)
        lost = sum(load["lost"] + load["disorder"] for one in phases for load in one.loads.values())
        cpu = " ".join(f"{name}={median(one.cpu[name] for one in phases):.0%}" for name in phases[0].cpu)
        idle = median(one.idle for one in phases)
        say(what, offered=rate, out=out, lost=lost, idle=f"{idle:.2f} cores", cpu=cpu)
    calls = {what: sorted(took for one in busy for took in one.calls.get(what, ())) for what in MIX}
    for what, took in {**calls, "all calls": sorted(itertools.chain(*calls.values()))}.items():
        if took:
            say(what, calls=float(len(took)), p50_ms=1e3 * at(took, 0.5), p99_ms=1e3 * at(took, 0.99))
    failed = sum((one.failed for one in busy), Counter())
    say("failed calls", sum=float(failed.total()), most=" ".join(map(str, failed.most_common(3))))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks api", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=3, help="1: by itself, without Ignite")
    parser.add_argument("--scale", type=float, default=1.0, help="of messages and of calls a second")
    parser.add_argument("--calls", type=int, default=CALLS, help="in all")
    parser.add_argument("--pace", type=float, default=PACE, help="calls a second")
    parser.add_argument("--rounds", type=int, default=5, help="phases of each kind")
    parser.add_argument("--warm", type=float, default=5.0, help="seconds before the first one")
    options = parser.parse_args(arguments)
    rate, pace = MESSAGES * options.scale, options.pace * options.scale
    seconds = options.calls / pace / options.rounds
    print(f"{options.nodes} nodes, {rate:,.0f} messages/s, {pace:.0f} calls/s", flush=True)
    quiet: list[Phase] = []
    busy: list[Phase] = []
    with grounds(options.nodes) as (nodes, processes), fill(nodes):
        phase(nodes, processes, rate, pace, options.warm, seed=0)
        for number in range(1, options.rounds + 1):
            quiet.append(phase(nodes, processes, rate, 0.0, seconds, number))
            busy.append(phase(nodes, processes, rate, pace, seconds, number))
    report(quiet, busy, rate)
    return 0


if __name__ == "__main__":
    sys.exit(main())
