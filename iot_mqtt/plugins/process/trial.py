"""A codec's golden vectors in a real worker process, without a broker: what the codec kit asks for as a child.

::

    codec kit ──{"target", "config", "vectors", "path"}──▶ this ──operations──▶ worker
    codec kit ◀──────────{name: its story, …}──────────── this ◀──answers───── worker

The conversation is the kit's own; only the codec in it is a stand-in that asks the worker.
"""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from iot_mqtt.plugins.place import Place
from iot_mqtt.plugins.process import wire
from iot_mqtt.plugins.process.launch import command, confined, environment, make_mark
from iot_mqtt.plugins.settings import AVAILABLE, Limits
from iot_mqtt.sdk import BadBatch, BadFrame, CannotEncode, Codec, Command, Event, Host
from iot_mqtt.sdk.kit import Options, Unfit, subject_of
from iot_mqtt.sdk.kit.conversation import NOW
from iot_mqtt.sdk.kit.finding import NotFound, codec_named
from iot_mqtt.sdk.kit.isolation import stories
from iot_mqtt.sdk.kit.rules import Fault

#: Of results, what is told beside what was asked.
_ASIDE = ("counts", "took", "log", "confined")


class Worker:
    """One worker process, asked one thing at a time."""

    def __init__(self, place: Place, config: Any) -> None:
        limits = Limits()
        self._limits = limits
        self._asked = self._connections = 0
        self._link, theirs = socket.socketpair()
        self._link.settimeout(limits.start_within)
        descriptors = theirs.fileno(), make_mark()
        self._process = subprocess.Popen(  # noqa: S603 - this Python, with our own line of code
            command(*descriptors, confined(limits)), env=environment(), pass_fds=descriptors, stdin=subprocess.DEVNULL
        )
        theirs.close()
        os.close(descriptors[1])
        order = {"place": place.as_json(), "config": config, "now": NOW, "sandbox": AVAILABLE}
        (hello,) = self.ask(wire.START, 0, json.dumps(order).encode())
        if hello[1] == "refused":
            raise Fault(hello[2])
        self._link.settimeout(limits.answer_within)

    def connection(self) -> int:
        self._connections += 1
        return self._connections

    def ask(self, kind: int, connection: int, payload: bytes = b"") -> list[list[Any]]:
        """The results of one operation. Raises ``Fault`` when the worker ends, or takes too long."""
        return self.ask_all([wire.operation(kind, connection, payload)])

    def ask_all(self, operations: Sequence[bytes]) -> list[list[Any]]:
        results: list[list[Any]] = []
        try:
            self._link.sendall(b"".join(operations))
            self._asked += len(operations)
            done = 0
            while done < self._asked:
                done, some = wire.read_answer(self._exactly(wire.LENGTH.unpack(self._exactly(wire.LENGTH.size))[0]))
                results += [one for one in some if one[1] not in _ASIDE]
        except TimeoutError:
            raise Fault(f"its worker did not answer within {self._limits.answer_within:g} s") from None
        except (OSError, wire.Garbled) as error:
            raise Fault(f"its worker failed: {error}") from error
        return results

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._link.recv(count - len(data))
            if not more:
                self._link.close()
                raise Fault(f"its worker ended with {self._process.wait(self._limits.answer_within)}")
            data += more
        return data

    def close(self) -> None:
        self._link.close()
        self._process.kill()
        self._process.wait()


def standing_in(codec: type[Codec], worker: Worker) -> type[Codec]:
    """A codec that has it all said by the worker."""

    class Remote(Codec):
        framing = codec.framing
        schema = codec.schema

        def __init__(self, host: Host[Any]) -> None:
            super().__init__(host)
            self._number = worker.connection()
            self._first = worker.ask(wire.OPEN, self._number, host.peer.encode())

        def opened(self) -> Iterable[Event]:
            return _events(self._first)

        def decode_many(self, frames: Sequence[bytes]) -> list[Event]:
            return _events(worker.ask_all([data for data, _ in wire.decodes(self._number, frames)]))

        def encode(self, command: Command) -> bytes:
            return _bytes(worker.ask(wire.ENCODE, self._number, wire.write_command(command)))

        def welcome(self) -> bytes:
            return _bytes(worker.ask(wire.WELCOME, self._number))

        def refuse(self, reason: str) -> bytes:
            return _bytes(worker.ask(wire.REFUSE, self._number, reason.encode("utf-8", "replace")))

        def safe(self, token: int) -> bytes:
            return _bytes(worker.ask(wire.SAFE, self._number, wire.TOKEN.pack(token)))

    return Remote


def _events(results: list[list[Any]]) -> list[Event]:
    events: list[Event] = []
    for _, kind, *rest in results:
        if kind in ("events", "part"):
            events += wire.unpack_events(rest[0])
        elif kind == "bad_frame":
            raise BadBatch(events, BadFrame(*rest))
        else:
            raise Fault(f"{kind}: {rest[-1]}")
    return events


def _bytes(results: list[list[Any]]) -> bytes:
    for _, kind, *rest in results:
        if kind in ("send", "encoded"):
            return str(rest[-1]).encode("latin-1")
        if kind == "not_encoded":
            raise CannotEncode(rest[-1])
        raise Fault(f"{kind}: {rest[-1]}")
    return b""


def trial(target: str, config: Any, vectors: str | None) -> dict[str, Any]:
    """What each vector comes to. Raises ``NotFound``, ``Unfit`` and ``Fault``."""
    codec = codec_named(target)
    subject = subject_of(codec, config, Options(vectors=None if vectors is None else Path(vectors)))
    place = Place(target, target, "", "0", (target.partition(".")[0],))
    worker = Worker(place, config)
    try:
        return stories(dataclasses.replace(subject, codec=standing_in(codec, worker)))
    finally:
        worker.close()


def main() -> None:
    request = json.load(sys.stdin)
    sys.path[:] = request.pop("path")
    try:
        answer: dict[str, Any] = {"stories": trial(**request)}
    except (NotFound, Unfit, Fault) as error:
        answer = {"fault": str(error)}
    sys.stdout.write(f"\n{json.dumps(answer)}\n")


if __name__ == "__main__":
    main()
