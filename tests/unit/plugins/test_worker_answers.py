"""What a codec says in a worker process, on its way to the gateway's connection."""

from __future__ import annotations

import logging
import mmap
from socket import socket
from typing import Any, cast

import pytest
from twisted.internet.task import Clock

from iot_mqtt.plugins.calling import MAX_EVENTS, Outcome
from iot_mqtt.plugins.process import child, wire
from iot_mqtt.plugins.process.bridge import WorkerProcess
from iot_mqtt.plugins.process.worker import Worker
from iot_mqtt.plugins.running import Sink
from iot_mqtt.plugins.settings import Limits
from iot_mqtt.plugins.telling import Counts, Quiet
from iot_mqtt.sdk import Event, Readings


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

    def busy_with(self) -> tuple[int, bool]:
        return 1, False

    def __getattr__(self, _name: str) -> Any:
        return lambda *_: None


class Link:
    """The child's socket: its answers, one by one."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.answers.append(data)


@pytest.fixture
def ends() -> tuple[child.Worker, Link, Worker, Heard]:
    """Both ends of what is between a worker and the broker."""
    heard, link = Heard(), Link()
    output = Quiet(logging.getLogger("worker"), lambda: 0.0)
    process = cast("WorkerProcess", heard)
    parent = Worker(Clock(), lambda _: process, heard, Limits(), counts=Counts(), output=output)
    parent.open("peer", cast("Sink", heard))
    return child.Worker(cast("socket", link), mmap.mmap(-1, wire.MARK.size), 1.0, 0), link, parent, heard


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
