"""A node of two is killed: when are its clients back at the other one, and when is it ready again itself?

    python -m benchmarks away [--clients 500] [--sessions 10000] [--rounds 3]
    python -m benchmarks away --tls --clients 10000 --sessions 0 --rounds 1

All clients have kept sessions at the first node, and each tries the two nodes in turn, a tenth of a second after it was
sent away. ``back`` is from the kill to a CONNACK that says that the session is there. ``sessions`` are more of them,
whose clients stay away; ``ready`` is the time of the killed node from its start to the line that says so.

``others`` are ten clients of the second node that send a PINGREQ every 50 ms: how long they wait before the kill, and
until all are back. Real Ignite servers and a ZooKeeper server share the machine; with ``--tls`` the clients' part in
every handshake does.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import ssl
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path

import trustme

from benchmarks.cluster import Grounds, grounds
from benchmarks.durable import say
from benchmarks.flood import packet, text

#: What a client waits for before it tries the next node, and how long for an answer: of all that connect at once.
PAUSE, PATIENCE = 0.1, 60.0
AT_ONCE = 50
OTHERS, PING_EVERY = 10, 0.05
#: Files that a process may have open.
FILES = 20_000
#: No clean start; the session is kept for an hour.
_EXPIRY = b"\x05\x11\x00\x00\x0e\x10"


def connect(client_id: str) -> bytes:
    """CONNECT of MQTT 5."""
    return packet(0x10, text("MQTT") + b"\x05\x00\x00\x00" + _EXPIRY + text(client_id))


@dataclass(slots=True)
class Fleet:
    """Clients that are connected, whatever happens."""

    ports: tuple[int, ...]
    tls: ssl.SSLContext | None = None
    #: Of each client that got in: when, and whether its session was there.
    back: dict[str, tuple[float, bool]] = field(default_factory=dict)
    refused: Counter[int] = field(default_factory=Counter)

    async def run(self, client_id: str) -> None:
        turn = 0
        while True:
            with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                await self._stay(client_id, self.ports[turn % len(self.ports)])
            turn += 1
            await asyncio.sleep(PAUSE)

    async def _stay(self, client_id: str, port: int) -> None:
        name, patience = ("localhost", PATIENCE) if self.tls else (None, None)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=self.tls, server_hostname=name, ssl_handshake_timeout=patience
        )
        try:
            present, code = await asyncio.wait_for(_admitted(client_id, reader, writer), PATIENCE)
            if code:
                self.refused[code] += 1
                return
            self.back[client_id] = time.monotonic(), present
            while await reader.read(4096):
                pass
        finally:
            writer.close()


async def _admitted(client_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[bool, int]:
    """Whether the session was there, and the reason code."""
    writer.write(connect(client_id))
    head = await reader.readexactly(2)
    body = await reader.readexactly(head[1])
    return bool(body[0] & 1), body[1]


async def leave_sessions(port: int, count: int) -> None:
    """Sessions whose clients are away."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with room:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            _, code = await _admitted(f"away-{number}", reader, writer)
            assert not code, f"refused: {code:#x}"
            writer.write(b"\xe0\x00")
            await reader.read()
            writer.close()

    await asyncio.gather(*(one(number) for number in range(count)))


class Others:
    """Clients that stay where they are, in a process of their own: who shakes hands must not be in their way."""

    def __init__(self, port: int) -> None:
        self._asked, asked = Pipe()
        self._process = Process(target=_stay, args=(port, asked), daemon=True)
        self._process.start()

    def waited(self) -> list[float]:
        """How long for each answer since this was asked last."""
        self._asked.send(None)
        found: list[float] = self._asked.recv()
        return sorted(found)

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def _stay(port: int, asked: Connection) -> None:
    async def all_of_them() -> None:
        waits: list[float] = []

        def tell() -> None:
            asked.recv()
            asked.send(list(waits))
            waits.clear()

        asyncio.get_running_loop().add_reader(asked.fileno(), tell)
        await asyncio.gather(*(ping(port, f"other-{number}", waits) for number in range(OTHERS)))

    asyncio.run(all_of_them())


async def ping(port: int, client_id: str, waits: list[float]) -> None:
    """How long somebody waits who is connected."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await _admitted(client_id, reader, writer)
    while True:
        began = time.monotonic()
        writer.write(b"\xc0\x00")
        await reader.readexactly(2)
        waits.append(time.monotonic() - began)
        await asyncio.sleep(PING_EVERY)


async def round_(ground: Grounds, clients: int, tls: ssl.SSLContext | None) -> None:
    """The first node is killed, its clients come back, and it does."""
    first, second = ground.nodes
    fleet = Fleet((first.tls_port if tls else first.port,), tls)
    tasks = [asyncio.create_task(fleet.run(f"client-{number}")) for number in range(clients)]
    others = Others(second.port)
    try:
        await _until(lambda: len(fleet.back) == clients)
        await asyncio.sleep(1.0)
        others.waited()
        await asyncio.sleep(2.0)
        before = others.waited()
        fleet.back, fleet.ports = {}, (second.tls_port if tls else second.port,)
        killed = time.monotonic()
        first.kill()
        await _until(lambda: len(fleet.back) == clients)
        meanwhile = others.waited()
        taken = sorted(when - killed for when, _ in fleet.back.values())
        lost = sum(not present for _, present in fleet.back.values())
    finally:
        others.end()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    ready = await asyncio.to_thread(first.start)
    say(
        f"{clients} clients",
        back_p50_s=statistics.median(taken),
        back_most_s=taken[-1],
        sessions_lost=lost,
        refused=" ".join(f"{code:#x}={count}" for code, count in fleet.refused.items()) or "none",
        ready_s=ready,
    )
    for what, waited in (("others before", before), ("others meanwhile", meanwhile)):
        say(
            what,
            p50_ms=1e3 * statistics.median(waited),
            p99_ms=1e3 * waited[int(0.99 * len(waited))],
            most_ms=1e3 * waited[-1],
        )


async def _until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("not all clients are back after two minutes")
        await asyncio.sleep(0.05)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rounds."""
    parser = argparse.ArgumentParser(prog="away", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, default=500, help="that were connected to the node")
    parser.add_argument("--sessions", type=int, default=10_000, help="kept for clients that are away")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--grid", choices=("memory", "cached", "synced"), default="memory", help="where the grid is")
    parser.add_argument("--tls", action="store_true", help="clients come over TLS")
    options = parser.parse_args(arguments)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    with tempfile.TemporaryDirectory(prefix="bench-away-") as folder:
        files, context = certified(Path(folder)) if options.tls else (None, None)
        with grounds(options.grid, files) as ground:
            asyncio.run(leave_sessions(ground.nodes[0].port, options.sessions))
            for _ in range(options.rounds):
                asyncio.run(round_(ground, options.clients, context))
    return 0


def certified(folder: Path) -> tuple[dict[str, str], ssl.SSLContext]:
    """What a listener is told of its certificate, and who trusts that."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    files = {"cert": str(folder / "cert.pem"), "key": str(folder / "key.pem")}
    issued.private_key_pem.write_to_path(files["key"])
    for blob in issued.cert_chain_pems:
        blob.write_to_path(files["cert"], append=True)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return files, context


if __name__ == "__main__":
    sys.exit(main())
