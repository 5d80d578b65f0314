# Twisted's transports have few annotations.
# mypy: disable-error-code="no-untyped-call,misc"
"""TLS between one of Twisted's transports and one of its protocols, for what is no channel: HTTP, the grid's gateway.

Twisted's own layer would need another TLS library (ADR 17). To the protocol above this is a transport. What waits for
the peer waits in Twisted's transport below, whose producer the protocol above stays.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from twisted.internet.interfaces import IPushProducer, ISSLTransport
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]

__all__ = ["TlsProtocol"]

#: A record has 16 KiB at most, and OpenSSL gives one at a time.
RECORD = 16 * 1024

#: Makes one side of a connection of what comes and what goes.
Wrap = Callable[[ssl.MemoryBIO, ssl.MemoryBIO], ssl.SSLObject]
Failed = Callable[[ssl.SSLError], None]


@implementer(ISSLTransport, IPushProducer)
class TlsProtocol(TwistedProtocol):
    """A protocol to the transport below, and a transport to the protocol above."""

    def __init__(self, inner: Any, wrap: Wrap, failed: Failed) -> None:
        """``failed`` is told what OpenSSL says when it ends the connection."""
        self._inner = inner
        self._wrap = wrap
        self._failed = failed
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._done = False

    # a protocol

    def connectionMade(self) -> None:
        """A server's: the protocol above is there from the beginning, and so are its time limits."""
        self._inner.makeConnection(self)

    def dataReceived(self, data: bytes) -> None:
        if self._tls is None:
            self._tls = self._wrap(self._incoming, self._outgoing)
        self._incoming.write(data)
        try:
            if self._done or self._shakes_hands(self._tls):
                self._read(self._tls)
        except ssl.SSLError as error:
            self._failed(error)
            self._send()  # the alert
            self._below.loseConnection()

    def connectionLost(self, reason: Failure = Failure(ConnectionError())) -> None:  # noqa: B008 - Twisted's signature
        self._tls = None
        # As transports do: that of the protocol above is this, and no cycle stays.
        inner, self._inner = self._inner, None
        inner.connectionLost(reason)

    def _begin(self) -> None:
        """A client speaks first."""
        self._tls = self._wrap(self._incoming, self._outgoing)
        self._shakes_hands(self._tls)

    def _established(self) -> None:
        """The handshake is done."""

    def _shakes_hands(self, tls: ssl.SSLObject) -> bool:
        with suppress(ssl.SSLWantReadError):
            tls.do_handshake()
            self._done = True
        self._send()
        if self._done:
            self._established()
        return self._done

    def _read(self, tls: ssl.SSLObject) -> None:
        records: list[bytes] = []
        ended = False
        try:
            while not ended:
                record = tls.read(RECORD)
                records.append(record)
                ended = not record
        except ssl.SSLWantReadError:
            pass  # part of a record
        finally:
            if data := b"".join(records):
                self._inner.dataReceived(data)
        if ended:
            self.loseConnection()

    # a transport

    disconnecting = False

    @property
    def _below(self) -> Any:
        return self.transport

    def write(self, data: bytes) -> None:
        if self._tls is None or not self._done or not data:
            return  # nobody could read it
        view = memoryview(data)
        with suppress(ssl.SSLError):  # its connection is ending
            while view:
                view = view[self._tls.write(view) :]
        self._send()

    def writeSequence(self, data: Iterable[bytes]) -> None:
        self.write(b"".join(data))

    def loseConnection(self) -> None:
        if self._tls is not None and self._done and not self.disconnecting:
            with suppress(ssl.SSLError):  # the peer's own close_notify is not waited for
                self._tls.unwrap()
            self._send()
        self.disconnecting = True
        self._below.loseConnection()

    def abortConnection(self) -> None:
        self._below.abortConnection()

    def _send(self) -> None:
        if self._outgoing.pending:
            self._below.write(self._outgoing.read())

    def getPeer(self) -> Any:
        return self._below.getPeer()

    def getHost(self) -> Any:
        return self._below.getHost()

    def getPeerCertificate(self) -> Any:
        return None if self._tls is None else self._tls.getpeercert()

    def setTcpNoDelay(self, enabled: bool) -> None:
        self._below.setTcpNoDelay(enabled)

    def getTcpNoDelay(self) -> bool:
        return bool(self._below.getTcpNoDelay())

    def setTcpKeepAlive(self, enabled: bool) -> None:
        self._below.setTcpKeepAlive(enabled)

    def getTcpKeepAlive(self) -> bool:
        return bool(self._below.getTcpKeepAlive())

    def loseWriteConnection(self) -> None:
        self._below.loseWriteConnection()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self._below.registerProducer(producer, streaming)

    def unregisterProducer(self) -> None:
        self._below.unregisterProducer()

    def pauseProducing(self) -> None:
        self._below.pauseProducing()

    def resumeProducing(self) -> None:
        self._below.resumeProducing()

    def stopProducing(self) -> None:
        self.loseConnection()
