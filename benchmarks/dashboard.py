"""What the dashboard costs messages, and how it feels.

    python -m benchmarks dashboard                     20 browsers on the overview beside mixed messages
    python -m benchmarks dashboard --rounds 0 --retained 100000    only the page, and how lists feel
    python -m benchmarks dashboard --clients 100000    and a list of so many clients (wants that many descriptors)

A Chromium opens the overview once and what it asks is recorded: calls and the stream of events. It scrolls through the
lists of clients and of retained messages to their ends, over them again, and filters them: ``slow`` are frames of more
than 50 ms, ``work_ms`` is the time of the page's thread for a frame. Then its like is asked
as by 20 browsers, each over connections of its own, beside 20,000 messages/s of all kinds; quiet phases and phases with
browsers take turns. ``ratio`` is that of the medians; ``for the browsers`` is what the node took more, of a core.

Everything shares the machine, as in ``benchmarks api``: ``--scale`` finds the load that fits it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.api import LOADS, MESSAGES, Phase, grounds, phase
from benchmarks.durable import Node, say
from benchmarks.flood import dial, packet, take, text
from benchmarks.logins import connect
from benchmarks.whole import cpu_seconds

WEB = Path(__file__).parents[1] / "web"
#: Seconds that the page is open for, to see what it asks.
RECORDED = 20.0
#: Clients of one source address: fewer than there are ports.
FROM_ONE = 20_000
PAGES = ("clients?limit=100", "clients?limit=100&after={after}", "clients?limit=100&contains=-099")


@contextmanager
def connected(node: Node, count: int) -> Iterator[None]:
    """Clients that only stay."""
    with ExitStack() as stack:
        for number in range(count):
            source = (f"127.0.1.{number // FROM_ONE + 1}", 0)
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", node.port), 30, source))
            sock.sendall(connect(f"machine-{number:06}"))
            take(sock, 4)
        yield


def ask(node: Node, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    """One call, as the operator."""
    connection = http.client.HTTPConnection("127.0.0.1", node.admin, timeout=60)
    connection.request(method, f"/api/v1/{path}", None if body is None else json.dumps(body), _headers(node))
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def _headers(node: Node) -> dict[str, str]:
    token = (node.folder / "data" / "admin.token").read_text().strip()
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def retain(node: Node, count: int) -> None:
    """Messages that lists show, a thousand of a line."""
    topics = [f"hall/line-{number // 1000}/press-{number % 1000}/temperature" for number in range(count)]
    with dial(node.port) as sock:
        sock.sendall(connect("line-recorder"))
        take(sock, 4)
        for begin in range(0, count, 1000):
            sock.sendall(b"".join(packet(0x31, text(one) + b"21.5") for one in topics[begin : begin + 1000]))
        sock.sendall(b"\xc0\0")
        take(sock, 2)


def recorded(node: Node, lists: Sequence[tuple[str, int, Sequence[str]]]) -> dict[str, Any]:
    """What ``costs.mjs`` says; of each list its address, its rows, and a filter: field, words, what is found."""
    password = "of-viewer-1234"
    status, said = ask(node, "POST", "admins", {"name": "viewer-1", "role": "viewer", "password": password})
    assert status == 200, said
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("it needs chromium")
    settings = {
        "base": f"http://localhost:{node.admin}",
        "name": "viewer-1",
        "password": password,
        "chromium": chromium,
        "shots": str(node.folder / "shots"),
        "seconds": RECORDED,
        "lists": lists,
    }
    command = ["node", "tests/browser/costs.mjs", json.dumps(settings)]
    said_last = subprocess.check_output(command, cwd=WEB, text=True, timeout=300).splitlines()[-1]
    found: dict[str, Any] = json.loads(said_last)
    return found


class Browser:
    """Asks what a page has asked, again and again, until it is told to stop."""

    def __init__(self, node: Node, asked: Sequence[tuple[float, str, str]], seed: int) -> None:
        self._node = node
        self._calls = [one for one in asked if "/events" not in one[1]]
        self._streams = {path for _, path, _ in asked if "/events" in path}
        #: Each at a machine of its own: a node has so many connections of one address, and no more.
        self._source = (f"127.0.2.{seed + 1}", 0)
        self._stop = threading.Event()
        self._begin = random.Random(seed).uniform(0.0, RECORDED)
        self.failed = self.calls = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        headers = _headers(self._node)
        place = ("127.0.0.1", self._node.admin)
        with ExitStack() as stack:
            for path in self._streams:
                sock = stack.enter_context(socket.create_connection(place, 30, self._source))
                lines = [f"GET {path} HTTP/1.1", "Host: localhost", f"Authorization: {headers['Authorization']}"]
                sock.sendall("\r\n".join([*lines, "", ""]).encode())
            connection = http.client.HTTPConnection(*place, timeout=30, source_address=self._source)
            stack.callback(connection.close)
            began = time.monotonic() - self._begin
            calls = [one for one in self._calls if one[0] >= self._begin]
            while True:
                for when, path, age in calls:
                    if self._stop.wait(max(0.0, began + when - time.monotonic())):
                        return
                    connection.request("GET", path, headers=headers | ({"Cache-Control": age} if age else {}))
                    answer = connection.getresponse()
                    answer.read()
                    self.calls += 1
                    self.failed += answer.status != 200
                began += RECORDED
                calls = self._calls


def lists(node: Node, count: int, times: int = 20) -> None:
    """Time and processor time of pages of a list."""
    after = json.loads(ask(node, "GET", "clients?limit=1000")[1])["after"] or ""
    for path in PAGES:
        took, worked = [], cpu_seconds(node.pid)
        for _ in range(times):
            began = time.monotonic()
            status, said = ask(node, "GET", path.format(after=after))
            took.append(time.monotonic() - began)
            assert status == 200, said
        worked = (cpu_seconds(node.pid) - worked) / times
        say(path.format(after="…"), clients=float(count), p50_ms=1e3 * median(took), cpu_ms=1e3 * worked)


def show(address: str, felt: dict[str, Any]) -> None:
    """How a list feels."""
    for what, step in (("to the end", felt["down"]), ("all of it there", felt["over"])):
        frames = {"p50_ms": step["p50"], "p99_ms": step["p99"], "longest_ms": step["longest"], "work_ms": step["work"]}
        say(
            f"{address} {what}",
            rows=float(step["rows"]),
            frames=float(step["frames"]),
            slow=float(step["slow"]),
            **frames,
        )
    down, filtered = felt["down"], felt["filtered"]
    say(f"{address} pages", seconds=down["seconds"], pages=float(down["pages"]), calls=float(down["calls"]))
    say(f"{address} filtered", after_ms=filtered["after"], long_tasks=float(filtered["long_tasks"]))


def report(quiet: Sequence[Phase], busy: Sequence[Phase], browsers: Sequence[Browser]) -> None:
    """Both kinds of phases side by side."""
    for name in [name for name, _ in LOADS]:
        for figure in ("p50_us", "p99_us"):
            without, beside = (median(one.loads[name][figure] for one in phases) for phases in (quiet, busy))
            say(f"{name} {figure}", without=without, beside=beside, ratio=beside / without)
    without, beside = (
        median(sum(load["p99_us"] for load in one.loads.values()) / len(LOADS) for one in phases)
        for phases in (quiet, busy)
    )
    say("all three, mean p99_us", without=without, beside=beside, ratio=beside / without)
    cpu = [median(one.cpu["node 1"] for one in phases) for phases in (quiet, busy)]
    more = median(two.cpu["node 1"] - one.cpu["node 1"] for one, two in zip(quiet, busy, strict=True))
    say("core", without=f"{cpu[0]:.1%}", beside=f"{cpu[1]:.1%}", **{"for the browsers": f"{more:.1%}"})
    lost = sum(load["lost"] + load["disorder"] for one in (*quiet, *busy) for load in one.loads.values())
    idle = [median(one.idle for one in phases) for phases in (quiet, busy)]
    say("machine", lost=float(lost), idle_without=f"{idle[0]:.2f} cores", idle_beside=f"{idle[1]:.2f} cores")
    say("calls", sum=float(sum(one.calls for one in browsers)), failed=float(sum(one.failed for one in browsers)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks dashboard", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--browsers", type=int, default=20)
    parser.add_argument("--clients", type=int, default=10_000, help="that only stay")
    parser.add_argument("--retained", type=int, default=10_000, help="messages, for their list")
    parser.add_argument("--scale", type=float, default=1.0, help="of the messages")
    parser.add_argument("--rounds", type=int, default=3, help="phases of each kind; 0: only the page and its list")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a phase")
    options = parser.parse_args(arguments)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    rate = MESSAGES * options.scale
    with grounds(1) as ((node,), processes), connected(node, options.clients):
        retain(node, options.retained)
        last = f"{options.clients - 1:06}"
        page = recorded(
            node,
            [
                ("#/clients", options.clients, ("contains", last, f"machine-{last}")),
                ("#/retained", options.retained, ("filter", "hall/+/press-7/#", "/press-7/")),
            ],
        )
        say("page", first_paint_ms=page["paint"], figures_ms=page["shown"], calls_20_s=float(len(page["asked"])))
        for address, felt in page["lists"].items():
            show(address, felt)
        lists(node, options.clients)
        quiet: list[Phase] = []
        busy: list[Phase] = []
        browsers: list[Browser] = []
        for number in range(1, options.rounds + 1):
            quiet.append(phase([node], processes, rate, 0.0, options.seconds, number))
            now = [Browser(node, page["asked"], seed) for seed in range(options.browsers)]
            try:
                busy.append(phase([node], processes, rate, 0.0, options.seconds, number))
            finally:
                for one in now:
                    one.stop()
            browsers += now
        if options.rounds:
            report(quiet, busy, browsers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
