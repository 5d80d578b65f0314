"""What the pipeline costs, without and with sockets: ``python benchmarks/micro/bench_pipeline.py [NAME ...]``.

``hop`` one event through one stage; ``build`` channel, pipeline and four stages; ``memory`` the same in bytes, and an
idle TCP connection in resident bytes; ``wheel`` scheduling and cancelling; ``drip`` 200 connections that each write
one 70-byte packet at a time, handled by a trivial stage, on Twisted's epoll reactor and on ours; ``connect`` accepts
per second; ``answer`` the server's CPU for one small packet in and one out, through the outbox and through
``transport.write``, which needs another round of the reactor; ``websocket`` small packets in frames of their own.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import socket
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from twisted.internet.protocol import Factory, Protocol

from iot_mqtt.pipeline import (
    Batch,
    Channel,
    ChannelSettings,
    Context,
    Layout,
    ListenerSettings,
    ManualClock,
    MqttCodecStage,
    ReactorClock,
    Stage,
    TimingWheel,
    listen,
)
from iot_mqtt.pipeline.websocket.frames import FrameReader, unmask
from tests.doubles.channel import EmbeddedChannel

CONNECTIONS = 200
PACKET = b"\x30\x44\x00\x08drip/one" + b"x" * 58


class Pass(Stage):
    """Passes reads on."""

    __slots__ = ()

    def read(self, ctx: Context, batch: Batch) -> None:
        ctx.fire_read(batch)


class Sink(Stage):
    """Counts reads."""

    __slots__ = ()
    reads = 0

    def read(self, ctx: Context, batch: Batch) -> None:
        Sink.reads += 1


def timed(call: Callable[[], object], count: int) -> float:
    """Microseconds per call, the best of five runs."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, time.perf_counter() - start)
    return best / count * 1e6


def layout(last: Callable[[], Stage] = Sink) -> Layout:
    """The stages of a plain MQTT connection."""
    return Layout([("mqtt", MqttCodecStage), ("last", last)])


def hop() -> None:
    """One event through one stage."""
    costs = []
    for stages in (0, 20):
        embedded = EmbeddedChannel([*[(f"pass{i}", Pass()) for i in range(stages)], ("sink", Sink())])
        head, batch = embedded.pipeline, [b"x"]
        costs.append(timed(lambda head=head, batch=batch: head.fire_read(batch), 20_000))  # type: ignore[misc]
    print(f"hop      {(costs[1] - costs[0]) / 20:.3f} us per stage that cares")
    skipped = EmbeddedChannel([*[(f"skip{i}", Stage()) for i in range(20)], ("sink", Sink())])
    print(f"skip     {timed(lambda: skipped.pipeline.fire_read([b'x']), 20_000):.3f} us past 20 stages that do not")
    received = EmbeddedChannel([("sink", Sink())])
    print(f"receive  {timed(lambda: received.channel.received(b'x'), 20_000):.3f} us channel.received to one stage")
    sender = EmbeddedChannel([("pass", Pass())])

    def send() -> None:
        sender.channel.write([b"x"])
        sender.channel.flush()
        sender.link.sent.clear()

    print(f"send     {timed(send, 20_000):.3f} us channel.write + flush of one small part")


def build() -> None:
    """Set-up of a connection above Twisted."""
    wheel = TimingWheel(ManualClock())
    settings, form = ChannelSettings("bench", wheel), layout()
    embedded = EmbeddedChannel()

    def one() -> None:
        channel = Channel(settings, ("127.0.0.1", 1))
        form.build(channel)
        channel.begin(embedded.link)

    def both() -> None:
        channel = Channel(settings, ("127.0.0.1", 1))
        form.build(channel)
        channel.begin(embedded.link)
        channel.lost(None)  # type: ignore[arg-type]

    print(f"build    {timed(one, 5_000):.2f} us to active, {timed(both, 5_000):.2f} us with the end")


def memory() -> None:
    """Bytes per channel with its pipeline, without a socket."""
    wheel = TimingWheel(ManualClock())
    settings, form, embedded = ChannelSettings("bench", wheel), layout(), EmbeddedChannel()
    kept: list[Channel] = [Channel(settings, ("127.0.0.1", 1))]
    form.build(kept[0])
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(2_000):
        channel = Channel(settings, ("127.0.0.1", 1))
        form.build(channel)
        channel.begin(embedded.link)
        kept.append(channel)
    size = (tracemalloc.get_traced_memory()[0] - before) / 2_000
    tracemalloc.stop()
    print(f"memory   {size:.0f} bytes for channel, pipeline, four stages and decoder")


def wheel() -> None:
    """Scheduling on the wheel with 100,000 others."""
    clock = ManualClock()
    it = TimingWheel(clock)
    for i in range(100_000):
        it.schedule(30 + i % 60, lambda: None)

    def one() -> None:
        it.schedule(12.5, print).cancel()

    print(f"wheel    {timed(one, 20_000):.2f} us to schedule and cancel among {len(it)}")
    start = time.perf_counter()
    clock.advance(100)
    print(f"         {(time.perf_counter() - start) / 100_000 * 1e6:.2f} us to fire each")


# ------------------------------------------------------------------------------------------------ with sockets


def drip(packets: int = 4_000) -> None:
    """Reads per second of many connections with one packet per write, by reactor."""
    for name in ("epoll", "turn"):
        in_child(_serve_drip, name, packets)


def _serve_drip(name: str, packets: int) -> None:
    reactor = make_reactor(name)
    wheel = TimingWheel(ReactorClock(reactor))
    listening = listen(reactor, ListenerSettings("drip", port=0), lambda _: Layout([("sink", Sink)]), wheel=wheel)
    begin: list[float] = []

    def check() -> None:
        if Sink.reads and not begin:
            begin[:] = [time.perf_counter(), time.process_time(), Sink.reads]
        if begin and len(listening) == 0:
            wall, busy = time.perf_counter() - begin[0], time.process_time() - begin[1]
            reads = Sink.reads - begin[2]
            print(f"drip     {name:6} {reads / wall:9,.0f} reads/s, {busy / reads * 1e6:.2f} us of CPU per read")
            reactor.stop()
        else:
            reactor.callLater(0.02, check)

    reactor.callWhenRunning(lambda: threading.Thread(target=_fork_drip, args=(listening.port, packets)).start())
    reactor.callLater(0.02, check)
    reactor.run()


def _fork_drip(port: int, packets: int) -> None:
    os.spawnl(os.P_NOWAIT, sys.executable, sys.executable, __file__, "--drip-client", str(port), str(packets))


def drip_client(port: int, packets: int) -> None:
    """Write one packet at a time on each connection in turn."""
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    for each in sockets:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(packets):
        for each in sockets:
            each.send(PACKET)
    for each in sockets:
        each.close()


def answer(count: int = 20_000) -> None:
    """CPU per packet that is answered at once."""
    for name in ("transport.write", "outbox"):
        in_child(_serve_answer, name, count)


class Echo(Stage):
    """Answers."""

    __slots__ = ()

    def read(self, ctx: Context, batch: Batch) -> None:
        ctx.write(batch)

    def read_complete(self, ctx: Context) -> None:
        ctx.flush()


class TwistedEcho(Protocol):
    """Answers as Twisted's examples do, and notes that its client is gone."""

    def dataReceived(self, data: bytes) -> None:
        transport: Any = self.transport
        transport.write(data)

    def connectionLost(self, reason: object = None) -> None:
        ended.append(1)


ended: list[int] = []


def _serve_answer(name: str, count: int) -> None:
    reactor = make_reactor("turn")
    wheel = TimingWheel(ReactorClock(reactor))
    listening = None
    if name == "outbox":
        listening = listen(reactor, ListenerSettings("answer", port=0), lambda _: Layout([("e", Echo)]), wheel=wheel)
        port = listening.port
    else:
        factory: Any = Factory.forProtocol(TwistedEcho)
        port = reactor.listenTCP(0, factory, interface="127.0.0.1").getHost().port
    begin = time.process_time()

    def check() -> None:
        if ended or (listening is not None and listening.counts.accepted and not listening.counts.open):
            busy = time.process_time() - begin
            print(f"answer   {name:15} {busy / count * 1e6:.2f} us of CPU per packet answered")
            reactor.stop()
        else:
            reactor.callLater(0.02, check)

    arguments = (sys.executable, __file__, "--answer-client", str(port), str(count))
    reactor.callWhenRunning(lambda: os.spawnl(os.P_NOWAIT, sys.executable, *arguments))
    reactor.callLater(0.02, check)
    reactor.run()


def answer_client(port: int, count: int) -> None:
    """Ask and wait, again and again."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            sock.send(PACKET)
            sock.recv(1024)


def websocket() -> None:
    """Microseconds per packet read, without sockets."""
    key = b"\x01\x02\x03\x04"
    one = bytes((0x82, 0x80 | len(PACKET))) + key + unmask(PACKET, key, 0)
    many, glued = one * 800, PACKET * 800
    reader = FrameReader(1 << 20)
    print(f"websocket {timed(lambda: reader.feed(many), 20) / 800:.2f} us per frame of one packet read")
    large = bytes((0x82, 0xFE)) + len(glued).to_bytes(2, "big") + key + glued
    print(f"          {timed(lambda: reader.feed(large), 200) / 800:.3f} us per packet in a frame of 800")


def connect(count: int = 5_000) -> None:
    """Server-side CPU per accepted and closed connection, and resident bytes per idle one."""
    for name in ("epoll", "turn"):
        in_child(_serve_connect, name, count)


def _serve_connect(name: str, count: int) -> None:
    reactor = make_reactor(name)
    wheel = TimingWheel(ReactorClock(reactor))
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    listening = listen(reactor, ListenerSettings("connect", port=0), lambda _: layout(), wheel=wheel)
    state: dict[str, float] = {}

    def check() -> None:
        if not state and len(listening) == 0 and listening.counts.accepted == 0:
            pass
        elif "rss" not in state and len(listening) == count:
            state["rss"] = (resident() - state["before"]) / count
            state["cpu"] = (time.process_time() - state["cpu_before"]) / count
            state["closing"] = time.process_time()
        elif "rss" in state and listening.counts.open == 0:
            closing = (time.process_time() - state["closing"]) / count
            print(
                f"connect  {name:6} {state['cpu'] * 1e6:.1f} us of CPU to accept, {closing * 1e6:.1f} us to close, "
                f"{state['rss']:.0f} bytes resident per idle connection"
            )
            reactor.stop()
            return
        reactor.callLater(0.02, check)

    def start() -> None:
        gc.collect()
        state["before"], state["cpu_before"] = resident(), time.process_time()
        threading.Thread(
            target=lambda: os.spawnl(
                os.P_NOWAIT,
                sys.executable,
                sys.executable,
                __file__,
                "--connect-client",
                str(listening.port),
                str(count),
            )
        ).start()

    reactor.callLater(0.1, start)
    reactor.callLater(0.12, check)
    reactor.run()


def connect_client(port: int, count: int) -> None:
    """Open many, wait, close all."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    threading.Event().wait(1.0)
    for each in sockets:
        each.close()


def resident() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def make_reactor(name: str) -> Any:
    """Install and return a reactor."""
    if name == "turn":
        from iot_mqtt.pipeline.reactor import install

        return install()
    from twisted.internet import epollreactor

    epollreactor.install()
    return sys.modules["twisted.internet.reactor"]


def in_child(target: Callable[..., None], *arguments: Any) -> None:
    """Each reactor needs a process of its own."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    process.join()


BENCHMARKS = {each.__name__: each for each in (hop, build, memory, wheel, websocket, drip, answer, connect)}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--drip-client"]:
        drip_client(int(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1:2] == ["--answer-client"]:
        answer_client(int(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1:2] == ["--connect-client"]:
        connect_client(int(sys.argv[2]), int(sys.argv[3]))
    else:
        for name in sys.argv[1:] or BENCHMARKS:
            BENCHMARKS[name]()
