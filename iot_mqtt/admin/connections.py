# Twisted's HTTP server has few annotations.
# mypy: disable-error-code="no-untyped-call,misc"
"""Connections to the admin port: so many at once, so many of one address, and each request in so much time.

::

    bytes ─▶ held, HELD of them ─▶ a request ─▶ waits for its turn ─▶ is answered ─▶ the answer is taken ─┐
                    ▲                                                                                      │
                    └──────────────────── rests, where there is no time for more ─────────────────────────┘

A connection has one request at a time: the next one is looked at when the answer to the last one has left, and when it
is its turn (``turns``). What comes meanwhile is held, and then the socket is not read.

Where there is no room the newcomer is let in and the one that has been waiting longest is closed: whoever opens
connections and says nothing keeps nobody out, nor does who asks and takes no answer. Those that wait for a turn go
after those. A connection whose request is being answered is not closed for others.
"""

from __future__ import annotations

import logging
from collections import Counter
from enum import IntEnum
from http import HTTPStatus
from time import thread_time
from typing import Any, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IAddress
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel

from iot_mqtt.admin.settings import AdminSettings
from iot_mqtt.admin.turns import AtOnce, Turns

__all__ = ["AdminChannel", "Doorkeeper", "Room"]

log = logging.getLogger(__name__)

#: Header lines of a request, and bytes of all of them.
MAX_HEADERS = 100
MAX_HEAD = 16 * 1024
#: Headers that a request has once.
_ONCE = (b"host", b"authorization")
#: Bytes that are read in one go: chunks of one byte each take a millisecond.
PIECE = 4 * 1024
#: Bytes that are held for a connection before its socket is not read any more; one read of it comes on top.
HELD = 16 * 1024
#: Seconds in which the last bytes for a connection that is closed have to leave.
LINGER = 2.0


class Room(Protocol):
    """Descriptors; ``iot_mqtt.pipeline.Share`` is one."""

    def take(self) -> bool: ...

    def give_back(self) -> None: ...


class Standing(IntEnum):
    """Who has to go first where there is no room."""

    #: It asks for nothing, or has not asked yet.
    IDLE = 0
    #: Its request waits for a turn, or the answer to it for being taken.
    WAITS = 1
    ANSWERED = 2


class AdminChannel(HTTPChannel):
    """One connection. Its times are totals: a byte now and then buys nothing. They stand still while it waits for us.

    What HTTPChannel does with the next request, and when it reads, is decided here.
    """

    maxHeaders = MAX_HEADERS  # noqa: N815
    totalHeadersSize = MAX_HEAD  # noqa: N815
    abortTimeout: Any = LINGER  # noqa: N815
    doorkeeper: Doorkeeper
    site: Any
    transport: Any
    #: Whether its request has had its turn, and there is no answer yet.
    answering = False
    #: Waiting for the first byte of another request.
    _between = False
    #: What came and was not looked at.
    _held = b""
    #: While it rests.
    _turn: Deferred[None] | None = None
    #: Answered, and the answer has not left.
    _answered: Any = None
    #: When its time is over.
    _until: float | None = None

    @property
    def standing(self) -> Standing:
        if self.answering:
            return Standing.ANSWERED
        return Standing.WAITS if self._handlingRequest else Standing.IDLE

    def setTimeout(self, period: float | None) -> Any:
        self._until = None if period is None else self.site.reactor.seconds() + period
        return super().setTimeout(period)

    def resetTimeout(self) -> None:
        """Called with every byte that comes."""

    def dataReceived(self, data: bytes) -> None:
        self._held += data
        self._read()
        self._pace()

    def _read(self) -> None:
        """Look at some of what is held, and at more of it while there is time; not beyond the end of a request."""
        turns = self.doorkeeper.turns
        if self._held and self._between and self._may_read():
            self._between = False
            self.setTimeout(self.doorkeeper.limits.request_timeout)
        while self._held and self._may_read():
            piece, self._held = self._held[:PIECE], self._held[PIECE:]
            began = thread_time()
            super().dataReceived(piece)
            turns.spent(thread_time() - began)
            if self._may_read() and not turns.open:
                self._rest()

    def _may_read(self) -> bool:
        return self._turn is None and not self._handlingRequest and not self.transport.disconnecting

    def _rest(self) -> None:
        """There is no time for it now. Its own time stands still."""
        left = None if self._until is None else max(0.0, self._until - self.site.reactor.seconds())
        self.setTimeout(None)
        self._turn = turn = self.doorkeeper.turns.rest()
        turn.addCallback(self._go_on, left).addErrback(self._stuck)

    def _go_on(self, _: None, left: float | None) -> None:
        self._turn = None
        self.setTimeout(left)
        self._read()
        self._pace()

    def _pace(self) -> None:
        """Read from the socket while there is room for what comes, and while answers are taken."""
        if self.transport.disconnecting:
            return
        if len(self._held) > HELD or self._waitingForTransport:
            self._networkProducer.pauseProducing()
        else:
            self._networkProducer.resumeProducing()

    def _stuck(self, failure: Failure) -> None:
        if failure.check(CancelledError) is None:
            log.error("a request could not be read: %s", failure.value)
            self.transport.abortConnection()

    def headerReceived(self, line: bytes) -> bool:
        name, _, value = line.lower().partition(b":")
        # Two of them name two sites (RFC 9112, 3.2), or two callers (RFC 9110, 5.3).
        second = name in _ONCE and self.requests[-1].requestHeaders.hasHeader(name)
        # HTTPChannel takes "identity" for no body, and the body for the next request (RFC 9112, 6.3).
        unknown_coding = name == b"transfer-encoding" and value.strip(b" \t") != b"chunked"
        if second or unknown_coding:
            self._respondToBadRequestAndDisconnect()
            return False
        return bool(super().headerReceived(line))

    def lineLengthExceeded(self, line: bytes) -> None:
        self._receivedHeaderSize += len(line)
        self._respondToBadRequestAndDisconnect()

    def _respondToBadRequestAndDisconnect(self) -> None:
        """Called by HTTPChannel for all that it does not accept."""
        too_much = self._receivedHeaderSize > MAX_HEAD or self._receivedHeaderCount > MAX_HEADERS
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if too_much else HTTPStatus.BAD_REQUEST
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        self.transport.write(head.encode())
        self.loseConnection()

    def requestDone(self, request: Any) -> None:
        self.answering = False
        # The answer has to be taken, too.
        self.setTimeout(self.doorkeeper.limits.idle_timeout)
        if not self.persistent:
            super().requestDone(request)
            return
        self._answered = request
        if not self._waitingForTransport:
            self._taken()

    def pauseProducing(self) -> None:
        super().pauseProducing()
        self._pace()

    def resumeProducing(self) -> None:
        super().resumeProducing()
        if self._answered is not None:
            self._taken()
        self._pace()

    def _taken(self) -> None:
        """The answer has left: go on with what has come behind its request, in another turn."""
        request, self._answered = self._answered, None
        self._held = b"".join((*self._dataBuffer, self.clearLineBuffer(), self._held))
        self._dataBuffer = []
        # What HTTPChannel goes on with.
        self._savedTimeOut = self.doorkeeper.limits.idle_timeout
        self._between = True
        super().requestDone(request)
        if self._held:
            self._rest()

    def loseConnection(self) -> None:
        self._held = b""
        super().loseConnection()

    def timeoutConnection(self) -> None:
        self._abortingCall = self.callLater(self.abortTimeout, self.forceAbortClient)
        self.loseConnection()

    def forceAbortClient(self) -> None:
        self._abortingCall = None
        self.transport.abortConnection()

    def connectionLost(self, reason: Any = None) -> None:
        self.doorkeeper.left(self)
        if self._turn is not None:
            self._turn.cancel()
        super().connectionLost(reason)


class Doorkeeper:
    """Who is connected to the admin port."""

    def __init__(self, limits: AdminSettings, room: Room | None = None, turns: Turns | None = None) -> None:
        """``turns``: told what requests take that are answered at once."""
        self.limits = limits
        self.turns = turns or AtOnce()
        self.accepted = 0
        #: Connections that were refused, or closed for another's sake.
        self.refused = 0
        self.refusals: Counter[str] = Counter()
        self._room = room
        #: In the order in which they came.
        self._open: dict[AdminChannel, str] = {}
        self._of: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """Connections now."""
        return len(self._open)

    def lets_in(self, channel: AdminChannel, peer: IAddress | None) -> bool:
        """Whether one more may come; ``left`` has to follow then."""
        address = str(getattr(peer, "host", ""))
        if not self._has_room(address):
            return False
        self._open[channel] = address
        self._of[address] += 1
        self.accepted += 1
        return True

    def left(self, channel: AdminChannel) -> None:
        """A connection is gone, or will be at once."""
        address = self._open.pop(channel, None)
        if address is None:
            return
        self._of[address] -= 1
        if not self._of[address]:
            del self._of[address]
        if self._room is not None:
            self._room.give_back()

    def _has_room(self, address: str) -> bool:
        limits = self.limits
        if self._of[address] >= limits.max_connections_per_address and not self._make_room(address):
            return False
        if len(self._open) >= limits.max_connections and not self._make_room(self._busiest()):
            return False
        room = self._room
        return room is None or room.take() or (self._make_room(self._busiest()) and room.take())

    def _busiest(self) -> str:
        """The address that has the most connections."""
        return max(self._of, key=self._of.__getitem__, default="")

    def _make_room(self, address: str) -> bool:
        """Close the connection of an address that has been waiting longest."""
        self.refused += 1
        self.refusals["connections"] += 1
        of_it = (channel for channel, of in self._open.items() if of == address)
        channel = min(of_it, key=_standing, default=None)
        if channel is None or channel.standing is Standing.ANSWERED:
            return False
        self.left(channel)
        channel.transport.abortConnection()
        return True


def _standing(channel: AdminChannel) -> Standing:
    return channel.standing
