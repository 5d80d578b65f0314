"""A herd of clients in a process of its own, which knows a broker by its ports alone.

    python tests/abuse/herd.py < plan.json > figures.json

A plan has ports, and how many clients of each kind come to each of them within so many seconds::

    silent   connects, and says nothing
    slow     sends the beginning of what a good one would say, a byte now and then
    good     says what the plan says, step by step: bytes, and what their answer has to match; stays; then once more

The figures have the times: of a good client from before it connected to the answer of the last step, of a silent or
slow one until the other side closed. It imports nothing of the project.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import ssl
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

#: Seconds from one byte of a slow client to the next; less than any time-out.
DRIP = 0.4
#: Stands for the number of a client in what it says.
NUMBER = b"########"


class Port:
    """What came of the clients of one port."""

    def __init__(self, plan: dict[str, Any], herd: Herd) -> None:
        self._herd = herd
        self._port: int = plan["port"]
        self._name: str = plan.get("name", "localhost")
        self._tls = ssl.create_default_context(cafile=plan["ca"]) if plan.get("ca") else None
        self._steps = [(bytes.fromhex(say), _pattern(answer)) for say, answer in plan["steps"]]
        self._again = [(bytes.fromhex(say), _pattern(answer)) for say, answer in plan.get("again", [])]
        self._drip = bytes.fromhex(plan["drip"])
        self.times: dict[str, list[float]] = {"good": [], "again": [], "silent": [], "slow": []}
        self.faults: dict[str, Counter[str]] = {kind: Counter() for kind in self.times}

    async def silent(self, number: int) -> None:
        reader, writer = await self._connect(number, tls=None)
        await self._until_closed("silent", reader, writer)

    async def slow(self, number: int) -> None:
        reader, writer = await self._connect(number, tls=None)
        dripping = asyncio.ensure_future(self._drips(writer))
        try:
            await self._until_closed("slow", reader, writer)
        finally:
            dripping.cancel()

    async def good(self, number: int) -> None:
        began = time.monotonic()
        reader, writer = await self._connect(number, tls=self._tls)
        try:
            await self._say(self._steps, number, reader, writer)
            self.times["good"].append(time.monotonic() - began)
            if self._again:
                await self._once_more(number, reader, writer)
        finally:
            writer.transport.abort()

    async def _once_more(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """When the others are gone."""
        await self._herd.end.wait()
        began = time.monotonic()
        try:
            await self._say(self._again, number, reader, writer)
        except (OSError, TimeoutError) as error:
            self.faults["again"][_words(error)] += 1
        else:
            self.times["again"].append(time.monotonic() - began)

    async def _connect(
        self, number: int, tls: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        source = self._herd.sources[number % len(self._herd.sources)]
        return await asyncio.open_connection(
            "127.0.0.1",
            self._port,
            local_addr=(source, 0),
            ssl=tls,
            server_hostname=self._name if tls else None,
            ssl_handshake_timeout=self._herd.patience if tls else None,
        )

    async def _say(
        self,
        steps: list[tuple[bytes, re.Pattern[bytes]]],
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        for say, answer in steps:
            writer.write(say.replace(NUMBER, b"%08d" % number))
            got = b""
            while not answer.match(got):
                more = await asyncio.wait_for(reader.read(65_536), self._herd.patience)
                if not more:
                    raise ConnectionError(f"closed behind {got[:40]!r}")
                got += more

    async def _drips(self, writer: asyncio.StreamWriter) -> None:
        for byte in self._drip:
            writer.write(bytes((byte,)))
            await asyncio.sleep(DRIP)

    async def _until_closed(self, kind: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        began = time.monotonic()
        try:
            while await asyncio.wait_for(reader.read(65_536), self._herd.patience):
                pass  # a reason, perhaps
        except ConnectionError:
            pass
        except TimeoutError:
            self.faults[kind]["left open"] += 1
            return
        finally:
            writer.transport.abort()
        self.times[kind].append(time.monotonic() - began)

    def figures(self) -> dict[str, Any]:
        """Of each kind of clients."""
        return {
            kind: {
                "count": len(times),
                "shortest": round(min(times, default=0.0), 3),
                "p50": _part(times, 0.50),
                "p99": _part(times, 0.99),
                "longest": round(max(times, default=0.0), 3),
                "faults": dict(self.faults[kind]),
            }
            for kind, times in self.times.items()
        }


class Herd:
    """All of them."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.sources = [f"127.0.0.{number}" for number in range(2, 2 + plan.get("sources", 16))]
        self.patience: float = plan["patience"]
        self.end = asyncio.Event()
        #: Seconds that the loop of this process was late at most.
        self.late = 0.0
        self._seconds: float = plan["seconds"]
        #: How long the good ones stay at least.
        self._stay: float = plan.get("stay", 0.0)
        self._ports = {name: Port(one, self) for name, one in plan["ports"].items()}
        self._wanted = [
            (name, kind, 100_000 * place + number)
            for place, (name, one) in enumerate(plan["ports"].items())
            for kind in ("silent", "slow", "good")
            for number in range(one.get(kind, 0))
        ]
        random.Random(plan.get("seed", 1)).shuffle(self._wanted)

    async def come(self) -> dict[str, Any]:
        began = asyncio.get_running_loop().time()
        coming = [
            asyncio.ensure_future(self._one(name, kind, number, began + self._seconds * place / len(self._wanted)))
            for place, (name, kind, number) in enumerate(self._wanted)
        ]
        watching = asyncio.ensure_future(self._watch())
        staying = asyncio.ensure_future(self._until_end(began + self._seconds + self._stay))
        await asyncio.gather(staying, *coming)
        watching.cancel()
        figures: dict[str, Any] = {name: port.figures() for name, port in self._ports.items()}
        own = {"late": round(self.late, 3), "cpu": round(time.process_time(), 1), "waited": _waited()}
        return figures | {"herd": own}

    async def _watch(self) -> None:
        """How late this process is itself."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.05)
            self.late = max(self.late, time.monotonic() - began - 0.05)

    async def _one(self, name: str, kind: str, number: int, at: float) -> None:
        port = self._ports[name]
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, at - loop.time()))
        try:
            await getattr(port, kind)(number)
        except (OSError, TimeoutError) as error:
            port.faults[kind][_words(error)] += 1

    async def _until_end(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
        self.end.set()


def _waited() -> float:
    """Seconds that this process had to wait for a processor: its times are no better than that."""
    return round(int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9, 1)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:120]


def _pattern(text: str) -> re.Pattern[bytes]:
    return re.compile(text.encode("latin-1"), re.DOTALL)


def _part(times: list[float], part: float) -> float:
    return round(sorted(times)[min(len(times) - 1, int(len(times) * part))], 3) if times else 0.0


def main() -> None:
    json.dump(asyncio.run(Herd(json.load(sys.stdin)).come()), sys.stdout)


if __name__ == "__main__":
    main()
