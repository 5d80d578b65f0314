"""Connections of ``AgentWeb``, which end when it says so.

::

    TCP ─ TLS ─ _Connection ─ the HTTP of Twisted's agent
                stopProducing: end it at once

A connection over TLS that is merely lost lives until its peer agrees, and takes what the peer sends meanwhile. A body
has its bound (``web``), which is of no use while a head does not end: here is one for all that answers a request.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

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


class HeadTooLarge(Exception):
    """The answer did not come to its body."""


class Pool(HTTPConnectionPool):
    """Twisted's, of connections that are ``_Connection``; ``kept``: of one host, for the next request."""

    def __init__(self, reactor: Any, kept: int) -> None:
        super().__init__(reactor, persistent=True)
        self.maxPersistentPerHost = kept

    def getConnection(self, key: Any, endpoint: Any) -> Deferred[Any]:
        through: Any = _Endpoint(endpoint)
        return super().getConnection(key, through)


@implementer(IStreamClientEndpoint)
class _Endpoint:
    """Puts a ``_Connection`` between the agent and whatever it would be connected to."""

    def __init__(self, endpoint: Any) -> None:
        self._endpoint = endpoint

    def connect(self, factory: Any) -> Deferred[Any]:
        connecting: Deferred[Any] = self._endpoint.connect(_Wrapping(factory))
        return connecting.addCallback(lambda connection: connection.wrappedProtocol)


class _Connection(ProtocolWrapper):
    """One connection, for one request after the other."""

    #: Bytes since something was last written: an answer.
    _came = 0

    def stopProducing(self) -> None:
        """No more of this answer is wanted."""
        self.abortConnection()

    def write(self, data: bytes) -> None:
        self._came = 0
        super().write(data)

    def writeSequence(self, data: Iterable[bytes]) -> None:
        self._came = 0
        super().writeSequence(data)

    def dataReceived(self, data: bytes) -> None:
        self._came += len(data)
        if self.disconnecting or self._came > LARGEST:
            self.abortConnection()
        else:
            super().dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        endless = self._came > LARGEST
        super().connectionLost(Failure(HeadTooLarge("the answer's head has no end")) if endless else reason)


class _Wrapping(WrappingFactory[_Connection]):
    protocol = _Connection
    noisy = False
