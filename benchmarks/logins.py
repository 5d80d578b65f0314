"""A thousand logins at once: does everybody get a verdict, and does the loop stay free for those who are in?

    python -m benchmarks logins [--count 1000] [--kind argon2id] [--wrong]

Each client is a user of its own, so that each costs a hash; all send CONNECT before the first answer is read. Meanwhile
a client that is in sends PINGREQ every 5 ms: how late the answers are is how late the loop is, with the load of the
program itself on top. ``loop lag`` is the broker's own histogram: the share of its samples within 50 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.flood import packet, take, text
from benchmarks.start import program
from iot_mqtt.auth import argon, kinds

PASSWORD = b"right"
PINGREQ, PINGRESP = b"\xc0\x00", b"\xd0\x00"
PING_SECONDS = 0.005
_COSTS = {"bcrypt": ("bcrypt", "10"), "pbkdf2": ("mosquitto", "50000")}


def connect(client_id: str, user: str | None = None, password: bytes = b"") -> bytes:
    """CONNECT of a 3.1.1 client."""
    if user is None:
        return packet(0x10, text("MQTT") + b"\x04\x02\x00\x00" + text(client_id))
    secret = len(password).to_bytes(2, "big") + password
    return packet(0x10, text("MQTT") + b"\x04\xc2\x00\x00" + text(client_id) + text(user) + secret)


@contextlib.contextmanager
def broker(users: str) -> Iterator[tuple[int, int]]:
    """A node with these users; its ports for MQTT and for metrics."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "users")
        file.write_text(users)
        ports = [f"{one}.port=0" for one in ("listeners.mqtt", "listeners.ws", "listeners.gateway", "admin")]
        auth = [f"auth.users_file={file}", "auth.allow_anonymous=true", "log.level=error"]
        sets = [word for one in (f"node.data_dir={folder}/data", *ports, *auth) for word in ("--set", one)]
        with subprocess.Popen([*program(), "serve", *sets], stdout=subprocess.PIPE) as node:
            assert node.stdout is not None
            line = node.stdout.readline().decode()
            found = dict(word.split("=") for word in line.split()[1:])
            try:
                yield tuple(int(found[name].rpartition(":")[2]) for name in ("mqtt", "admin"))  # type: ignore[misc]
            finally:
                node.terminate()


@dataclass
class Pinger:
    """A client that is in, and how long its answers take."""

    port: int
    took: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._sock = socket.create_connection(("127.0.0.1", self.port), 60)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock.sendall(connect("pinger"))
        take(self._sock, 4)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(PING_SECONDS):
            began = time.monotonic()
            self._sock.sendall(PINGREQ)
            take(self._sock, 2)
            self.took.append(time.monotonic() - began)

    def stop(self) -> list[float]:
        """Seconds of each, in order of size."""
        self._over.set()
        self._thread.join()
        self._sock.close()
        return sorted(self.took)


def log_in(port: int, count: int, password: bytes) -> tuple[Counter[int], list[float]]:
    """Return codes, and seconds until each verdict; -1 for none."""
    codes: Counter[int] = Counter()
    took: list[float] = []
    with selectors.DefaultSelector() as selector:
        socks = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(count)]
        began = time.monotonic()
        for number, sock in enumerate(socks):
            sock.sendall(connect(f"c{number}", f"user-{number}", password))
            selector.register(sock, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(60)
            if not ready:
                codes[-1] += len(selector.get_map())
                break
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(4)
                codes[data[3] if len(data) == 4 else -1] += 1
                took.append(time.monotonic() - began)
                selector.unregister(key.fileobj)
        for sock in socks:
            sock.close()
    return codes, sorted(took)


def lag(port: int) -> dict[str, float]:
    """The histogram of the broker's loop: bound → samples."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    prefix = "iot_mqtt_loop_lag_seconds_bucket"
    return {line.split('"')[1]: float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(prefix)}


def at(ordered: Sequence[float], share: float) -> float:
    """A percentile."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks logins", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--kind", choices=("argon2id", *_COSTS), default="argon2id")
    parser.add_argument("--wrong", action="store_true", help="show a wrong password")
    asked = parser.parse_args(arguments)
    # Of the others no password fits: the cost is the same.
    encoded = argon.hash_password(PASSWORD) if asked.kind == "argon2id" else kinds.decoy(_COSTS[asked.kind])
    users = "".join(f"user-{number}:{encoded}\n" for number in range(asked.count))
    with broker(users) as (port, admin):
        pinger = Pinger(port)
        time.sleep(1)
        before, first = lag(admin), len(pinger.took)
        codes, took = log_in(port, asked.count, b"wrong" if asked.wrong else PASSWORD)
        pings = sorted(pinger.took[first:])
        after = lag(admin)
        pinger.stop()
    samples = {bound: after[bound] - before[bound] for bound in after}
    print(f"{asked.count} logins at once, {asked.kind}")
    print("verdicts   " + ", ".join(f"{count} × {code}" for code, count in sorted(codes.items())) + " (0: let in)")
    print(f"seconds    {took[-1]:.1f} until the last, {len(took) / took[-1]:.0f} a second")
    half, most = at(pings, 0.5) * 1e3, at(pings, 0.99) * 1e3
    print(f"ping       p50 {half:.1f} ms, p99 {most:.1f} ms, max {pings[-1] * 1e3:.1f} ms")
    print(f"loop lag   {samples['0.05']:.0f} of {samples['+Inf']:.0f} samples within 50 ms")
    return 0 if codes[-1] == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
