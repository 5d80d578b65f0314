"""8,000 connections at once to a node and its Ignite server, of which 4,000 are silent and 200 slow; prints figures.

    python -m tests.abuse [--scale 1.0] [--seconds 10] [--timeout 10] [--no-ignite] [--set KEY=VALUE]

First the silent and slow ones alone, for what they take of memory; then all of them at once. Ends with 1 if a good
client was not served, or had to wait for more than three seconds (of a hundred, one may); if a silent or slow one is
still connected after its time-out; if descriptors do not come back; or if half-open connections take more memory than
they may.

8,000 connections take some six seconds of a processor, their clients' side included. Where a machine has much else to
do, give the good ones more seconds to come in, and a time-out as long, so that all are there at once.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "system"))

from systemkit.certificates import Authority
from systemkit.process import BrokerProcess, Options, ServerTls

from tests.abuse import plans
from tests.enginekit.servers import Server, running

#: By port: good, silent and slow clients; 8,000 in all.
HERD: Final = {
    "mqtt": (1700, 1700, 60),
    "mqtts": (1100, 1000, 50),
    "ws": (600, 500, 40),
    "gateway": (300, 500, 30),
    "admin": (70, 150, 10),
    "messaging": (30, 150, 10),
}
#: Seconds after which those that say nothing have to be gone: the time-outs and some air.
AIR: Final = 3.0
#: Seconds that one good client of a hundred may have to wait for longer than.
GOOD: Final = 3.0
#: Of half-open connections: what their bytes and handshakes may take together, and each besides.
MIB: Final = 1 << 20
BYTES: Final = 16 * MIB
HANDSHAKE: Final = 50_000
EACH: Final = 8_000


class Watched:
    """The most memory, and descriptors, of a process while it is watched."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._over = threading.Event()
        self.memory = dict.fromkeys(pids, 0)
        self.descriptors = dict.fromkeys(pids, 0)

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            for name, pid in self._pids.items():
                self.memory[name] = max(self.memory[name], memory(pid))
                self.descriptors[name] = max(self.descriptors[name], descriptors(pid))


def processor(pid: int) -> tuple[float, float]:
    """Seconds that the first thread of a process had a processor, and that it had to wait for one."""
    ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(ran) / 1e9, int(waited) / 1e9


def memory(pid: int) -> int:
    """Resident bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def descriptors(pid: int) -> int:
    """Open ones. To list thousands of them ten times a second would hold up the process, and its clients by seconds."""
    folder = f"/proc/{pid}/fd"
    return os.stat(folder).st_size or len(os.listdir(folder))


class Campaign:
    """A node, perhaps an Ignite server, and the herd."""

    def __init__(self, broker: BrokerProcess, ignite: Server | None, ca: Path, told: argparse.Namespace) -> None:
        ports = broker.ports
        self._ports = {
            "mqtt": plans.mqtt(ports["mqtt"]),
            "mqtts": plans.mqtt(ports["mqtts"], ca),
            "ws": plans.websocket(ports["ws"]),
            "gateway": plans.gateways(ports["gateway"]),
            "admin": plans.admin(ports["admin"]),
        }
        self._pids = {"node": broker.pid}
        if ignite is not None:
            self._ports["messaging"] = plans.messaging(ignite.ports["gateway"], ignite.token)
            self._pids["ignite"] = ignite.pid
        self._broker = broker
        self._scale: float = told.scale
        self._seconds: float = told.seconds
        self._timeout: float = told.timeout
        self.faults: list[str] = []

    def _plan(self, *, good: bool, bad: bool) -> dict[str, Any]:
        ports = {}
        for name, port in self._ports.items():
            counts = [max(1, int(count * self._scale)) for count in HERD[name]]
            ports[name] = port | {
                "good": counts[0] * good,
                "silent": counts[1] * bad,
                "slow": counts[2] * bad,
            }
        seconds = self._seconds * (1.0 if good else 0.2)
        return {
            "ports": ports,
            "seconds": seconds,
            "patience": self._timeout + 20.0,
            "stay": self._timeout if good else 0.0,
        }

    def run(self) -> None:
        before = {name: descriptors(pid) for name, pid in self._pids.items()}
        self._alone()
        self._back(before)
        watched, (ran, waited) = Watched(self._pids), processor(self._broker.pid)
        with watched.watching():
            bad, good = plans.begin(self._plan(good=False, bad=True)), plans.begin(self._plan(good=True, bad=False))
            figures = plans.figures(bad, 600), plans.figures(good, 600)
        now = processor(self._broker.pid)
        print(f"node: {now[0] - ran:.1f} s of a processor, for which it waited {now[1] - waited:.1f} s")
        for what, found in zip(("bad", "good"), figures, strict=True):
            own = found["herd"]
            print(
                f"the {what} ones' own process: {own['late']:.3f} s late at most, {own['cpu']} s of a processor,"
                f" for which it waited {own['waited']} s"
            )
        for name in self._ports:
            for kind in ("silent", "slow"):
                self._check_closed(name, kind, figures[0][name][kind])
            for kind in ("good", "again"):
                self._check_good(name, kind, figures[1][name][kind])
        for name in self._pids:
            print(f"{name}: {watched.descriptors[name]} descriptors, {watched.memory[name] / MIB:.0f} MiB at most")
        self._back(before)
        samples = self._broker.metrics() or {}
        for name, value in samples.items():
            if value and ("refused" in name or "loop_lag_seconds_sum" in name or "loop_lag_seconds_count" in name):
                print(f"  {name} {value:g}")
        self._broker.assert_no_traceback()

    def _alone(self) -> None:
        """Silent and slow ones, and the memory that they take of the node."""
        calm, watched = memory(self._pids["node"]), Watched(self._pids)
        plan = self._plan(good=False, bad=True)
        with watched.watching():
            figures = plans.figures(plans.begin(plan), 600)
        count = sum(one["silent"] + one["slow"] for one in plan["ports"].values())
        handshakes = plan["ports"]["mqtts"]["slow"]
        taken, limit = watched.memory["node"] - calm, BYTES + handshakes * HANDSHAKE + count * EACH
        print(f"half-open alone: {count} connections, {taken / MIB:.1f} MiB, of {limit / MIB:.1f} that they may take")
        if taken > limit:
            self.faults.append(f"half-open connections took {taken / MIB:.1f} MiB")
        for name in self._ports:
            for kind in ("silent", "slow"):
                self._check_closed(name, kind, figures[name][kind])

    def _check_closed(self, port: str, kind: str, found: Mapping[str, Any]) -> None:
        print(
            f"{port:10} {kind:7} {found['count']:5} closed after {found['shortest']:.1f} to {found['longest']:.1f} s"
            f" {found['faults'] or ''}"
        )
        if "left open" in found["faults"] or found["longest"] > self._timeout + AIR:
            self.faults.append(f"{port}: {kind} connections stay")

    def _check_good(self, port: str, kind: str, found: Mapping[str, Any]) -> None:
        if kind == "again" and not found["count"]:
            return
        print(
            f"{port:10} {kind:7} {found['count']:5} p50 {found['p50']:.3f} p99 {found['p99']:.3f}"
            f" longest {found['longest']:.3f} s {found['faults'] or ''}"
        )
        if found["faults"] or not found["count"] or found["p99"] > GOOD:
            self.faults.append(f"{port}: good clients were not served, or late ({kind})")

    def _back(self, before: Mapping[str, int]) -> None:
        """Descriptors are what they were, but for a few of the log's files."""
        for name, pid in self._pids.items():
            end = time.monotonic() + 10
            while descriptors(pid) > before[name] + 16 and time.monotonic() < end:
                time.sleep(0.1)
            print(f"{name}: {descriptors(pid)} descriptors, {before[name]} before; {memory(pid) / MIB:.0f} MiB")
            if descriptors(pid) > before[name] + 16:
                self.faults.append(f"{name}: descriptors do not come back")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.abuse", description="Attacks all ports of a node at once.")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=10.0, help="in which the good ones come")
    parser.add_argument("--timeout", type=float, default=10.0, help="for CONNECT, and for requests to the admin port")
    parser.add_argument("--no-ignite", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    told = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iot-mqtt-abuse-")))
        authority = Authority(folder)
        cert, key = authority.server()
        times = {"mqtt.connect_timeout": told.timeout, "admin.request_timeout": told.timeout}
        settings: dict[str, object] = times | dict(one.split("=", 1) for one in told.set)
        ignite = None
        if not told.no_ignite:
            servers = stack.enter_context(running(folder / "servers", ignite=1))
            alone = {"registry.kind": "static", "registry.static.nodes": "[abused]", "node.id": "abused"}
            ignite, settings = servers.ignite[0], servers.settings() | alone | settings
        broker = BrokerProcess(folder / "node", Options(ServerTls(cert, key), settings)).start()
        stack.callback(broker.close)
        campaign = Campaign(broker, ignite, authority.file, told)
        campaign.run()
    for fault in campaign.faults:
        print(f"FAULT: {fault}")
    return 1 if campaign.faults else 0


if __name__ == "__main__":
    sys.exit(main())
