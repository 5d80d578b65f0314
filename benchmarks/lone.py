"""A message that comes alone, as most do: what each step of its turn costs, and how long the collector stops everybody.

    python -m benchmarks lone                        the table of steps, and the system calls if strace is there
    python -m benchmarks lone --clients 10000        with the collector's pauses among so many clients

Calls and bytecodes are counted, not timed: they are the same on every machine, however busy. What is compiled has none:
the table says what is still Python. A node, a publisher and a
subscriber are in one process, and the reactor is turned by hand: 64 bytes, QoS 0 (``--qos 1``: and its PUBACK).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from twisted.internet.defer import ensureDeferred

from benchmarks import whole
from iot_mqtt.app.config import load_config
from iot_mqtt.app.node.service import Service
from iot_mqtt.pipeline.descriptors import raise_limit
from iot_mqtt.pipeline.reactor import TurnReactor

PACKAGE = str(Path(sys.modules["iot_mqtt"].__file__ or "").parent) + os.sep
#: Step → what belongs to it: beginnings of "file:function". The first that fits counts; other functions of Twisted
#: belong to the reactor, the rest to the handler.
STEPS: dict[str, tuple[str, ...]] = {
    "reactor": ("pipeline/reactor.py:_turns", "pipeline/reactor.py:doPoll"),
    "receive": ("pipeline/transport.py:doRead", "pipeline/channel.py:", "pipeline/protocol.py:"),
    "decode": ("pipeline/mqtt.py:", "codec/decoder.py:", "pipeline/stage.py:fire_"),
    "route": ("topics/",),
    "fan-out": (
        "broker/publishing/batches.py:",
        "broker/publishing/fanout.py:",
        "broker/publishing/outcome.py:",
        "broker/connections/client_writer.py:send",
        "broker/turn.py:mark_dirty",
    ),
    "end of turn": (
        "pipeline/reactor.py:",
        "broker/turn.py:",
        "grid/store.py:",
        "grid/committer.py:",
        "broker/publishing/budget.py:",
    ),
    "write": (
        "broker/connections/client_writer.py:write_out",
        "pipeline/stage.py:",
        "pipeline/ends.py:",
        "pipeline/outbox.py:",
        "pipeline/transport.py:push",
    ),
}
WARM, COUNTED = 200, 200


def step_of(frame: FrameType) -> str:
    """Which step a function belongs to."""
    path, code = frame.f_code.co_filename, frame.f_code
    if not path.startswith(PACKAGE):
        return "reactor"
    place = f"{path[len(PACKAGE) :]}:{code.co_name}"
    return next((step for step, places in STEPS.items() if place.startswith(places)), "handler")


class Node:
    """A node in this process; nothing moves unless its reactor is turned."""

    def __init__(self, *settings: str) -> None:
        self.reactor = TurnReactor()
        self._folder = tempfile.mkdtemp(prefix="bench-lone-")
        off = [f"listeners.{name}.enabled=false" for name in ("ws", "gateway")]
        config = load_config(
            None,
            [f"node.data_dir={self._folder}", "listeners.mqtt.port=0", "admin.enabled=false", *off, *settings],
        )
        self.service = Service(config, self.reactor, print)
        ready: list[Any] = []
        self.reactor.startRunning(installSignalHandlers=False)
        ensureDeferred(self.service.start()).addBoth(ready.append)
        self.turn_until(lambda: bool(ready))
        if not isinstance(ready[0], str):
            ready[0].raiseException()
        self.port = self.service.ports["listeners.mqtt"]

    def turn_until(self, done: Callable[[], bool], seconds: float = 60) -> None:
        """Let the reactor work."""
        deadline = time.monotonic() + seconds
        while not done():
            self.reactor.iterate(0.005)
            if time.monotonic() > deadline:
                raise SystemExit("nothing comes")

    def client(self, name: bytes, *filters: bytes, qos: int = 0) -> socket.socket:
        """A client that is connected and has subscribed."""
        sock = socket.create_connection(("127.0.0.1", self.port))
        sock.setblocking(False)  # noqa: FBT003
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.send(b"\x10%c\x00\x04MQTT\x04\x02\x00\x3c\x00%c%b" % (12 + len(name), len(name), name))
        self.expect(sock, 4)
        for number, filter in enumerate(filters, 1):
            sock.send(b"\x82%c\x00%c\x00%c%b%c" % (5 + len(filter), number, len(filter), filter, qos))
            self.expect(sock, 5)
        return sock

    def expect(self, sock: socket.socket, size: int) -> None:
        """Turn the reactor until so many bytes have come."""
        got = bytearray()

        def come() -> bool:
            with contextlib.suppress(BlockingIOError):
                got.extend(sock.recv(4096))
            return len(got) >= size

        self.turn_until(come)

    def close(self) -> None:
        """Remove its files; the process ends next."""
        shutil.rmtree(self._folder, ignore_errors=True)


class Steps:
    """Counts what is called, and every bytecode, by step. Two runs: counting bytecodes would count as calls."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.native: Counter[str] = Counter()
        self.bytecodes: Counter[str] = Counter()

    def on_call(self, frame: FrameType, event: str, argument: Any) -> None:
        """For ``sys.setprofile``."""
        if event == "call":
            self.calls[step_of(frame)] += 1
        elif event == "c_call" and argument is not sys.setprofile:
            self.native[step_of(frame)] += 1

    def on_line(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        """For ``sys.settrace``."""
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        step = step_of(frame)

        def count(_frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
            self.bytecodes[step] += event == "opcode"
            return count

        return count

    def show(self, messages: int) -> None:
        """The table."""
        print(f"{'step':<14}{'functions':>11}{'native calls':>14}{'bytecodes':>11}")
        for step in [*STEPS, "handler"]:
            row = [counted[step] / messages for counted in (self.calls, self.native, self.bytecodes)]
            print(f"{step:<14}{row[0]:>11.1f}{row[1]:>14.1f}{row[2]:>11.0f}")
        row = [counted.total() / messages for counted in (self.calls, self.native, self.bytecodes)]
        print(f"{'in all':<14}{row[0]:>11.1f}{row[1]:>14.1f}{row[2]:>11.0f}", flush=True)


def show_steps(qos: int) -> None:
    """One message at a time through a node, each step counted."""
    node = Node()
    reader, writer = node.client(b"reader", b"lone/t", qos=qos), node.client(b"writer")
    body = b"\x00\x06lone/t" + (b"\x00\x01" if qos else b"") + b"x" * 64
    packet = b"%c%c%b" % (0x30 | qos << 1, len(body), body)
    steps = Steps()

    def messages(count: int, switch: Callable[[Any], None], hook: Any) -> None:
        for _ in range(count):
            writer.send(packet)
            switch(hook)
            try:
                node.reactor.doPoll(1)
            finally:
                switch(None)
            node.expect(reader, len(packet))
            if qos:
                node.expect(writer, 4)
                reader.send(b"\x40\x02" + b"\x00\x01")

    messages(WARM, sys.setprofile, None)
    messages(COUNTED, sys.setprofile, steps.on_call)
    messages(COUNTED, sys.settrace, steps.on_line)
    steps.show(COUNTED)
    node.close()


def show_system_calls(rate: int) -> None:
    """Of a broker in a process of its own, by strace."""
    strace = shutil.which("strace")
    if strace is None:
        return
    with whole.ours().running() as (port, pid), tempfile.NamedTemporaryFile() as table:
        watch = subprocess.Popen([strace, "-f", "-c", "-o", table.name, "-p", str(pid)], stderr=subprocess.DEVNULL)
        time.sleep(1)
        _load(port, 20, rate, 3).wait()
        watch.send_signal(signal.SIGINT)
        watch.wait()
        # % time, seconds, usecs/call, calls, errors if there were, name
        rows = [line.split() for line in Path(table.name).read_text().splitlines()]
    found = {row[-1]: int(row[3]) for row in rows if len(row) > 4 and row[3].isdigit() and row[-1] != "total"}
    if sent := found.get("sendto", 0):
        shares = ", ".join(f"{name} {calls / sent:.2f}" for name, calls in found.items() if calls > sent / 100)
        print(f"system calls for each of {sent} messages sent: {shares}", flush=True)


def show_pauses(clients: int, rate: int, seconds: float) -> None:
    """How long each collection took, while clients connected and while messages went through."""
    raise_limit()
    node, pauses, begun = Node(), {"connecting": [], "steady": []}, [0.0, 0.0]  # type: ignore[var-annotated]
    phase = "connecting"

    def note(stage: str, info: dict[str, int]) -> None:
        if stage == "start":
            begun[:] = time.thread_time(), time.perf_counter()
        else:
            pauses[phase].append((time.thread_time() - begun[0], time.perf_counter() - begun[1], info["generation"]))

    gc.callbacks.append(note)
    load = _load(node.port, clients, rate, seconds)
    node.turn_until(lambda: node.service.broker.clients.connections.clients >= clients or load.poll() is not None, 120)
    node.turn_until(lambda: node.service.counters.messages_received > rate or load.poll() is not None, 120)
    phase = "steady"
    node.turn_until(lambda: load.poll() is not None, seconds + 60)
    gc.callbacks.remove(note)
    print(f"{clients} clients, {rate} messages/s for {seconds:g} s; collections, milliseconds of CPU:")
    for name, found in pauses.items():
        if not found:
            print(f"  {name:<12}none")
            continue
        cpu = [each[0] * 1e3 for each in found]
        print(
            f"  {name:<12}{len(found):>5}   median {statistics.median(cpu):.2f}   longest {max(cpu):.2f}"
            f"   (by the clock {max(each[1] for each in found) * 1e3:.1f})"
            f"   oldest generation {max(each[2] for each in found)}"
        )
    begin = time.perf_counter()
    garbage = gc.collect()
    print(f"  afterwards, of everything: {time.perf_counter() - begin:.2f} s, which found {garbage} objects of garbage")
    node.close()


def _load(port: int, clients: int, rate: int, seconds: float) -> subprocess.Popen[bytes]:
    words = ["--pubs", clients // 2, "--rate", rate, "--seconds", seconds, "--count", whole.MANY, "--port", port]
    command = [str(whole.build()), "pubsub", *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="lone", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--qos", type=int, choices=(0, 1), default=0, help="of the messages in the table of steps")
    parser.add_argument("--clients", type=int, default=0, help="show the collector's pauses among so many")
    parser.add_argument("--rate", type=int, default=5_000, help="messages a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="for which the pauses are watched")
    options = parser.parse_args(arguments)
    show_steps(options.qos)
    show_system_calls(options.rate)
    if options.clients:
        show_pauses(options.clients, options.rate, options.seconds)
    sys.stdout.flush()
    # The nodes were left as they were, and their threads would be waited for.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
