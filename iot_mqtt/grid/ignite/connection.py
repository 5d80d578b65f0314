"""One connection to one gateway, from HELLO to its end: requests, their answers, and whether anybody is there.

Answers come in the order of the requests, but for what is read, which is answered when it is there. A connection that
keeps a request waiting for longer than it may is given up, and so is one that says nothing after a PING; how long
reading may take is the business of whoever asks for it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final
from typing import Protocol as TypingProtocol

from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from iot_mqtt.grid.ignite.frames import (
    VERSION,
    BadFrame,
    Deliver,
    Done,
    Found,
    FrameReader,
    Incoming,
    Refused,
    Room,
    Status,
    Topology,
    Welcome,
    encode_ping,
)
from iot_mqtt.grid.ignite.settings import IgniteSettings
from iot_mqtt.ports.clock import Clock, Timer, until_beat

log = logging.getLogger(__name__)

#: Told the answer, or None: the connection broke first, and nobody knows what became of the request.
Answered = Callable[[Done | None], None]
#: The same of what was read; Done is why nothing was.
Read = Callable[["Found | Done | None"], None]
#: Makes the frame, given the id of the request.
Encode = Callable[[int], bytes]

#: Seconds between two looks at the clock.
LOOK: Final = 0.5
IDS: Final = 1 << 32


class Transport(TypingProtocol):
    """The part of ``ITCPTransport`` that is used here."""

    def write(self, data: bytes) -> None: ...

    def loseConnection(self) -> None: ...

    def abortConnection(self) -> None: ...

    def setTcpNoDelay(self, enabled: bool) -> None: ...

    def setTcpKeepAlive(self, enabled: bool) -> None: ...

    def registerProducer(self, producer: Connection, streaming: bool) -> None: ...

    def getPeer(self) -> object: ...


class Owner(TypingProtocol):
    """Who hears what becomes of a connection."""

    def welcomed(self, connection: Connection, welcome: Welcome) -> None: ...

    def lost(self, connection: Connection, why: str, refused: Refused | None) -> None: ...

    def delivered(self, topic: str, payload: bytes) -> None: ...

    def topology(self, topology: Topology) -> None: ...

    def room_changed(self, room: Room) -> None: ...


class _Pending:
    """A request on its way."""

    __slots__ = ("id", "answered", "since", "patience")

    def __init__(self, id: int, answered: Answered, since: float, patience: float) -> None:
        self.id = id
        self.answered = answered
        self.since = since
        self.patience = patience


class Connection(Protocol):
    """``request`` and ``send``: from when the owner was told of the WELCOME, while it is ``alive``.

    It is its transport's producer, and so hears when that is full.
    """

    transport: Transport  # type: ignore[assignment]

    def __init__(self, hello: bytes, settings: IgniteSettings, clock: Clock, owner: Owner) -> None:
        self._hello = hello
        self._settings = settings
        self._clock = clock
        self._owner = owner
        self._reader = FrameReader(settings.frame_limit)
        self._pending: deque[_Pending] = deque()
        self._reads: dict[int, Read] = {}
        self._ids = 0
        self._queue: deque[bytes] = deque()
        self._queued = 0
        # Written to the transport since it was last empty, while it says that it is full.
        self._handed = 0
        self._paused = False
        self._timer: Timer | None = None
        self._began = self._looked = self._answered_at = clock.monotonic()
        self._refused: Refused | None = None
        self._why: str | None = None
        self.alive = False
        self.welcome: Welcome | None = None

    # For the owner.

    @property
    def waiting(self) -> int:
        """Bytes that are not on their way yet."""
        return self._queued + (self._handed if self._paused else 0)

    def request(self, encode: Encode, answered: Answered, patience: float) -> None:
        id = self._next_id()
        self._pending.append(_Pending(id, answered, self._clock.monotonic(), patience))
        self.send(encode(id))

    def read(self, encode: Encode, read: Read) -> None:
        id = self._next_id()
        self._reads[id] = read
        self.send(encode(id))

    def send(self, frame: bytes) -> None:
        self._queue.append(frame)
        self._queued += len(frame)
        self._flush()

    def abort(self, why: str) -> None:
        """Give it up; the owner is told as of any other end."""
        self._why = self._why or why
        self.alive = False
        self.transport.abortConnection()

    # From the transport.

    def connectionMade(self) -> None:
        self.transport.setTcpNoDelay(True)
        self.transport.setTcpKeepAlive(True)
        self.transport.registerProducer(self, True)  # noqa: FBT003 - Twisted's signature
        self.alive = True
        self._began = self._looked = self._clock.monotonic()
        self._timer = self._clock.call_later(until_beat(self._began, LOOK), self._look)
        self.send(self._hello)

    def dataReceived(self, data: bytes) -> None:
        try:
            frames = self._reader.feed(data)
        except BadFrame as error:
            self.abort(f"the gateway sent nonsense: {error}")
            return
        for frame in frames:
            if self._why is not None:
                return
            self._incoming(frame)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.alive = False
        if self._timer is not None:
            self._timer.cancel()
        self._queue.clear()
        self._queued = self._handed = 0
        why = self._why or (self._refused.reason if self._refused else reason.getErrorMessage())
        pending, self._pending = self._pending, deque()
        reads, self._reads = self._reads, {}
        for request in pending:
            request.answered(None)
        for read in reads.values():
            read(None)
        self._owner.lost(self, why, self._refused)

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        self._handed = 0
        self._flush()

    def stopProducing(self) -> None:
        self._paused = True

    # Inside.

    def _next_id(self) -> int:
        self._ids = (self._ids + 1) % IDS
        return self._ids

    def _flush(self) -> None:
        while self._queue and not self._paused:
            frame = self._queue.popleft()
            self._queued -= len(frame)
            self._handed += len(frame)
            self.transport.write(frame)

    def _incoming(self, frame: Incoming) -> None:
        match frame:
            case Done():
                self._done(frame)
            case Found():
                self._found(frame)
            case Deliver():
                self._owner.delivered(frame.topic, frame.payload)
            case Welcome(version) if version != VERSION:
                reason = (
                    f"it speaks version {version} of its protocol and this node version {VERSION}: "
                    "node and Ignite server have to be of the same release"
                )
                self._refused = Refused(Status.UNKNOWN_VERSION, reason)
                self.abort(reason)
            case Welcome() if self.welcome is None:
                self.welcome = frame
                self._answered_at = self._clock.monotonic()
                self._owner.welcomed(self, frame)
            case Refused():
                self._refused = frame
                self.transport.loseConnection()
            case Topology():
                self._owner.topology(frame)
            case Room():
                self._owner.room_changed(frame)
            case _:
                self.abort("the gateway sent a second WELCOME")

    def _done(self, done: Done) -> None:
        if self._pending and self._pending[0].id == done.id:
            self._answered_at = self._clock.monotonic()
            self._pending.popleft().answered(done)
        else:
            self._found(done)

    def _found(self, answer: Found | Done) -> None:
        """It says nothing about the requests: they are answered by others at the gateway, or hang there."""
        read = self._reads.pop(answer.id, None)
        if read is None:
            self.abort("the gateway answered what was not asked")
        else:
            read(answer)

    def _look(self) -> None:
        """Whether the other side is there. Who slept himself looks again first: the answers may be waiting."""
        now = self._clock.monotonic()
        slept = now - self._looked > 4 * LOOK
        self._looked = now
        self._timer = self._clock.call_later(until_beat(now, LOOK), self._look)
        if slept:
            return
        settings = self._settings
        if self.welcome is None:
            if now - self._began > settings.welcome_timeout:
                self.abort(f"no welcome in {settings.welcome_timeout:g} s")
        elif self._pending:
            first = self._pending[0]
            if now - max(first.since, self._answered_at) > first.patience:
                self.abort(f"no answer in {first.patience:g} s")
        elif now - self._answered_at >= settings.ping_interval:
            self.request(encode_ping, _pong, settings.answer_timeout)


def _pong(done: Done | None) -> None:
    if done is not None and done.status != Status.DONE:
        log.warning("the gateway answered a PING with status %d: %s", done.status, done.detail)


class Once(Factory):
    """Makes the one protocol that it was given."""

    noisy = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def buildProtocol(self, addr: object) -> Connection:
        return self._connection
