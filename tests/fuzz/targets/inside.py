"""What the parts of a cluster say to each other: workers of plugins, links, channels, the messaging gateway."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any, cast

from twisted.internet.task import Clock

from iot_mqtt.cluster import channels
from iot_mqtt.cluster.links import proto_v1
from iot_mqtt.cluster.links.values import Data, Unknown
from iot_mqtt.errors import Malformed, Unavailable
from iot_mqtt.framing import Line, framing_to
from iot_mqtt.grid.ignite.frames import BadFrame, FrameReader, Status, Welcome
from iot_mqtt.plugins.process.bridge import WorkerProcess
from iot_mqtt.plugins.process.runner import ProcessRunner
from iot_mqtt.plugins.process.worker import Hello, Worker
from iot_mqtt.plugins.settings import Limits
from iot_mqtt.plugins.telling import Counts, Quiet
from iot_mqtt.sdk import Command, Event
from tests.cases import links_v1
from tests.fuzz.target import Target, head, ways

# -- worker --------------------------------------------------------------------------------------------


class _Link:
    """A worker's process without one."""

    def busy_with(self) -> tuple[int, bool, int]:
        return 1, True, 1

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None: ...

    def kill(self) -> None: ...


class _Owner:
    """Counts how often a worker ends."""

    def __init__(self) -> None:
        self.ends = self.confinements = 0

    def confined(self, missing: dict[str, str]) -> None:
        assert not self.confinements, "it is told twice what a worker gave up"
        self.confinements += 1
        assert all(isinstance(text, str) for pair in missing.items() for text in pair)

    def started(self, hello: Hello) -> None: ...

    def refused(self, reason: str) -> None:
        self.ends += 1

    def gone(self, kind: str, detail: str, culprit: ProcessRunner | None) -> None:
        self.ends += 1

    def admits(self, runner: ProcessRunner) -> bool:
        return runner.gateway != "held"

    def took(self, runner: ProcessRunner, seconds: float) -> None: ...

    def failed(self, runner: ProcessRunner, kind: str, detail: str) -> bool:
        return False

    def failed_to_encode(self, runner: ProcessRunner, kind: str, detail: str) -> None: ...

    def closed(self, runner: ProcessRunner) -> None: ...


class _Sink:
    """Whoever hears of a codec's results; its end comes once."""

    def __init__(self) -> None:
        self.ended = self.over = False

    def events(self, events: list[Event]) -> None:
        assert not self.ended and not self.over

    def encoded(self, number: int, data: bytes) -> None:
        assert type(data) is bytes

    def not_encoded(self, number: int, reason: str) -> None:
        reason.encode("utf-8", "replace")

    def send(self, data: bytes) -> None:
        assert type(data) is bytes

    def bad_frame(self, reason: str, detail: str) -> None:
        assert not self.ended and not self.over, "a connection is told of its bad frame twice, or behind its end"
        self.over = True

    def codec_failed(self, reason: str, detail: str = "") -> None:
        assert not self.ended, "a connection is told of its end twice"
        self.ended = True

    def ready(self) -> None: ...


def _silent() -> logging.Logger:
    found = logging.getLogger("tests.fuzz.silent")
    found.setLevel(logging.CRITICAL + 1)
    return found


def run_worker(data: bytes) -> None:
    """Whatever a worker answers: it is dealt with, or the worker ends, once; the broker's side raises nothing.

    Lines are bodies of answers; with an odd first byte all of it is the stream as it came.
    """
    choice, stream = head(data, 2)
    if not choice[0] & 1:
        stream = b"".join(len(line).to_bytes(4, "big") + line for line in stream.split(b"\n"))
    owner, clock, output = _Owner(), Clock(), Quiet(_silent(), lambda: 0.0)
    link = cast(WorkerProcess, _Link())
    worker = Worker(clock, lambda _: link, owner, Limits(), counts=Counts(), output=output)
    sinks = [_Sink(), _Sink(), _Sink()]
    runners = [worker.open(f"10.0.0.{number}:5", sink) for number, sink in enumerate(sinks)]
    for runner in runners:
        runner.opened()
        runner.encode(Command(7, "d", {}, b"", None))
        runner.decode([b"frame", b"another"])
    runners[2].close()
    pieces = [*ways(stream, choice[1])][-1]
    for piece in pieces:
        worker.received(piece)
    assert owner.ends <= 1
    assert all(runner.in_flight >= 0 for runner in runners)
    clock.advance(100.0)
    clock.advance(100.0)
    worker.ended("over")
    assert owner.ends <= 1
    assert not clock.getDelayedCalls()


def _worker_seeds() -> Iterator[bytes]:
    events = [
        ["l", "gw", "user", "secret", 30],
        ["r", "d1", {"t": 1.5, "on": True, "s": "x", "n": None}, 1000, 7, {"t": "bad"}],
        ["j", "d1", '{"t": 1}', None, None, None],
        ["w", 7],
        ["h"],
        ["s", "bytes\u00ff"],
        ["a", 7, True, "done", {"x": 1}],
        ["c", "goodbye"],
    ]
    schema = [1, True, {"t": ["float", "C"]}]
    hello = {"framing": framing_to(Line()), "version": "1", "schema": schema}
    answers: list[Any] = [
        [0, [[0, "hello", hello]]],
        [1, [[1, "events", events[:1]]]],
        [2, [[1, "events", events], [2, "events", events[1:3]]]],
        [3, [[1, "encoded", 7, "x"], [2, "not_encoded", 7, "no"], [1, "send", "y"]]],
        [4, [[1, "bad_frame", "checksum", "detail"], [2, "exception", "at", "detail"], [2, "garbage", "a", "b"]]],
        [0, [[0, "counts", {"retries": 3}], [1, "took", 1.5], [3, "took", 0.1]]],
        [0, [[0, "refused", "why"]]],
    ]
    for answer in answers:
        yield b"\0\5" + json.dumps(answer).encode()
        yield b"\1\5" + (body := json.dumps(answer).encode()).__len__().to_bytes(4, "big") + body
    yield b"\0\7" + b"\n".join(json.dumps(answer).encode() for answer in answers)


# -- links ---------------------------------------------------------------------------------------------


def run_links(data: bytes) -> None:
    """A datagram, or ``Malformed``; what was read can be written, and is then read again."""
    try:
        read_head, datagram = proto_v1.read(data)
    except Malformed:
        return
    if isinstance(datagram, Data) and any(isinstance(item, Unknown) for item in datagram.items):
        return
    wire = proto_v1.write(read_head, datagram)
    assert repr(proto_v1.read(wire)) == repr((read_head, datagram)), wire.hex()


def _links_seeds() -> Iterator[bytes]:
    for text, _ in (*links_v1.GOOD.values(), *links_v1.OLDER_READS.values()):
        yield links_v1.raw(text)
    for text in links_v1.BAD.values():
        yield links_v1.raw(text)


def run_channels(data: bytes) -> None:
    """A record of a later version is unavailable, any other is a home."""
    try:
        home = channels.read(data)
    except Unavailable:
        return
    assert channels.read(channels.write(home)) == home


def _channel_seeds() -> Iterator[bytes]:
    yield bytes.fromhex("10 03 0000000000000010 0000000000000020")
    yield bytes.fromhex("20 03 0000000000000010 0000000000000020")


# -- the messaging gateway -------------------------------------------------------------------------------


def run_messaging(data: bytes) -> None:
    """Frames, or ``BadFrame``; however they arrive, and no more is kept than one may have."""
    choice, stream = head(data, 1)
    said: list[tuple[str, bool]] = []
    for pieces in ways(stream, choice[0]):
        reader = FrameReader(200)
        frames: list[Any] = []
        failed = False
        for piece in pieces:
            try:
                found = reader.feed(piece)
            except BadFrame:
                failed = True
                break
            frames += found
            if any(isinstance(frame, Welcome) and frame.version != 2 for frame in found):
                # What is behind it is of another version.
                return
            assert len(reader._buffer) <= 204
        said.append((repr(frames), failed))
    # What came in the same piece as a bad frame is lost with it.
    assert len({failed for _, failed in said}) == 1
    if not said[0][1]:
        assert len(set(said)) == 1, "it matters how the bytes arrive"


def _messaging_seeds() -> Iterator[bytes]:
    def frame(op: int, body: bytes) -> bytes:
        return (1 + len(body)).to_bytes(4, "big") + bytes((op,)) + body

    frames = [
        frame(0x81, b"\2" + bytes(16) + b"\0\1\0\0"),
        frame(0x81, b"\3more"),
        frame(0x82, bytes((Status.FENCED, 0, 3)) + b"why"),
        frame(0x83, b"\0\0\0\1\0\0\2ok"),
        frame(0x84, b"\0\3a/b\0\0\0\4data"),
        frame(0x85, bytes(7) + b"\1\0\2\xff\xff\xff\xff"),
        frame(0x86, b"\0\0\0\1\0\1\0\0\0\0\2\0\1k\0\0\0\1v\0\1l\0\0\0\0"),
        frame(0x87, b"\0\0\0\1\0\2\0\4"),
        frame(0x88, bytes(24)),
    ]
    for one in frames:
        yield b"\5" + one
    yield b"\7" + b"".join(frames[:1] + frames[2:])


TARGETS = (
    Target(
        "worker",
        run_worker,
        _worker_seeds,
        (
            b'"events"',
            b'"took"',
            b'"counts"',
            b'"hello"',
            b"[1,",
            b"null",
            b"true",
            b"1e999",
            b'"\\ud800"',
            b"\n",
            b'["j",',
        ),
        900,
        30000,
    ),
    Target(
        "links",
        run_links,
        _links_seeds,
        (b"\x01\x01", b"\0\0\0\1", b"\xff" * 8, b"\x30\x05\0\3a/b", b"\x7f\xf8"),
        400,
        8000,
    ),
    Target("channels", run_channels, _channel_seeds, (), 40, 2000),
    Target("messaging-gateway", run_messaging, _messaging_seeds, (b"\0\0\0", b"\x86", b"\xff\xff\xff\xff"), 500, 16000),
)
__all__ = ["TARGETS"]
