"""A real broker in a storm of nearly right packets, and a healthy client beside it that must not notice.

    python -m tests.fuzz.storm --packets 1000000 [--seed 5] [--clients 16]

Many clients at once connect over TCP and send streams of packets: most of them right, so that there are sessions,
subscriptions, wills and messages under way; some of them mutated. A share of the connections goes to the WebSocket, the
gateway and the admin port with mutated inputs of their targets. The healthy client publishes numbered messages to
itself at QoS 1 all the time and gets each of them once and in order, without ever having to connect again. Afterwards
the broker is there, its log has no traceback, and its descriptors are back.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Final

from iot_mqtt.codec import Ack, AckRun, Decoder, Item, PacketType, PublishRun, Role, encode
from iot_mqtt.values import ProtocolVersion
from tests.cases.gateway import LOGIN
from tests.fuzz.corpus import beginnings
from tests.fuzz.mutation import Mutator
from tests.fuzz.packets import Streams, streams_of
from tests.fuzz.targets import TARGETS
from tests.fuzz.targets.web import UPGRADE, masked
from tests.wire.client import Client, Transport
from tests.wire.packets import V5

ROOT: Final = Path(__file__).parents[2]
#: Seconds in which the broker has to close a connection that is half closed, whatever was sent on it, and to
#: answer the healthy client; much more than it needs, for machines that have much else to do.
PATIENCE: Final = 60.0
#: What must not stand in a log.
FAULTS: Final = re.compile(r"Traceback|Unhandled|exception|\bcritical\b", re.IGNORECASE)
#: Ports that are not MQTT, and the targets whose inputs they get.
OTHERS: Final = {"ws": ("websocket-handshake", "websocket-frames"), "gateway": ("gateway",), "admin": ("admin",)}
#: Bytes of their inputs that only choose settings.
CHOOSING: Final = {"ws": 1, "gateway": 2, "admin": 1}


_NEXT: Final = {PacketType.PUBREC: PacketType.PUBREL, PacketType.PUBREL: PacketType.PUBCOMP}


class Broker:
    """A broker process, with figures."""

    def __init__(self, settings: tuple[str, ...] = ()) -> None:
        self.directory = tempfile.TemporaryDirectory(prefix="iot-mqtt-storm-")
        told = ["log.level=warning", f"node.data_dir={self.directory.name}", *settings]
        told += [f"listeners.{name}.port=0" for name in ("mqtt", "ws", "gateway")] + ["admin.port=0"]
        self._log = open(Path(self.directory.name) / "stderr.log", "w+")  # noqa: SIM115 - the child keeps it
        command = [str(ROOT / ".venv/bin/iot-mqtt"), "serve", *(word for one in told for word in ("--set", one))]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, text=True, cwd=self.directory.name
        )
        assert self.process.stdout is not None
        line = next((line for line in self.process.stdout if line.startswith("ready")), "")
        assert line, f"the broker did not get ready: {self.log()}"
        told_ports = dict(word.split("=", 1) for word in line.split()[1:] if "=" in word)
        self.ports = {
            name: int(re.search(r":(\d+)", address.removeprefix("ws://").removeprefix("http://"))[1])  # type: ignore[index]
            for name, address in told_ports.items()
            if name in ("mqtt", "ws", "gateway", "admin")
        }

    def log(self) -> str:
        return Path(self._log.name).read_text(errors="replace")

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def memory(self) -> int:
        """Resident, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        return int(found[1]) // 1024 if found else 0

    def read_packets(self) -> int:
        """What the broker has counted as received."""
        url = f"http://127.0.0.1:{self.ports['admin']}/metrics"
        with urllib.request.urlopen(url, timeout=30) as answer:
            text = answer.read().decode()
        return sum(
            int(float(value))
            for value in re.findall(r"^iot_mqtt_packets_received_total\{.*\} (\S+)", text, re.MULTILINE)
        )

    def stop(self) -> int:
        self.process.terminate()
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._log.close()
        self.directory.cleanup()
        return code


class Healthy(threading.Thread):
    """Publishes to itself; keeps what went wrong and the longest times."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._over = threading.Event()
        self.times: list[float] = []
        self.fault: str | None = None

    def run(self) -> None:
        try:
            with Client(Transport("127.0.0.1", self._port, PATIENCE), V5, PATIENCE, "healthy") as client:
                client.connect()
                client.subscribe("healthy/only", qos=1)
                number = 0
                while not self._over.is_set():
                    number += 1
                    began = time.perf_counter()
                    client.publish("healthy/only", str(number), qos=1)
                    got = client.message()
                    self.times.append(time.perf_counter() - began)
                    assert got.payload == str(number).encode(), f"{got} instead of number {number}"
                    time.sleep(0.01)
                client.no_message(0.5)
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"

    def end(self) -> None:
        self._over.set()
        self.join(2 * PATIENCE)


def answers(items: list[Item], version: ProtocolVersion | None) -> Iterator[bytes]:
    """What a client acknowledges them with."""
    assert version is not None
    for item in items:
        if isinstance(item, PublishRun) and item.qos:
            kind = PacketType.PUBACK if item.qos == 1 else PacketType.PUBREC
            yield from (encode(Ack(kind, number), version) for number in item.ids)
        elif isinstance(item, AckRun) and item.type in _NEXT:
            yield from (encode(Ack(_NEXT[item.type], number), version) for number in item.ids)


@dataclass
class Tally:
    """What was sent, and to whom."""

    packets: int = 0
    connections: int = 0
    others: int = 0
    stuck: list[str] = field(default_factory=list)


def _inputs(name: str, targets: tuple[str, ...]) -> Iterator[bytes]:
    for target in targets:
        yield from (data[CHOOSING[name] :] for data in beginnings(TARGETS[target]))


def _at_home(data: bytes) -> bytes:
    """Under a name that the broker's admin port goes by."""
    return data.replace(b"Host: node", b"Host: localhost")


class Storm:
    """The clients that mean harm."""

    def __init__(self, broker: Broker, seed: int, *, each: int = 300, seconds: float = inf) -> None:
        self._broker = broker
        self._end = time.monotonic() + seconds
        self._dice = random.Random(seed)
        self._streams = streams_of(self._dice)
        self._each = each
        self._mutators = {
            name: Mutator(self._dice, [_at_home(data) for data in _inputs(name, targets)], longest=2000)
            for name, targets in OTHERS.items()
            if name in broker.ports
        }
        self.tally = Tally()

    async def blow(self, packets: int, clients: int) -> None:
        await asyncio.gather(*(self._client(packets) for _ in range(clients)))

    async def _client(self, packets: int) -> None:
        dice = self._dice
        while self.tally.packets < packets and not self.tally.stuck and time.monotonic() < self._end:
            if self._mutators and dice.random() < 0.1:
                name = dice.choice(list(self._mutators))
                self.tally.others += 1
                await self._say(self._broker.ports[name], self._other(name))
                continue
            streams = dice.choice(self._streams)
            wire = self._stream(streams)
            self.tally.packets += len(wire)
            self.tally.connections += 1
            await self._say(self._broker.ports["mqtt"], wire, streams.version if dice.random() < 0.5 else None)

    def _stream(self, streams: Streams) -> list[bytes]:
        count = max(1, int(self._dice.expovariate(1 / self._each)))
        wrong = self._dice.choice((0.0, 0.0, 0.001, 0.005, 0.05))
        return [streams.connect(0.1), *streams.packets(count, wrong)]

    def _other(self, name: str) -> list[bytes]:
        """For another port: what is nearly right from its first byte on, or behind a good beginning."""
        dice, mutator = self._dice, self._mutators[name]
        wrong = [mutator.next() for _ in range(3)]
        if dice.random() < 0.3:
            return wrong
        if name == "gateway":
            return [LOGIN, *(mutator.next() for _ in range(20))]
        if name == "ws":
            packets = self._stream(dice.choice(self._streams))
            self.tally.packets += len(packets)
            frames = [masked(0x82, packet, dice.randbytes(4)) for packet in packets]
            return [UPGRADE, *frames, *wrong]
        return wrong

    async def _say(self, port: int, wire: list[bytes], version: ProtocolVersion | None = None) -> None:
        """In a few writes, reading all the while, then half closed; the broker has to close soon."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        reading = asyncio.ensure_future(self._drain(reader, writer, version))
        try:
            size = self._dice.choice((1, 10, 100, 1000))
            with contextlib.suppress(ConnectionError):
                for at in range(0, len(wire), max(size, len(wire) // 8)):
                    writer.write(b"".join(wire[at : at + max(size, len(wire) // 8)]))
                    await writer.drain()
                    if reading.done():
                        break
                if self._dice.random() < 0.2:
                    writer.transport.abort()
                elif writer.can_write_eof():
                    writer.write_eof()
            try:
                await asyncio.wait_for(reading, PATIENCE)
            except TimeoutError:
                self.tally.stuck.append(f"{len(wire)} packets, the first ones {b' '.join(wire)[:100].hex()}")
        finally:
            reading.cancel()
            writer.transport.abort()

    @staticmethod
    async def _drain(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: ProtocolVersion | None
    ) -> None:
        """Read to the end; with a version, acknowledge what comes, as a client would."""
        decoder = None if version is None else Decoder(role=Role.CLIENT, version=version)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 18):
                if decoder is None or writer.is_closing() or not writer.can_write_eof():
                    continue
                with contextlib.suppress(RuntimeError):  # half closed
                    writer.write(b"".join(answers(decoder.feed(data), decoder.version)))


@dataclass(frozen=True)
class Outcome:
    """What came of it, and what is wrong with that."""

    tally: Tally
    read: int
    seconds: float
    longest: float
    p99: float
    healthy: int
    memory: tuple[int, int]
    faults: list[str]


def storm(packets: int, seed: int, clients: int = 16, settings: tuple[str, ...] = (), seconds: float = inf) -> Outcome:
    """One broker, one storm."""
    broker = Broker(settings)
    faults: list[str] = []
    try:
        healthy = Healthy(broker.ports["mqtt"])
        healthy.start()
        before, memory, began = broker.descriptors(), broker.memory(), time.monotonic()
        blowing = Storm(broker, seed, seconds=seconds)
        asyncio.run(blowing.blow(packets, clients))
        seconds, after_memory = time.monotonic() - began, broker.memory()
        healthy.end()
        read = broker.read_packets()
        for _ in range(100):
            if broker.descriptors() <= before + 2:
                break
            time.sleep(0.1)
        else:
            faults.append(f"{broker.descriptors()} descriptors, {before} before")
        faults += [f"a connection stays open: {wire}" for wire in blowing.tally.stuck]
        if healthy.fault:
            faults.append(f"the healthy client: {healthy.fault}")
        if broker.process.poll() is not None:
            faults.append(f"the broker has ended with {broker.process.returncode}")
        text = broker.log()
    finally:
        code = broker.stop()
    if code:
        faults.append(f"exit code {code}")
    if found := FAULTS.search(text):
        faults.append(text[max(0, found.start() - 500) : found.start() + 3000])
    times = sorted(healthy.times) or [0.0]
    p99 = times[int(len(times) * 0.99)]
    return Outcome(blowing.tally, read, seconds, times[-1], p99, len(healthy.times), (memory, after_memory), faults)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.storm", description="Mutated packets to a real broker.")
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000_000))
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--minutes", type=float, default=inf, help="stop then, however many were sent")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    told = parser.parse_args()
    print(f"seed {told.seed}", flush=True)
    came = storm(told.packets, told.seed, told.clients, tuple(told.set), told.minutes * 60)
    tally = came.tally
    print(
        f"{tally.packets} packets sent on {tally.connections} connections, {came.read} read by the broker; "
        f"{tally.others} connections to other ports; {came.seconds:.0f} s, "
        f"memory {came.memory[0]} → {came.memory[1]} MB\n"
        f"healthy client: {came.healthy} messages, p99 {came.p99 * 1000:.0f} ms, longest {came.longest * 1000:.0f} ms"
    )
    for fault in came.faults:
        print(f"FAULT: {fault}")
    return 1 if came.faults else 0


if __name__ == "__main__":
    sys.exit(main())
