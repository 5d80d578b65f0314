"""Instructions of the broker, outside of the kernel, for what comes one by one: as many on a busy machine as on a quiet
one.

    python -m benchmarks instructions [--messages 2000] [--keep FOLDER]

Callgrind counts them (``apt-get install valgrind``). Ten publishers, each with a subscriber, take turns: the next
message is sent when the one before has arrived and is acknowledged. ``--keep`` leaves the counts where
``callgrind_annotate --inclusive=yes`` can say which functions they are.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from iot_mqtt.codec import Connect, PacketType, Publish, Request, Subscribe, encode, encode_acks
from iot_mqtt.values import ProtocolVersion
from tests.ports import free_port

PAIRS = 10
VERSION = ProtocolVersion.V311
#: Messages before it is counted: by then everything has been looked up once.
FIRST = 200
CONNECTS = 500


class Client:
    """One connection, which waits for each answer."""

    def __init__(self, port: int, name: str, *, clean: bool = True) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send(encode(Connect(VERSION, name, clean_start=clean), VERSION))
        self.receive(4)

    def send(self, data: bytes) -> None:
        """All of it."""
        self._sock.sendall(data)

    def receive(self, size: int) -> bytes:
        """So many bytes."""
        data = b""
        while len(data) < size:
            got = self._sock.recv(size - len(data))
            if not got:
                raise SystemExit("the broker has closed a connection")
            data += got
        return data


class Pairs:
    """Publishers and their subscribers."""

    def __init__(self, port: int, qos: int, *, kept: bool) -> None:
        self._qos = qos
        self._pairs: list[tuple[Client, Client, bytes]] = []
        for number in range(PAIRS):
            topic = f"t/{number}"
            reader = Client(port, f"reader-{qos}-{kept}-{number}", clean=not kept)
            reader.send(encode(Subscribe(1, (Request(topic, qos),)), VERSION))
            reader.receive(5)
            self._pairs.append((Client(port, f"writer-{qos}-{kept}-{number}"), reader, topic.encode()))

    def send(self, number: int) -> None:
        """One message, and what belongs to it."""
        writer, reader, topic = self._pairs[number % PAIRS]
        packet_id = number % 60_000 + 1 if self._qos else 0
        packet = encode(Publish(topic, b"x" * 64, self._qos, packet_id=packet_id), VERSION)
        writer.send(packet)
        if self._qos:
            writer.receive(4)
        got = reader.receive(len(packet))
        if self._qos:
            at = 2 + 2 + len(topic)
            reader.send(encode_acks(PacketType.PUBACK, [int.from_bytes(got[at : at + 2], "big")], VERSION))


@contextmanager
def counted(folder: Path) -> Iterator[tuple[int, Callable[[Callable[[], None]], int]]]:
    """A broker under callgrind: its port, and what counts the instructions that something takes it."""
    port, out = free_port(), folder / "callgrind.out"
    sets = [f"node.data_dir={folder}/data", f"listeners.mqtt.port={port}", "listeners.ws.port=0"]
    sets += ["listeners.gateway.port=0", "admin.enabled=false"]
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--instr-atstart=no", sys.executable]
    command += ["-m", "iot_mqtt", "serve", *(word for one in sets for word in ("--set", one))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as broker:
        assert broker.stdout is not None
        if not broker.stdout.readline().startswith(b"ready"):
            raise SystemExit("the broker did not start")

        def control(*words: str) -> None:
            done = ["callgrind_control", *words, str(broker.pid)]
            subprocess.run(done, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def count(work: Callable[[], None]) -> int:
            before = set(folder.glob("callgrind.out.*"))
            control("--zero")
            control("--instr=on")
            work()
            control("--instr=off")
            control("--dump")
            (dump,) = set(folder.glob("callgrind.out.*")) - before
            with dump.open() as lines:
                return next(int(line.split()[1]) for line in lines if line.startswith("totals:"))

        try:
            yield port, count
        finally:
            broker.terminate()


def main(arguments: Sequence[str]) -> int:
    """Count and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks instructions", description=__doc__)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--keep", type=Path, help="an empty folder for what callgrind writes")
    chosen = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        raise SystemExit("there is no valgrind here: apt-get install valgrind")
    with tempfile.TemporaryDirectory() as made:
        folder = chosen.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        with counted(folder) as (port, count):
            for name, qos, kept in (("QoS 0", 0, False), ("QoS 1", 1, False), ("QoS 1, kept sessions", 1, True)):
                pairs = Pairs(port, qos, kept=kept)
                for number in range(FIRST):
                    pairs.send(number)

                def messages(pairs: Pairs = pairs) -> None:
                    for number in range(FIRST, FIRST + chosen.messages):
                        pairs.send(number)

                print(f"{name:22} {count(messages) / chosen.messages:9,.0f} a message", flush=True)
            clients = [Client(port, f"first-{number}") for number in range(FIRST)]

            def connects() -> None:
                clients.extend(Client(port, f"client-{number}") for number in range(CONNECTS))

            print(f"{'CONNECT':22} {count(connects) / CONNECTS:9,.0f} a connection", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
