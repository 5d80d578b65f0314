# Twisted's endpoints have few annotations.
# mypy: disable-error-code="no-untyped-call,misc"
"""TLS of a client towards the other parts of a cluster: both sides show a certificate of the same authority.

A connection is there when the handshake is done and the server is who it should be; nothing of ours, above all no
token, is sent before.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from iot_mqtt.pipeline.tls_protocol import TlsProtocol, Wrap

__all__ = ["ClientTls", "TlsEndpoint"]

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


@dataclass(frozen=True, slots=True)
class ClientTls:
    """PEM files, read for each connection, so that renewed ones count for the next."""

    #: Authorities that servers are signed by; no others are believed.
    ca: str
    #: What this side shows, and its key; None: nothing.
    certificate: str | None = None
    key: str | None = None
    #: Whether the server's certificate has to be for the name, or address, that is connected to.
    check_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """Raises ``OSError`` (``ssl.SSLError`` is one) if a file cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(_CIPHERS)
        context.check_hostname = self.check_hostname
        context.load_verify_locations(self.ca)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


class Clock(Protocol):
    """The part of a reactor that is used here."""

    def callLater(self, delay: float, function: Any, *rest: Any) -> Any: ...


class TlsEndpoint:
    """An endpoint of Twisted's, with TLS around what it connects to."""

    def __init__(self, endpoint: Any, tls: ClientTls, host: str, seconds: float, reactor: Clock) -> None:
        """``seconds`` are for the handshake, ``host`` is the server's name."""
        self._endpoint = endpoint
        self._tls = tls
        self._host = host
        self._seconds = seconds
        self._reactor = reactor

    def connect(self, factory: Any, /) -> Deferred[Any]:
        """Fires with the protocol of ``factory`` once it has been connected through TLS."""
        try:
            context = self._tls.context()
        except OSError as error:
            return _failed(ConnectionError(f"TLS: cannot use {self._tls.ca} or {self._tls.certificate}: {error}"))
        wrap = partial(context.wrap_bio, server_hostname=self._host)
        connecting: Deferred[Any] = self._endpoint.connect(_Around(factory, wrap))
        return connecting.addCallback(self._shaken)

    def _shaken(self, connection: _ClientProtocol) -> Deferred[Any]:
        ready: Deferred[Any] = connection.ready
        if not ready.called:
            ready.addTimeout(self._seconds, self._reactor)  # type: ignore[arg-type]
        return ready


def _failed(error: Exception) -> Deferred[Any]:
    over: Deferred[Any] = Deferred()
    over.errback(error)
    return over


class _Around:
    """A factory of TLS connections around those of another."""

    noisy = False

    def __init__(self, factory: Any, wrap: Wrap) -> None:
        self._factory = factory
        self._wrap = wrap

    def buildProtocol(self, addr: Any) -> _ClientProtocol:
        return _ClientProtocol(self._factory.buildProtocol(addr), self._wrap)

    def doStart(self) -> None:
        self._factory.doStart()

    def doStop(self) -> None:
        self._factory.doStop()


class _ClientProtocol(TlsProtocol):
    """The protocol above is connected when the handshake is done, and hears of nothing before."""

    def __init__(self, inner: Any, wrap: Wrap) -> None:
        super().__init__(inner, wrap, self._refused)
        self._error: Exception | None = None
        #: Fires with the protocol above.
        self.ready: Deferred[Any] = Deferred(lambda _: self.abortConnection())

    def connectionMade(self) -> None:
        self._begin()

    def connectionLost(self, reason: Failure = Failure(ConnectionDone())) -> None:  # noqa: B008 - Twisted's signature
        if self._done:
            super().connectionLost(reason)
        elif not self.ready.called:
            self.ready.errback(self._error or reason)

    def _established(self) -> None:
        self._inner.makeConnection(self)
        self.ready.callback(self._inner)

    def _refused(self, error: ssl.SSLError) -> None:
        said = getattr(error, "verify_message", None) or error.reason or str(error)
        self._error = ConnectionError(f"TLS: {said}")
