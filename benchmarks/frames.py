"""Frames of the gateway protocol, 64 bytes with one device each: decoding alone, and through a whole node.

    python -m benchmarks frames                       all parts
    python -m benchmarks frames --only through
    python -m benchmarks frames --isolation process
    python -m benchmarks frames --uplink file         what is posted goes up as well: into the log, and into files

A node of its own, gateways that are processes of this program, everything on loopback. ``through`` sends as fast as
the node takes it: decoded, published (QoS 1), confirmed. ``latency`` offers half of what is wanted (100,000 a second
inline, 20,000 in a worker process) and measures from when a frame was due to the confirmation that it is safe.
"""

from __future__ import annotations

import argparse
import multiprocessing
import select
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from benchmarks.durable import Node, say
from benchmarks.whole import cpu_seconds
from iot_mqtt.custom_protocols.gateway.codec import GatewayCodec
from iot_mqtt.custom_protocols.gateway.wire import Type
from iot_mqtt.framing import framer_of
from tests.doubles import gateway as client

FRAME = 64
DEVICE = "hall-2-hydro-press1"
GATEWAYS = 4
#: Frames a second that are wanted, by isolation.
WANTED = {"inline": 100_000, "process": 20_000}
_CHUNK = 256
_TICK = 0.002
#: Seconds at the beginning whose confirmations are not counted: caches fill, layouts are learnt.
_WARM = 1.0


def frame(number: int, *, ack: bool = False) -> bytes:
    """One frame of 64 bytes: a device with a counter, a temperature and a state."""
    readings = [
        ("n", Type.U32, number & 0xFFFF_FFFF),
        ("temp", Type.F32, 20.0 + number % 100 / 8),
        ("on", Type.BOOL, True),
    ]
    made = client.data([(DEVICE, readings)], sequence=number, time=1_700_000_000_000 + number, wants_ack=ack)
    if len(made) != FRAME:
        raise SystemExit(f"the frame has {len(made)} bytes")
    return made


class Gateways(Node):
    """A node with a listener of gateways."""

    def __init__(self, folder: Path, isolation: str, uplink: str) -> None:
        super().__init__(folder, "iot-mqtt")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.gateway_port: int = probe.getsockname()[1]
        self._isolation, self._uplink = isolation, uplink

    def _command(self) -> list[str]:
        told = [
            "listeners.gateway.enabled=true",
            f"listeners.gateway.port={self.gateway_port}",
            f"plugins.codecs=[{{name: gateway, isolation: {self._isolation}}}]",
            f"uplink.kind={self._uplink}",
        ]
        return [*super()._command(), *(word for setting in told for word in ("--set", setting))]


class Line:
    """One gateway's connection."""

    def __init__(self, port: int, name: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._inbox = client.Inbox()
        self.safe = 0
        self.socket.sendall(client.login(name, heartbeat=60))
        while not any(isinstance(message, client.LoginAnswer) for message in self.receive()):
            pass

    def fileno(self) -> int:
        return self.socket.fileno()

    def receive(self) -> list[object]:
        """What came; the greatest number that is safe is remembered."""
        data = self.socket.recv(65_536)
        if not data:
            raise SystemExit("the node closed the connection")
        messages: list[object] = list(self._inbox.feed(data))
        for message in messages:
            if isinstance(message, client.Ack):
                self.safe = max(self.safe, message.sequence)
        return messages


def _flood(port: int, name: str, count: int, ready: Barrier, found: Queue[tuple[float, float]]) -> None:
    """Send so many frames as fast as they are taken; tell when the last one was safe."""
    line = Line(port, name)
    numbers = range(1, count + 1)
    chunks = [
        b"".join(frame(number, ack=number == count or number % 4096 == 0) for number in numbers[at : at + _CHUNK])
        for at in range(0, count, _CHUNK)
    ]
    ready.wait()
    started = time.monotonic()
    line.socket.settimeout(60)
    for chunk in chunks:
        line.socket.sendall(chunk)
    while line.safe < count:
        line.receive()
    found.put((started, time.monotonic()))


def _paced(port: int, rate: float, seconds: float, found: Queue[list[float]]) -> None:
    """Of each gateway a chunk every two milliseconds, whose last frame asks to be confirmed; how long that took.

    One process for all, which sleeps in between: on a machine with two cores, the one that measures takes part.
    """
    lines = [Line(port, f"paced-{number}") for number in range(GATEWAYS)]
    per_tick = max(1, round(rate / GATEWAYS * _TICK))
    ticks = int(seconds / _TICK)
    chunks = [
        b"".join(frame(tick * per_tick + one + 1, ack=one == per_tick - 1) for one in range(per_tick))
        for tick in range(ticks)
    ]
    waiting = {line: deque[tuple[int, float]]() for line in lines}
    took: list[float] = []
    begun, sent = time.monotonic(), 0
    while len(took) < ticks * GATEWAYS and time.monotonic() < begun + seconds + 30:
        # They are not in step with each other. From when it was due: a sender that is held up does not hide it.
        while sent < ticks * GATEWAYS and (due := begun + sent * _TICK / GATEWAYS) <= time.monotonic():
            tick, number = divmod(sent, GATEWAYS)
            lines[number].socket.sendall(chunks[tick])
            waiting[lines[number]].append(((tick + 1) * per_tick, due))
            sent += 1
        wait = max(0.0, begun + sent * _TICK / GATEWAYS - time.monotonic()) if sent < ticks * GATEWAYS else 1.0
        for line in select.select(lines, [], [], wait)[0]:
            line.receive()
            now, asked = time.monotonic(), waiting[line]
            while asked and asked[0][0] <= line.safe:
                took.append(now - asked.popleft()[1])
    found.put(took[int(_WARM / _TICK) * GATEWAYS :])


def decode(seconds: float) -> None:
    """The codec by itself, and behind its framing."""
    codec_frames = [frame(number) for number in range(1, 20_001)]
    made = _codec()
    made.decode(client.login("gw"))
    begun, done = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        made.decode_many(codec_frames)
        done += len(codec_frames)
    alone = done / (time.perf_counter() - begun)
    data = b"".join(codec_frames)
    pieces = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]
    begun, done = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        framer = framer_of(GatewayCodec.framing)
        for piece in pieces:
            made.decode_many([item for item in framer.feed(piece) if isinstance(item, bytes)])
        done += len(codec_frames)
    say("decode", frames_per_s=alone, with_framing_per_s=done / (time.perf_counter() - begun))


def _codec() -> GatewayCodec:
    import logging

    from iot_mqtt.sdk import Host

    host = Host(
        GatewayCodec.Config(), peer="bench", log=logging.getLogger("bench"), count=lambda _n, _c: None, now=lambda: 0
    )
    return GatewayCodec(host)


def through(node: Gateways, count: int) -> None:
    """As fast as it goes."""
    found: Queue[tuple[float, float]] = multiprocessing.Queue()
    # The frames of all are made before the first is sent.
    ready = multiprocessing.Barrier(GATEWAYS + 1)
    senders = [
        multiprocessing.Process(target=_flood, args=(node.gateway_port, f"gw-{n}", count, ready, found), daemon=True)
        for n in range(GATEWAYS)
    ]
    for sender in senders:
        sender.start()
    ready.wait()
    busy = cpu_seconds(node.pid)
    ends = [found.get(timeout=120) for _ in senders]
    used = cpu_seconds(node.pid) - busy
    took = max(end for _, end in ends) - min(start for start, _ in ends)
    total = count * GATEWAYS
    say("through", frames_per_s=total / took, us_per_frame=1e6 * used / total, cpu=f"{used / took:.0%}")


def latency(node: Gateways, rate: int, seconds: float) -> None:
    """At a fixed rate."""
    found: Queue[list[float]] = multiprocessing.Queue()
    multiprocessing.Process(target=_paced, args=(node.gateway_port, rate, seconds, found), daemon=True).start()
    took = sorted(found.get(timeout=seconds + 60))
    say(
        f"latency at {rate:,}/s",
        p50_ms=1e3 * took[len(took) // 2],
        p99_ms=1e3 * took[int(len(took) * 0.99)],
        worst_ms=1e3 * took[-1],
        confirmations=len(took),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are named."""
    parser = argparse.ArgumentParser(prog="frames", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="names of parts, with commas between: decode, through, latency")
    parser.add_argument("--isolation", choices=tuple(WANTED), default="inline")
    parser.add_argument("--uplink", choices=("none", "file"), default="none")
    parser.add_argument("--count", type=int, default=200_000, help="frames of each of four gateways")
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args(arguments)
    wanted = options.only.split(",") if options.only else ["decode", "through", "latency"]
    if unknown := set(wanted) - {"decode", "through", "latency"}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    if "decode" in wanted:
        decode(options.seconds)
    if set(wanted) & {"through", "latency"}:
        with tempfile.TemporaryDirectory(prefix="bench-frames-") as folder:
            node = Gateways(Path(folder) / "node", options.isolation, options.uplink)
            try:
                node.start()
                if "through" in wanted:
                    through(node, options.count)
                if "latency" in wanted:
                    latency(node, WANTED[options.isolation] // 2, options.seconds)
            finally:
                node.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
