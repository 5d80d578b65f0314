# Twisted's HTTP server has few annotations.
# mypy: disable-error-code="no-untyped-call,misc"
"""Connections to the admin port: so many at once, so many of one address, and each request in so much time.

Where there is no room the newcomer is let in and the one that has been waiting longest is closed: whoever opens
connections and says nothing keeps nobody out. A connection whose request is being answered is not closed for others.
"""

from __future__ import annotations

from collections import Counter
from time import thread_time
from typing import Any, Protocol

from twisted.internet.interfaces import IAddress
from twisted.web.http import HTTPChannel

from iot_mqtt.admin.settings import AdminSettings
from iot_mqtt.admin.turns import AtOnce, Turns

__all__ = ["AdminChannel", "Doorkeeper", "Room"]

#: Header lines of a request, and bytes of all of them.
MAX_HEADERS = 100
MAX_HEAD = 16 * 1024
#: Seconds in which the last bytes for a connection that is closed have to leave.
LINGER = 2.0


class Room(Protocol):
    """Descriptors; ``iot_mqtt.pipeline.Share`` is one."""

    def take(self) -> bool: ...

    def give_back(self) -> None: ...


class AdminChannel(HTTPChannel):
    """One connection. Its times are totals: a byte now and then buys nothing."""

    maxHeaders = MAX_HEADERS  # noqa: N815
    totalHeadersSize = MAX_HEAD  # noqa: N815
    abortTimeout: Any = LINGER  # noqa: N815
    doorkeeper: Doorkeeper
    transport: Any
    #: Waiting for the first byte of another request.
    _between = False

    @property
    def answering(self) -> bool:
        """Whether a whole request is here and its answer is not."""
        return bool(self._handlingRequest)

    def resetTimeout(self) -> None:
        """Called with every byte that comes."""

    def dataReceived(self, data: bytes) -> None:
        if self._between:
            self._between = False
            self.setTimeout(self.doorkeeper.limits.request_timeout)
        began = thread_time()
        super().dataReceived(data)
        self.doorkeeper.turns.spent(thread_time() - began)

    def requestDone(self, request: Any) -> None:
        # What HTTPChannel goes on with.
        idle = self._savedTimeOut = self.doorkeeper.limits.idle_timeout
        self._between = True
        if not self.persistent:
            # The answer has to be taken, too.
            self.setTimeout(idle)
        super().requestDone(request)

    def timeoutConnection(self) -> None:
        self._abortingCall = self.callLater(self.abortTimeout, self.forceAbortClient)
        self.loseConnection()

    def forceAbortClient(self) -> None:
        self._abortingCall = None
        self.transport.abortConnection()

    def connectionLost(self, reason: Any = None) -> None:
        self.doorkeeper.left(self)
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
        for channel, of in self._open.items():
            if of == address and not channel.answering:
                self.left(channel)
                channel.transport.abortConnection()
                return True
        return False
