"""A codec in a worker process, as its connection sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from iot_mqtt.plugins.process import wire
from iot_mqtt.plugins.running import Sink
from iot_mqtt.plugins.suspects import Peer
from iot_mqtt.sdk import Command, Event


class Asking(Protocol):
    """The worker that the codec is in."""

    def ask(self, kind: int, runner: ProcessRunner, payload: bytes = b"") -> None: ...

    def decode(self, runner: ProcessRunner, frames: list[bytes]) -> bool: ...

    def send(self, runner: ProcessRunner, frames: list[bytes]) -> None: ...

    def settle(self, then: Callable[[], None]) -> None: ...

    def close(self, runner: ProcessRunner) -> None: ...


class ProcessRunner(Peer):
    """``Runner`` whose calls return at once; its sink hears of the results later."""

    __slots__ = (
        "number",
        "sink",
        "open",
        "over",
        "begun",
        "paused",
        "in_flight",
        "encoding",
        "heard",
        "waiting",
        "_worker",
    )

    def __init__(self, worker: Asking, number: int, peer: str, sink: Sink) -> None:
        super().__init__(peer)
        self.number = number
        self.sink = sink
        self.open = True
        #: A frame was bad: no other is decoded.
        self.over = False
        self.begun = False
        self.paused = False
        #: Bytes of frames that the worker has not answered for.
        self.in_flight = 0
        #: Commands that the worker has not answered for.
        self.encoding: set[int] = set()
        #: Events that were said together with others, which are still on their way.
        self.heard: list[Event] = []
        #: Until it was let in it is one frame at a time: what a frame does to the worker can be laid at the right door.
        self.waiting: deque[bytes] = deque()
        self._worker = worker

    def opened(self) -> None:
        if self.open:
            self.begun = True
            self._worker.ask(wire.OPEN, self, self.peer.encode())

    def decode(self, frames: list[bytes]) -> bool:
        return not self.open or self.over or not frames or self._worker.decode(self, frames)

    def encode(self, command: Command) -> None:
        if self.open and not self.over:
            self.encoding.add(command.number)
            self._worker.ask(wire.ENCODE, self, wire.write_command(command))

    def welcome(self) -> None:
        self.accepted = True
        self._ask(wire.WELCOME)
        if self.open and self.waiting:
            frames = list(self.waiting)
            self.waiting.clear()
            self._worker.send(self, frames)

    def refuse(self, reason: str) -> None:
        self._ask(wire.REFUSE, reason.encode("utf-8", "replace"))

    def safe(self, token: int) -> None:
        self._ask(wire.SAFE, wire.TOKEN.pack(token))

    def idle(self) -> None:
        if not self.over:
            self._ask(wire.IDLE)

    def settle(self, then: Callable[[], None]) -> None:
        if self.open:
            self._worker.settle(then)
        else:
            then()

    def close(self) -> None:
        if self.open:
            self.open = False
            self._worker.close(self)

    def _ask(self, kind: int, payload: bytes = b"") -> None:
        if self.open:
            self._worker.ask(kind, self, payload)
