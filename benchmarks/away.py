"""A node of two is killed: when are its clients back at the other one, and when is it ready again itself?

    python -m benchmarks away [--clients 500] [--sessions 10000] [--rounds 3]

All clients have kept sessions at the first node, and each tries the two nodes in turn, a tenth of a second after it was
sent away. ``back`` is from the kill to a CONNACK that says that the session is there. ``sessions`` are more of them,
whose clients stay away; ``ready`` is the time of the killed node from its start to the line that says so. Real Ignite
servers and a ZooKeeper server share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from benchmarks.cluster import Grounds, grounds
from benchmarks.durable import say
from benchmarks.flood import packet, text

#: What a client waits for before it tries the next node, and how long for an answer.
PAUSE, PATIENCE = 0.1, 10.0
AT_ONCE = 50
#: No clean start; the session is kept for an hour.
_EXPIRY = b"\x05\x11\x00\x00\x0e\x10"


def connect(client_id: str) -> bytes:
    """CONNECT of MQTT 5."""
    return packet(0x10, text("MQTT") + b"\x05\x00\x00\x00" + _EXPIRY + text(client_id))


@dataclass(slots=True)
class Fleet:
    """Clients that are connected, whatever happens."""

    ports: tuple[int, ...]
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
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
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


async def round_(ground: Grounds, clients: int) -> None:
    """The first node is killed, its clients come back, and it does."""
    first, second = ground.nodes
    fleet = Fleet((first.port,))
    tasks = [asyncio.create_task(fleet.run(f"client-{number}")) for number in range(clients)]
    try:
        await _until(lambda: len(fleet.back) == clients)
        await asyncio.sleep(2.0)
        fleet.back, fleet.ports = {}, (second.port,)
        killed = time.monotonic()
        first.kill()
        await _until(lambda: len(fleet.back) == clients)
        taken = sorted(when - killed for when, _ in fleet.back.values())
        lost = sum(not present for _, present in fleet.back.values())
    finally:
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
    options = parser.parse_args(arguments)
    with grounds(options.grid) as ground:
        asyncio.run(leave_sessions(ground.nodes[0].port, options.sessions))
        for _ in range(options.rounds):
            asyncio.run(round_(ground, options.clients))
    return 0


if __name__ == "__main__":
    sys.exit(main())
