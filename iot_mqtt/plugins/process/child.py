"""The worker: a process with one version of one plugin and the codecs of all its connections.

It imports the SDK and the plugin and nothing else of the broker. Operations come in over a socket, are carried out in
their order, and what came of them goes back. It ends when the socket does, or the process at its other end.
"""

from __future__ import annotations

import json
import logging
import math
import mmap
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import iot_mqtt
from iot_mqtt.framing import framing_to
from iot_mqtt.plugins.calling import Calling, Outcome, Trouble, told, unencodable
from iot_mqtt.plugins.loading import Loaded, load_alone
from iot_mqtt.plugins.place import Place
from iot_mqtt.plugins.process import wire
from iot_mqtt.plugins.process.sandbox.confining import STEPS, confine, follow, homes_of, limit, readable_by
from iot_mqtt.plugins.settings import OFF, REQUIRED
from iot_mqtt.plugins.telling import MAX_COUNTERS, logger_of
from iot_mqtt.sdk import CannotEncode, Event
from iot_mqtt.sdk.checking import Checker
from iot_mqtt.sdk.fitting import DoesNotFit

_READ = 256 * 1024
#: Seconds after which is said what is done so far: the watchdog looks at that.
_PATIENCE = 0.02
#: Said in one answer at most, of what was said at once: events, and their bytes, roughly.
_EVENTS = 500
_BYTES = 256 * 1024
_COUNT_EVERY = 1.0


class Worker:
    """The loop: read, carry out, answer."""

    def __init__(self, link: socket.socket, mark: mmap.mmap, slow: float, parent: int) -> None:
        self._link = link
        self._mark = mark
        self._slow = slow
        self._parent = parent
        self._rest = b""
        self._loaded: Loaded
        self._log = logger_of("worker")
        self._checker = Checker()
        self._now: Callable[[], int] | None = None
        self._callings: dict[int, Calling] = {}
        self._done = self._last = 0
        self._results: list[Any] = []
        self._events = self._size = 0
        self._said = self._counted = time.monotonic()
        self._counts: Counter[str] = Counter()

    def run(self) -> None:
        while data := self._link.recv(_READ):
            self._rest = self._rest + data if self._rest else data
            self._feed()
            self._answer()
            # Not before: it may be stuck or die as well over what was said as over what was asked.
            wire.MARK.pack_into(self._mark, 0, self._last, 0, 0)

    def _feed(self) -> None:
        buffer, at, end = self._rest, 0, len(self._rest)
        head, size, mark = wire.HEAD, wire.HEAD.size, wire.MARK
        while end - at >= size:
            length, kind, connection = head.unpack_from(buffer, at)
            stop = at + 4 + length
            if stop > end:
                break
            payload = buffer[at + size : stop]
            at = stop
            mark.pack_into(self._mark, 0, connection, 1, 0)
            self._last = connection
            begun = time.monotonic()
            frames = self._carry_out(kind, connection, payload)
            ended = time.monotonic()
            self._done += 1
            if ended - begun > self._slow * frames:
                self._results.append([connection, "took", ended - begun])
            if self._events >= _EVENTS or self._size >= _BYTES or ended - self._said > _PATIENCE:
                self._answer()
        self._rest = buffer[at:]

    def _carry_out(self, kind: int, connection: int, payload: bytes) -> float:
        """How many frames it was; infinite for the start, which has a limit of its own."""
        if kind == wire.START:
            self._start(json.loads(payload))
            return math.inf
        if kind == wire.OPEN:
            self._open(connection, payload.decode())
            return 1
        if kind == wire.CLOSE:
            self._callings.pop(connection, None)
            return 1
        calling = self._callings.get(connection)
        # Its codec failed or a frame was bad, and that is on its way.
        if calling is None or (calling.over and kind in (wire.DECODE, wire.ENCODE, wire.IDLE)):
            return 1
        if kind == wire.DECODE:
            frames = wire.read_frames(payload)
            self._outcome(connection, calling.decode(frames))
            return len(frames)
        self._say(kind, connection, calling, payload)
        return 1

    def _say(self, kind: int, connection: int, calling: Calling, payload: bytes) -> None:
        if kind == wire.IDLE:
            self._outcome(connection, calling.idle())
        elif kind == wire.ENCODE:
            self._encode(connection, calling, payload)
        elif kind == wire.WELCOME:
            self._send(connection, calling.welcome())
        elif kind == wire.REFUSE:
            self._send(connection, calling.refuse(payload.decode()))
        elif kind == wire.SAFE:
            self._send(connection, calling.safe(wire.TOKEN.unpack(payload)[0]))

    def _start(self, order: dict[str, Any]) -> None:
        if (still := order.get("now")) is not None:
            self._now = lambda: int(still)
        place = Place(**{**order["place"], "tops": tuple(order["place"]["tops"])})
        self._log = logger_of(place.name)
        missing = self._confine(place, order["sandbox"])
        # Said before a vendor's code could say it.
        self._results.append([0, "confined", missing])
        self._answer()
        if missing and order["sandbox"] == REQUIRED:
            told = "; ".join(f"{step}: {why}" for step, why in missing.items())
            self._results.append(
                [0, "refused", f"its sandbox is required, and this host can't enforce all of it ({told})"]
            )
            return
        try:
            self._loaded = loaded = load_alone(place, order["config"])
        except DoesNotFit as error:
            self._results.append([0, "refused", str(error)])
            return
        codec = loaded.codec
        self._checker = Checker(codec.schema)
        self._log.setLevel(order.get("level", logging.INFO))
        schema = wire.pack_schema(codec.schema)
        framing, version = framing_to(codec.framing), loaded.version
        hello = {"framing": framing, "version": version, "schema": schema, "answers": codec.answers}
        self._results.append([0, "hello", hello])

    def _confine(self, place: Place, sandbox: str) -> dict[str, str]:
        """Before anything of a vendor's is imported."""
        if sandbox == OFF:
            return dict.fromkeys(STEPS, "sandbox: off")
        packages = [str(Path(iot_mqtt.__file__).parent), *homes_of(place.tops)]
        return confine(readable_by(sys.path, packages, place.folder, besides=str(Path.cwd())), self._parent)

    def _open(self, connection: int, peer: str) -> None:
        loaded = self._loaded
        calling = Calling(
            loaded.codec, loaded.config, self._checker, peer=peer, log=self._log, count=self._count, now=self._now
        )
        self._callings[connection] = calling
        self._outcome(connection, calling.opened())

    def _encode(self, connection: int, calling: Calling, payload: bytes) -> None:
        command = wire.read_command(payload)
        wire.MARK.pack_into(self._mark, 0, connection, 1, command.number)
        result = calling.encode(command)
        if isinstance(result, Trouble):
            _end_without_memory(result)
            self._results.append([connection, "encode_failed", command.number, *result])
        elif isinstance(result, CannotEncode):
            self._results.append([connection, "not_encoded", command.number, str(result)[:1000]])
        else:
            self._size += len(result)
            self._results.append([connection, "encoded", command.number, result.decode("latin-1")])

    def _send(self, connection: int, result: bytes | Trouble) -> None:
        if isinstance(result, Trouble):
            self._fail(connection, result)
        elif result:
            self._size += len(result)
            self._results.append([connection, "send", result.decode("latin-1")])

    def _outcome(self, connection: int, outcome: Outcome) -> None:
        if outcome.events:
            self._put(connection, outcome.events, outcome.size)
        if outcome.trouble is not None:
            self._fail(connection, outcome.trouble)

    def _put(self, connection: int, events: list[Event], size: int) -> None:
        """What was said at once is heard at once, in however many answers it goes: frames stay whole."""
        most = min(_EVENTS, max(1, _BYTES * len(events) // max(1, size)))
        for begin in range(0, len(events), most):
            part, is_last = events[begin : begin + most], begin + most >= len(events)
            self._results.append([connection, "events" if is_last else "part", wire.pack_events(part)])
            self._events += len(part)
            if not is_last:
                self._answer()
        self._size += min(size, _BYTES)

    def _fail(self, connection: int, trouble: Trouble) -> None:
        _end_without_memory(trouble)
        if trouble.kind != "bad_frame":
            del self._callings[connection]
        self._results.append([connection, trouble.kind, trouble.reason, trouble.detail])

    def _count(self, name: str, number: int = 1) -> None:
        if len(self._counts) < MAX_COUNTERS or name in self._counts:
            self._counts[name] += number

    # Answers.

    def _answer(self) -> None:
        now = time.monotonic()
        if self._counts and now - self._counted > _COUNT_EVERY:
            self._results.append([0, "counts", dict(self._counts)])
            self._counts.clear()
            self._counted = now
        results, self._results = self._results, []
        self._events = self._size = 0
        self._write(results, self._done)
        self._said = time.monotonic()

    def _write(self, results: list[Any], done: int) -> None:
        data = wire.write_answer(done, results)
        if len(data) <= wire.MAX_ANSWER:
            self._link.sendall(data)
            return
        for part in _halves(results):
            # Nothing is done until all of it was said.
            self._write(part, 0)
        self._write([], done)


def _end_without_memory(trouble: Trouble) -> None:
    """There may be no memory for anything else either, and whoever took it will hardly give it back."""
    if trouble.kind == "exception" and "MemoryError" in trouble.detail:
        os.write(2, b"the memory that a worker may have is used up\n")
        os._exit(1)


def _halves(results: list[Any]) -> tuple[list[Any], ...]:
    """What is too long for one answer, in two."""
    if len(results) > 1:
        middle = len(results) // 2
        return results[:middle], results[middle:]
    connection, kind, *rest = results[0]
    if kind in ("events", "part") and len(rest[0]) > 1:
        middle = len(rest[0]) // 2
        return [[connection, "part", rest[0][:middle]]], [[connection, kind, rest[0][middle:]]]
    if kind == "encoded":
        told = f"what encode returned has more than {wire.MAX_ANSWER} bytes, spelled as JSON"
        return ([[connection, "encode_failed", rest[0], "garbage", unencodable(told), told]],)
    return ([[connection, "garbage", "garbage", f"one event has more than {wire.MAX_ANSWER} bytes"]],)


class _Plain(logging.Formatter):
    """One line a record, for the broker puts time, level and name before it."""

    def format(self, record: logging.LogRecord) -> str:
        text = " ".join(record.getMessage().split())
        error = record.exc_info[1] if record.exc_info else None
        return wire.with_level(record.levelno, text + (f": {told(error)}" if error is not None else ""))


def main(descriptor: int, mark: int, parent: int, limits: str) -> None:
    """Called by the line of code that ``process.bridge`` starts Python with."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the broker's, which ends its workers itself
    confined = json.loads(limits)
    shared = mmap.mmap(mark, wire.MARK.size)
    os.close(mark)
    limit(confined)
    follow(parent)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Plain())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        Worker(socket.socket(fileno=descriptor), shared, confined["slow"], parent).run()
    except ConnectionError as error:
        sys.exit(f"the broker is gone: {error}")
