"""What a bad plugin costs everybody else: p99 of a good vendor's frames and of MQTT messages, beside it and without it.

    python -m benchmarks bad_plugins                          every kind
    python -m benchmarks bad_plugins --only loop,garbage --rounds 5 --seconds 10

One real broker, both plugins with ``isolation: process``. A good vendor's four gateways post 1,000 frames a second,
each with the question when it is safe; 500 MQTT messages a second go from one client to another. Good and bad phases
take turns: in a bad one a gateway of the bad plugin connects again and again and sends what makes it misbehave, through
the quarantine and behind it, and ``reload`` ends the quarantine before the next. Time counts from when something was
due. The figures are medians of the phases' p99. Every frame has to be called safe and every message has to come.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import selectors
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.durable import Node, say
from benchmarks.flood import connect, dial, packet, text
from tests.ports import free_port

FRAMES, MESSAGES, GATEWAYS = 1000, 500, 4
_TICK = 0.002
#: Seconds at the beginning of a phase that are not counted, and for what is late at its end.
_WARM, _LATE = 0.5, 20.0
#: Between two connections of the bad gateway.
_PAUSE = 0.05
#: Between two looks at the bad plugin's state; and between two reloads of what cannot be imported: those are asked for
#: by people, or by programs in their place.
_LOOK, _RELOAD = 0.5, 2.0
#: Most that others may be slowed down, and seconds within which a bad plugin is in quarantine.
WANTED, QUARANTINED_WITHIN = 1.2, 10.0

#: What a frame with this word makes the bad plugin do.
DEEDS = {
    "loop": "while True: pass",
    "hoard": "self.hoard = bytearray(2 << 30)",
    "exit": "import os; os._exit(0)",
    "segfault": "import ctypes; ctypes.string_at(8)",
    "sleep": "import time; time.sleep(10)",
    "garbage": "import os; os.write(3, b'\\xff\\xff\\xff\\xff')",
    "import": "",
}
CODEC = """
from iot_mqtt.sdk import Codec, Line, Login, Readings, WhenSafe
from tests.ports import free_port

class Vendor(Codec):
    framing = Line()
    version = "1.0"

    def decode(self, frame):
        word, _, rest = frame.decode().partition(" ")
        if word == "login":
            return [Login(rest)]
{deeds}
        return [Readings("d", {{"n": int(rest)}}), WhenSafe(int(rest))]

    def safe(self, token):
        return b"safe %d\\n" % token
"""
BROKEN = "raise ImportError('something is missing')\n"
#: What is bad already when it is imported; a broker has to start all the same.
BAD_STARTS = {
    "broken": BROKEN,
    "gone": "import os; os._exit(1)\n",
    "stuck": "while True: pass\n",
    "crashed": "import ctypes; ctypes.string_at(8)\n",
}


def write_plugin(site: Path, name: str, source: str) -> None:
    """As pip would leave it."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (site / f"{name}.py").write_text(source)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[iot_mqtt.codecs]\n{name} = {name}:Vendor\n")
    (info / "RECORD").write_text(f"{name}.py,,\n{info.name}/entry_points.txt,,\n{info.name}/RECORD,,\n")


def codec(deeds: dict[str, str]) -> str:
    """A codec of lines that does these deeds."""
    lines = [f"        if word == {word!r}: {deed}" for word, deed in deeds.items() if deed]
    # A loop needs a line of its own.
    return CODEC.format(deeds="\n".join(line.replace(": while", ":\n            while") for line in lines))


class VendorNode(Node):
    """A broker with these plugins, each in a worker process behind a listener of its own."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        super().__init__(folder, "iot-mqtt")
        self.ports = {name: free_port() for name in names}

    def _command(self) -> list[str]:
        told = [f"plugins.{name}.isolation=process" for name in self.ports]
        for name, port in self.ports.items():
            told += [f"listeners.{name}.{key}" for key in ("protocol=frames", f"codec={name}", f"port={port}")]
        return [*super()._command(), *(word for setting in told for word in ("--set", setting))]

    def api(self, path: str, body: object = None) -> dict[str, Any]:
        """What the admin API answers; an error is an answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin}/api/v1/{path}", data)
        request.add_header("Authorization", f"Bearer {(self.folder / 'data' / 'admin.token').read_text().strip()}")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except urllib.error.HTTPError as error:
            return {"state": "refused", "detail": error.read().decode()}


@dataclass(slots=True)
class Took:
    """Seconds of everything in one phase, and what was missing at its end."""

    frames: list[float] = field(default_factory=list)
    messages: list[float] = field(default_factory=list)
    lost: int = 0

    @staticmethod
    def p99(taken: list[float]) -> float:
        """In milliseconds."""
        return 1e3 * sorted(taken)[int(len(taken) * 0.99)]


class Others:
    """The good vendor's gateways and the MQTT clients: one thread, paced, open loop."""

    def __init__(self, node: VendorNode) -> None:
        self._lines = [self._gateway(node.ports["good"], f"good-{number}") for number in range(GATEWAYS)]
        self._reader, self._writer = self._client(node.port, "reader"), self._client(node.port, "writer")
        self._reader.sendall(packet(0x82, b"\x00\x01" + text("bench") + b"\x00"))
        while not self._reader.recv(5):
            pass
        self._choosing = selectors.DefaultSelector()
        for number, line in enumerate([*self._lines, self._reader]):
            line.settimeout(0)
            self._choosing.register(line, selectors.EVENT_READ, number)
        self._rest = [b""] * (GATEWAYS + 1)
        self._frame = self._message = 0

    @staticmethod
    def _gateway(port: int, name: str) -> socket.socket:
        line = dial(port)
        line.sendall(f"login {name}\nr 0\n".encode())
        if not line.recv(64).startswith(b"safe"):
            raise SystemExit("the good gateway is not let in")
        return line

    @staticmethod
    def _client(port: int, name: str) -> socket.socket:
        client = dial(port)
        client.sendall(connect(name).replace(b"\x04\x00\x00\x00", b"\x04\x02\x00\x00"))
        if client.recv(4) != b"\x20\x02\x00\x00":
            raise SystemExit("the MQTT client is not let in")
        return client

    def phase(self, seconds: float) -> Took:
        """So much of it."""
        took = Took()
        due_frames: list[dict[int, float]] = [{} for _ in self._lines]
        due_messages: dict[int, float] = {}
        began = time.monotonic()
        sent_frames = sent_messages = 0
        while True:
            now = time.monotonic()
            passed = min(now - began, seconds)
            while sent_frames < int(passed * FRAMES):
                self._frame += 1
                line = self._frame % GATEWAYS
                due_frames[line][self._frame] = began + sent_frames / FRAMES
                self._lines[line].send(b"r %d\n" % self._frame)
                sent_frames += 1
            while sent_messages < int(passed * MESSAGES):
                self._message += 1
                due_messages[self._message] = began + sent_messages / MESSAGES
                self._writer.send(packet(0x30, text("bench") + b"%010d" % self._message))
                sent_messages += 1
            if now - began >= seconds and (not (due_messages or any(due_frames)) or now - began > seconds + _LATE):
                break
            for key, _ in self._choosing.select(_TICK):
                if key.data == GATEWAYS:
                    self._came(due_messages, took.messages, began + _WARM)
                else:
                    self._safe(key.data, due_frames[key.data], took.frames, began + _WARM)
        took.lost = len(due_messages) + sum(map(len, due_frames))
        return took

    def _safe(self, line: int, due: dict[int, float], took: list[float], count_from: float) -> None:
        """A token covers earlier ones."""
        data = self._lines[line].recv(65_536)
        if not data:
            raise SystemExit("a good gateway was closed")
        *words, self._rest[line] = (self._rest[line] + data).split(b"\n")
        now = time.monotonic()
        highest = int(words[-1].split()[1]) if words else 0
        for number in [number for number in due if number <= highest]:
            at = due.pop(number)
            if at >= count_from:
                took.append(now - at)

    def _came(self, due: dict[int, float], took: list[float], count_from: float) -> None:
        """Every message has the same length."""
        size = len(packet(0x30, text("bench") + b"%010d" % 0))
        data = self._rest[GATEWAYS] + self._reader.recv(65_536)
        now, whole = time.monotonic(), len(data) // size * size
        for end in range(size, whole + 1, size):
            at = due.pop(int(data[end - 10 : end]))
            if at >= count_from:
                took.append(now - at)
        self._rest[GATEWAYS] = data[whole:]


def _pester(port: int, word: str, stop: Event) -> None:
    """A gateway that sends what its plugin cannot bear, and comes back whenever it is thrown out."""
    while not stop.is_set():
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as line:
                line.sendall(f"login bad\n{word} 1\n".encode())
                while not stop.is_set():
                    try:
                        if not line.recv(64):
                            break
                    except TimeoutError:
                        continue
        except OSError:
            pass
        stop.wait(_PAUSE)


def _watch(node: VendorNode, word: str, began: float, stop: Event, found: Any) -> None:
    """Seconds until the plugin is in quarantine. An import error has none: the version from before goes on."""
    while not stop.is_set():
        if word == "import":
            node.api("plugins/bad/reload", {})
        elif node.api("plugins/bad")["state"] == "quarantined" and not found.value:
            found.value = time.monotonic() - began
        stop.wait(_RELOAD if word == "import" else _LOOK)


def bad_phase(node: VendorNode, others: Others, word: str, seconds: float) -> tuple[Took, float]:
    """What the others see beside it, and after how many seconds it was in quarantine; 0: it was not."""
    stop, found = multiprocessing.Event(), multiprocessing.Value("d", 0.0)
    began = time.monotonic()
    beside = [
        multiprocessing.Process(target=_pester, args=(node.ports["bad"], word, stop), daemon=True),
        multiprocessing.Process(target=_watch, args=(node, word, began, stop, found), daemon=True),
    ]
    for process in beside:
        process.start()
    took = others.phase(seconds)
    stop.set()
    for process in beside:
        process.join()
    return took, found.value


def measure(node: VendorNode, site: Path, word: str, rounds: int, seconds: float) -> bool:
    """One kind of bad plugin; whether it is as it is wanted."""
    others = Others(node)
    good: list[Took] = []
    bad: list[Took] = []
    quarantined: list[float] = []
    for _ in range(rounds):
        write_plugin(site, "bad", codec(DEEDS))
        # Ends the quarantine; the new worker has time to start before anything is measured.
        node.api("plugins/bad/reload", {})
        others.phase(2.0)
        good.append(others.phase(seconds))
        if word == "import":
            write_plugin(site, "bad", BROKEN)
        took, after = bad_phase(node, others, word, seconds)
        bad.append(took)
        quarantined.append(after)
    ratios = {}
    for what in ("frames", "messages"):
        before, beside = ([Took.p99(getattr(one, what)) for one in phases] for phases in (good, bad))
        ratios[what] = median(beside) / median(before)
        say(
            f"{word}, {what}",
            p99_ms=median(before),
            beside_ms=median(beside),
            ratio=f"{ratios[what]:.2f}",
            without=" ".join(f"{one:.2f}" for one in before),
            beside=" ".join(f"{one:.2f}" for one in beside),
        )
    lost = sum(took.lost for took in good + bad)
    never = word != "import" and not all(quarantined)
    say(word, lost=lost, quarantined_s="never" if never else f"{max(quarantined):.1f}")
    return max(ratios.values()) <= WANTED and not lost and not never and max(quarantined) <= QUARANTINED_WITHIN


def starts(folder: Path, site: Path) -> None:
    """Whether a broker starts with plugins that are bad when they are imported, and what it costs."""
    for name, source in BAD_STARTS.items():
        write_plugin(site, name, source)
    write_plugin(site, "good", codec({}))
    figures = {}
    for label, names in (("good_alone_s", ["good"]), ("with_bad_ones_s", ["good", *BAD_STARTS])):
        node = VendorNode(folder / label, names)
        try:
            figures[label] = node.start()
            Others(node).phase(0.5)
        finally:
            node.kill()
    say("start", **figures)


def main(arguments: Sequence[str] | None = None) -> int:
    """Every kind that is named; 1 if one is not as it is wanted."""
    parser = argparse.ArgumentParser(prog="bad_plugins", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help=f"kinds, with commas between: {', '.join(DEEDS)}, start")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each phase; a quarantine has to begin within it")
    options = parser.parse_args(arguments)
    wanted = options.only.split(",") if options.only else [*DEEDS, "start"]
    if unknown := set(wanted) - {*DEEDS, "start"}:
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    missed = []
    with tempfile.TemporaryDirectory(prefix="bench-plugins-") as name:
        folder, site = Path(name), Path(name) / "site"
        site.mkdir()
        os.environ["PYTHONPATH"] = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
        write_plugin(site, "good", codec({}))
        write_plugin(site, "bad", codec(DEEDS))
        for word in [word for word in wanted if word in DEEDS]:
            node = VendorNode(folder / word, ["good", "bad"])
            try:
                node.start()
                if not measure(node, site, word, options.rounds, options.seconds):
                    missed.append(word)
            finally:
                node.kill()
        if "start" in wanted:
            starts(folder, site)
    if missed:
        print(f"not as wanted (p99 at most {WANTED} times, nothing lost, in quarantine in time): {', '.join(missed)}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
