"""A subscriber in a process of its own, which may be killed at any moment and knows afterwards what it had.

    python member.py PORT CLIENT_ID FILTER QOS VERSION JOURNAL

The journal has a line for everything that may not be forgotten, written before the broker is answered::

    connected TIME
    got TIME ID PAYLOAD          a PUBLISH that was not known
    released ID                  PUBREL: the id may mean a new message from here on
    answering                    what was got so far may be acknowledged from here on

So a member that comes back knows the QoS 2 ids it has received, as a client with a session must [MQTT-4.1.0-1].
It acknowledges what it got a little later, in one go, so that there is always something in flight.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from systemkit import wire
from systemkit.wire import Received, Splitter

#: Messages that the broker may have in flight to a member.
WINDOW = 20
#: Seconds between the message and its acknowledgement.
THINKING = 0.03
#: Seconds until the next attempt to connect.
AGAIN = 0.05


@dataclass(frozen=True, slots=True)
class Got:
    """One line of a journal: a message as it came for the first time."""

    at: float
    packet_id: int
    payload: bytes


def read_journal(path: Path) -> tuple[list[Got], dict[int, bytes]]:
    """What a member got, and the ids that were not released; a torn last line does not count."""
    got: list[Got] = []
    known: dict[int, bytes] = {}
    data = path.read_bytes() if path.exists() else b""
    for line in data.split(b"\n")[:-1]:
        kind, _, rest = line.partition(b" ")
        if kind == b"got":
            at, packet_id, payload = rest.split(b" ", 2)
            got.append(Got(float(at), int(packet_id), payload))
            known[int(packet_id)] = payload
        elif kind == b"released":
            known.pop(int(rest), None)
    return got, known


def unconfirmed(path: Path) -> set[bytes]:
    """What a member got and has certainly not acknowledged."""
    _, _, rest = (b"answering\n" + path.read_bytes()).rpartition(b"answering\n")
    lines = [line for line in rest.split(b"\n")[:-1] if line.startswith(b"got ")]
    return {line.split(b" ", 3)[3] for line in lines}


def connections(path: Path) -> int:
    """How often a member was let in."""
    return path.read_bytes().count(b"connected ") if path.exists() else 0


class Member:
    """Connects with a session, subscribes, and goes on for ever."""

    def __init__(self, port: int, client_id: str, filter: str, qos: int, version: int, journal: Path) -> None:
        self._port, self._client_id, self._filter = port, client_id, filter
        self._qos, self._version = qos, version
        _, self._known = read_journal(journal)
        self._journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def run(self) -> None:
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self._port), 5) as sock:
                    self._serve(sock)
            except OSError:
                pass
            time.sleep(AGAIN)

    def _write(self, text: bytes) -> None:
        os.write(self._journal, text + b"\n")

    def _serve(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        properties = b""
        if self._version == 5:
            properties = b"\x11" + (3600).to_bytes(4, "big") + b"\x21" + WINDOW.to_bytes(2, "big")
        sock.sendall(wire.connect(self._client_id, version=self._version, clean=False, properties=properties))
        splitter, answers, due = Splitter(), list[bytes](), 0.0
        while True:
            wait = max(0.0, due - time.monotonic()) if answers else 30.0
            if select.select([sock], [], [], wait)[0]:
                data = sock.recv(65536)
                if not data:
                    return
                for received in splitter.feed(data):
                    self._handle(received, sock, answers)
                due = due if answers and due > time.monotonic() else time.monotonic() + THINKING
            if answers and time.monotonic() >= due:
                self._write(b"answering")
                sock.sendall(b"".join(answers))
                answers.clear()

    def _handle(self, received: Received, sock: socket.socket, answers: list[bytes]) -> None:
        if received.kind == wire.CONNACK:
            assert received.reason() == 0, received
            sock.sendall(wire.subscribe(1, [(self._filter, self._qos)], version=self._version))
        elif received.kind == wire.SUBACK:
            self._write(b"connected %f" % time.monotonic())
        elif received.kind == wire.PUBREL:
            if self._known.pop(received.packet_id, None) is not None:
                self._write(b"released %d" % received.packet_id)
            answers.append(wire.ack(wire.PUBCOMP, received.packet_id))
        elif received.kind == wire.PUBLISH:
            self._on_publish(wire.publication(received, self._version), answers)

    def _on_publish(self, message: wire.Publication, answers: list[bytes]) -> None:
        line = b"got %f %d %s" % (time.monotonic(), message.packet_id, message.payload)
        if message.qos == 2:
            if self._known.get(message.packet_id) != message.payload or not message.dup:
                self._known[message.packet_id] = message.payload
                self._write(line)
            answers.append(wire.ack(wire.PUBREC, message.packet_id))
        else:
            self._write(line)
            answers.append(wire.ack(wire.PUBACK, message.packet_id))


if __name__ == "__main__":
    port, client_id, filter, qos, version, journal = sys.argv[1:]
    Member(int(port), client_id, filter, int(qos), int(version), Path(journal)).run()
