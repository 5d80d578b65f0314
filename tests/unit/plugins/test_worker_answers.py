"""What a codec says in a worker process, on its way to the gateway's connection."""

from __future__ import annotations

import logging
import mmap
from socket import socket
from typing import Any, cast

import pytest
from twisted.internet.task import Clock

from iot_mqtt.plugins.calling import MAX_EVENTS, MAX_SAID, Calling, Outcome
from iot_mqtt.plugins.process import child, wire
from iot_mqtt.plugins.process.bridge import WorkerProcess
from iot_mqtt.plugins.process.worker import Worker
from iot_mqtt.plugins.running import Sink
from iot_mqtt.plugins.settings import Limits
from iot_mqtt.plugins.telling import Counts, Quiet
from iot_mqtt.sdk import Answer, Codec, Event, Line, Login, Readings, Send
from iot_mqtt.sdk.checking import Checker


class Heard:
    """The owner, the process and the connection of a worker: what they are told."""

    def __init__(self) -> None:
        self.calls: list[list[Event]] = []
        self.trouble = ""

    def events(self, events: list[Event]) -> None:
        self.calls.append(events)

    def gone(self, _kind: str, detail: str, _culprit: object) -> None:
        self.trouble = detail

    def admits(self, _runner: object) -> bool:
        return True

    def busy_with(self) -> tuple[int, bool, int]:
        return 1, False, 0

    def __getattr__(self, _name: str) -> Any:
        return lambda *_: None


class Link:
    """The child's socket: its answers, one by one, and the connection that the worker was busy with at each."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.asked: list[bytes] = []
        self.mark = mmap.mmap(-1, wire.MARK.size)
        self.busy: list[tuple[int, bool]] = []

    def sendall(self, data: bytes) -> None:
        self.answers.append(data)
        self.busy.append(self.busy_with())

    def recv(self, _most: int) -> bytes:
        return self.asked.pop(0) if self.asked else b""

    def busy_with(self) -> tuple[int, bool]:
        connection, busy = wire.MARK.unpack(self.mark[:])[:2]
        return connection, bool(busy)


@pytest.fixture
def ends() -> tuple[child.Worker, Link, Worker, Heard]:
    """Both ends of what is between a worker and the broker."""
    heard, link = Heard(), Link()
    output = Quiet(logging.getLogger("worker"), lambda: 0.0)
    process = cast("WorkerProcess", heard)
    parent = Worker(Clock(), lambda _: process, heard, Limits(), counts=Counts(), output=output)
    parent.open("peer", cast("Sink", heard))
    return child.Worker(cast("socket", link), link.mark, 1.0, 0), link, parent, heard


@pytest.mark.parametrize("longest", [wire.MAX_ANSWER, 2000], ids=["by number", "by size"])
def test_what_is_said_at_once_is_heard_at_once(
    ends: tuple[child.Worker, Link, Worker, Heard], longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In however many answers it comes: the readings of a frame are published together."""
    monkeypatch.setattr(wire, "MAX_ANSWER", longest)
    worker, link, parent, heard = ends
    for number in (1, 2):
        said: list[Event] = [Readings(f"d{device}", {"t": device}, sequence=number) for device in range(1201)]
        worker._outcome(1, Outcome(said, None))
    worker._answer()
    assert len(link.answers) > 2
    for answer in link.answers:
        parent.received(answer)
    assert [{event.sequence for event in call if isinstance(event, Readings)} for call in heard.calls] == [{1}, {2}]
    assert [len(call) for call in heard.calls] == [1201, 1201]
    assert not heard.trouble


def test_a_worker_that_never_says_that_it_is_ready_is_lost(
    ends: tuple[child.Worker, Link, Worker, Heard],
) -> None:
    """It would fill the memory of the broker."""
    _, _, parent, heard = ends
    part = wire.pack_events([Readings("d", {}, sequence=1)] * 5000)
    for _ in range(MAX_EVENTS // 5000):
        parent.received(wire.write_answer(0, [[1, "part", part]]))
    assert not heard.trouble
    parent.received(wire.write_answer(0, [[1, "part", part]]))
    assert f"more than {MAX_EVENTS} events at once" in heard.trouble


class Generous(Codec):
    """Says as much as each frame asks for."""

    framing = Line()

    def decode(self, frame: bytes) -> list[Event]:
        return [Readings("d", {"t": "x" * 50_000})] * int(frame)


def generous() -> Calling:
    """Its codec, for one connection."""
    calling = Calling(
        Generous, None, Checker(), peer="p", log=logging.getLogger("worker"), count=lambda _name, _number: None
    )
    calling.opened()
    return calling


def test_the_worker_is_busy_with_a_frame_until_all_that_it_gave_is_written(
    ends: tuple[child.Worker, Link, Worker, Heard],
) -> None:
    """It may get stuck or die over that, too, and who is to blame has to be known. Not who comes behind it."""
    worker, link, _, _ = ends
    worker._callings = {1: generous(), 2: generous(), 3: generous()}
    frames = {1: b"0", 2: b"100", 3: b"1"}
    link.asked = [b"".join(data for number, frame in frames.items() for data, _ in wire.decodes(number, [frame]))]
    worker.run()
    holders = [
        busy
        for busy, answer in zip(link.busy, link.answers, strict=True)
        for result in wire.read_answer(answer[wire.LENGTH.size :])[1]
        if result[0] == 2
    ]
    assert len(holders) > 10 and set(holders) == {(2, True)}
    assert link.busy[-1] == (3, True)
    assert link.busy_with() == (3, False)


@pytest.mark.parametrize(
    "event",
    [
        Send(b"x" * 2**20),
        Readings("d", {"t": "x" * 60_000}),
        Readings("d", {f"t{tag}": 1 for tag in range(4000)}),
        Readings("d", {}, quality={f"t{tag}": "bad" for tag in range(4000)}),
        Readings("d", b'{"t":"' + b"x" * 100_000 + b'"}'),
        Answer(1, ok=True, detail="x" * 60_000, values={"t": "x" * 60_000}),
        Login("g", "x" * 60_000, b"x" * 2**20),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_call_that_says_too_much_is_garbage_before_it_is_written(event: Event) -> None:
    """Writing it and reading it would take longer than an answer may."""
    calling = generous()
    calling._codec.decode = lambda frame: [event] * int(frame)  # type: ignore[method-assign]
    assert calling.decode([b"5"]).trouble is None
    outcome = calling.decode([b"2000"])
    assert outcome.trouble is not None and outcome.trouble.kind == "garbage" and not outcome.events
    assert f"{MAX_SAID} are allowed" in outcome.trouble.detail
