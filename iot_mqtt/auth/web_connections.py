"""Connections of ``AgentWeb``, which end when it says so.

::

    TCP ─ TLS ─ Connection ─ the HTTP of Twisted's agent
                stopProducing: end it at once

A connection over TLS that is merely lost lives until its peer agrees, and takes what the peer sends meanwhile. A body
has its bound (``web``), which is of no use while a head does not end: here is one for the head, with interim answers
(100 to 199) before it, and one for all that answers a request.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import connectionDone
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from twisted.web.client import HTTPConnectionPool
from zope.interface import implementer  # type: ignore[import-untyped]

#: Bytes of an answer with its head; whoever asks wants less of its body.
LARGEST: Final = 2 * 1024 * 1024
#: Bytes of a head with the interim answers before it, and how many of these there may be: the agent logs each.
LARGEST_HEAD: Final = 8 * 1024
MOST_INTERIM: Final = 10
_INTERIM: Final = re.compile(rb"HTTP/\S* +1\d\d\b[^\n]*\n(?:[^\r\n][^\n]*\n)*\r?\n")


class HeadTooLarge(Exception):
    """The answer did not come to its body."""


class KeptClosed(Exception):
    """A connection that was kept ended without a byte of the answer: its peer may have closed it before the request."""


class Pool(HTTPConnectionPool):
    """Twisted's, of connections that are ``Connection``; ``kept``: of one host, for the next request."""

    def __init__(self, reactor: Any, kept: int) -> None:
        super().__init__(reactor, persistent=kept > 0)
        self.maxPersistentPerHost = kept

    def getConnection(self, key: Any, endpoint: Any) -> Deferred[Any]:
        through: Any = _Endpoint(endpoint)
        return super().getConnection(key, through)


@implementer(IStreamClientEndpoint)
class _Endpoint:
    """Puts a ``Connection`` between the agent and whatever it would be connected to."""

    def __init__(self, endpoint: Any) -> None:
        self._endpoint = endpoint

    def connect(self, factory: Any) -> Deferred[Any]:
        connecting: Deferred[Any] = self._endpoint.connect(_Wrapping(factory))
        return connecting.addCallback(lambda connection: connection.wrappedProtocol)


class Connection(ProtocolWrapper):
    """One connection, for one request after the other."""

    #: Bytes since something was last written: an answer.
    _came = 0
    #: Its head is complete.
    _headed = False
    #: It has more than it may have.
    _endless = False
    #: What came of its head but for whole interim answers, and how many of these.
    _head = b""
    _interim = 0
    #: There was another answer before.
    _kept = False

    def stopProducing(self) -> None:
        """No more of this answer is wanted."""
        self.abortConnection()

    def pauseProducing(self) -> None:
        """The agent does so behind a head, until somebody takes the body."""
        self._headed = True
        transport: Any = self.transport
        transport.pauseProducing()

    def write(self, data: bytes) -> None:
        self._asked()
        super().write(data)

    def writeSequence(self, data: Iterable[bytes]) -> None:
        self._asked()
        super().writeSequence(data)

    def _asked(self) -> None:
        self._kept = self._kept or self._came > 0
        self._came, self._headed = 0, False
        self._head, self._interim = b"", 0

    def dataReceived(self, data: bytes) -> None:
        room = max(0, (LARGEST if self._headed else LARGEST_HEAD) - self._came)
        self._came += len(data)
        if self.disconnecting:
            self.abortConnection()
            return
        if not self._headed:
            self._count(data[:room])
        if self._interim <= MOST_INTERIM:
            super().dataReceived(data[:room])
            if len(data) <= room:
                return
            if self._headed and self._came <= LARGEST:
                super().dataReceived(data[room:])
                return
        self._endless = True
        self.abortConnection()

    def _count(self, data: bytes) -> None:
        """Interim answers, before the agent sees them."""
        self._head += data
        while found := _INTERIM.match(self._head):
            self._head = self._head[found.end() :]
            self._interim += 1

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._endless:
            reason = Failure(HeadTooLarge("the answer's head has no end"))
        elif self._kept and not self._came:
            reason = Failure(KeptClosed("a connection that was kept was closed before the answer"))
        super().connectionLost(reason)


class _Wrapping(WrappingFactory[Connection]):
    protocol = Connection
    noisy = False
