"""A connection over TLS: the broker's CPU from accept to close, beside mosquitto's.

    python -m benchmarks tls [--rounds 15] [--key rsa]

Each burst is 40 clients that do the same at once: handshake, CONNECT, CONNACK, DISCONNECT. The brokers take turns, with
one certificate; printed are the least and the lowest quartile of all bursts, and ratios to mosquitto. Clients that are
``resumed`` come back with their session ticket.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import trustme

from benchmarks.whole import Broker, mosquitto, ours
from tests.ports import free_port

BURST = 40
_CONNECT = bytes.fromhex("101000044d5154540402003c0004")
_CONNACK = b"\x20\x02\x00\x00"
_KEYS = {"rsa": trustme.KeyType.RSA, "ecdsa": trustme.KeyType.ECDSA}
_VERSIONS = {"1.3": ssl.TLSVersion.TLSv1_3, "1.2": ssl.TLSVersion.TLSv1_2}


class Client:
    """One connection, a step at a time."""

    def __init__(self, context: ssl.SSLContext, port: int, session: ssl.SSLSession | None) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, session=session)

    def shake_hands(self) -> bool:
        """One step; whether it was the last."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def send(self) -> None:
        """What OpenSSL made."""
        if self._outgoing.pending:
            self._sock.sendall(self._outgoing.read())

    def receive(self) -> None:
        """Wait for bytes and give them to OpenSSL."""
        self._incoming.write(self._sock.recv(1 << 16))

    def expect(self, data: bytes) -> None:
        while True:
            try:
                assert self.tls.read(len(data)) == data
            except ssl.SSLWantReadError:
                self.receive()
            else:
                return

    def close(self) -> None:
        self._sock.close()


def burst(context: ssl.SSLContext, port: int, sessions: Sequence[ssl.SSLSession | None]) -> list[ssl.SSLSession | None]:
    """All of them do each step before any does the next; their sessions."""
    clients = [Client(context, port, session) for session in sessions]
    for client in clients:
        client.shake_hands()
        client.send()
    for number, client in enumerate(clients):
        client.receive()
        while not client.shake_hands():
            client.send()
            client.receive()
        client.tls.write(_CONNECT + b"%04d" % number)
    for client in clients:
        client.send()
    for client in clients:
        client.expect(_CONNACK)
        client.tls.write(b"\xe0\x00")
    kept = [client.tls.session for client in clients]
    for client in clients:
        client.send()
    for client in clients:
        client.close()
    return kept


def cpu_us(pid: int) -> float:
    """Of all threads, by the scheduler's clock: ticks are too coarse for a burst."""
    used = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # it has ended since
            used += int((task / "schedstat").read_text().split()[0])
    return used / 1000


def brokers(folder: Path, key: str) -> list[tuple[Broker, int]]:
    """mosquitto and ours with one more port, which speaks TLS, and that port."""
    issued = trustme.CA().issue_cert("localhost", key_type=_KEYS[key])
    pem, secret = folder / "cert.pem", folder / "key.pem"
    pem.write_bytes(issued.cert_chain_pems[0].bytes())
    secret.write_bytes(issued.private_key_pem.bytes())
    secret.chmod(0o644)  # mosquitto reads it as another user
    folder.chmod(0o755)
    port, other, us = free_port(), mosquitto(), ours()
    other._files["mosquitto.conf"] += f"listener {port} 127.0.0.1\ncertfile {pem}\nkeyfile {secret}\n"
    found = [(other, port)]
    port = free_port()
    settings = ("protocol=mqtt", f"port={port}", f"tls.cert={pem}", f"tls.key={secret}")
    us._command = [*us._command, *(word for one in settings for word in ("--set", f"listeners.mqtts.{one}"))]
    return [*found, (us, port)]


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks tls", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--key", choices=sorted(_KEYS), default="rsa")
    options = parser.parse_args(arguments)
    figures: dict[tuple[str, str, str], list[float]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = [
            (each.name, port, stack.enter_context(each.running())[1]) for each, port in brokers(folder, options.key)
        ]
        for _ in range(options.rounds):
            for version, number in _VERSIONS.items():
                for kind in ("full", "resumed"):
                    for name, port, pid in running:
                        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                        context.minimum_version = context.maximum_version = number
                        none: list[ssl.SSLSession | None] = [None] * BURST
                        sessions = burst(context, port, none) if kind == "resumed" else none
                        time.sleep(0.05)
                        before = cpu_us(pid)
                        burst(context, port, sessions)
                        time.sleep(0.1)
                        figures.setdefault((version, kind, name), []).append((cpu_us(pid) - before) / BURST)
    print("us of CPU per connection        least   quartile")
    for (version, kind, name), found in figures.items():
        base = sorted(figures[version, kind, "mosquitto"])
        found.sort()
        least, quartile = found[0], found[len(found) // 4]
        ratios = f"{least / base[0]:.2f}x, {quartile / base[len(base) // 4]:.2f}x"
        print(f"TLS {version} {kind:8} {name:12} {least:8.0f} {quartile:8.0f}   {ratios}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
