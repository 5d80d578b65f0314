# Twisted's TLS layer.
# mypy: disable-error-code="no-untyped-call"
"""The Twisted protocol under a channel, and its factory.

A connection starts on a plain transport. ``start_tls`` slips a TLS layer between the two; the channel and its
stages stay what they were and notice nothing but a ``TlsEstablished`` event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from OpenSSL.SSL import Error as SslError
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol, IHandshakeListener, IProtocol, IProtocolFactory
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]

from iot_mqtt.pipeline import reasons
from iot_mqtt.pipeline.channel import Channel, ChannelSettings
from iot_mqtt.pipeline.descriptors import Share
from iot_mqtt.pipeline.layout import Layout
from iot_mqtt.pipeline.outbox import Link, StreamLink
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.tls import TlsEstablished, certificate_name
from iot_mqtt.pipeline.transport import ChannelTransport
from iot_mqtt.pipeline.wheel import Timeout

__all__ = ["ChannelFactory", "ChannelProtocol"]


@dataclass(slots=True)
class ConnectionCounts:
    """What a listener counts."""

    accepted: int = 0
    #: Closed at once because there were too many.
    refused: int = 0
    #: Sockets open now, lingering ones included.
    open: int = 0
    #: The most that were open at once.
    most: int = 0


class _Gone:
    """Stands in for the channel of a connection that has ended above and lingers below."""

    __slots__ = ()

    def received(self, data: bytes) -> None: ...

    def input_closed(self) -> None: ...

    def lost(self, reason: CloseReason) -> None: ...


_GONE = _Gone()


class _TlsLayer(TLSMemoryBIOProtocol):
    """Counts what comes before the handshake is done: OpenSSL holds it, and the channel sees none of it.

    At the end it lets go of OpenSSL's part, which would otherwise wait for the garbage collector with all its buffers.
    """

    def dataReceived(self, data: bytes) -> None:
        super().dataReceived(data)
        protocol: Any = self.wrappedProtocol
        if not self._handshakeDone and protocol is not None and isinstance(protocol.channel, Channel):
            protocol.channel.encrypted(len(data))

    def _tlsShutdownFinished(self, reason: Failure | None) -> None:
        super()._tlsShutdownFinished(reason)
        if reason is not None:
            # Its frames know OpenSSL's part, and are known by themselves.
            reason.cleanFailure()

    def connectionLost(self, reason: Any = None) -> None:
        super().connectionLost(reason)
        self._producer = None


@implementer(IProtocol, IHalfCloseableProtocol, IHandshakeListener)
class ChannelProtocol:
    """Hands a transport's events to a channel."""

    __slots__ = ("channel", "factory", "transport", "_lingering")

    def __init__(self, factory: ChannelFactory) -> None:
        self.factory = factory
        self.transport: Any = None
        self.channel: Channel | _Gone = _GONE
        self._lingering: Timeout | None = None

    def makeConnection(self, transport: Any) -> None:
        """Called with the transport, and again with the TLS layer if one is started."""
        first = self.transport is None
        self.transport = transport
        if not first:
            if isinstance(self.channel, Channel):
                self.channel.outbox.link = self._stream_link(self.channel, transport)
            return
        factory = self.factory
        plain = isinstance(transport, ChannelTransport)
        channel = Channel(factory.settings, transport.client[:2] if plain else _peer_of(transport))
        self.channel = channel
        if factory.tls_factory is not None:
            channel.start_tls = self.start_tls
        factory.channels[channel] = None
        factory.layout.build(channel)
        link: Link = transport if plain else self._stream_link(channel, transport)
        if plain:
            transport.outbox = channel.outbox
        channel.begin(link)

    def dataReceived(self, data: bytes) -> None:
        self.channel.received(data)

    def readConnectionLost(self) -> None:
        self.channel.input_closed()

    def writeConnectionLost(self) -> None: ...

    def connectionLost(self, reason: Failure) -> None:
        self.channel.lost(_reason_of(reason))
        self._leave()
        if self._lingering is not None:
            self._lingering.cancel()
        self.factory.gone()
        self.transport = None

    def handshakeCompleted(self) -> None:
        """TLS stands; called by the TLS layer."""
        channel = self.channel
        if isinstance(channel, Channel):
            handle = self.transport.getHandle()
            channel.tls_version = handle.get_protocol_version_name()
            channel.certificate_name = certificate_name(handle.get_peer_certificate())
            channel.pipeline.head.fire_event(TlsEstablished(channel.tls_version, channel.certificate_name))

    def finished(self) -> None:
        """All was sent: over for the channel; the transport waits a little for the peer to close."""
        channel = self.channel
        if isinstance(channel, Channel):
            channel.lost(reasons.CLOSED)
            self._leave()
            if self.transport is not None:
                self._lingering = channel.wheel.schedule(channel.settings.linger, self.transport.abortConnection)

    def start_tls(self, received: bytes) -> None:
        """Put TLS between the transport and this; ``received`` is ciphertext that was read already."""
        transport, tls_factory = self.transport, self.factory.tls_factory
        if isinstance(transport, ChannelTransport):
            transport.give_way()
        layer = _TlsLayer(tls_factory, self)
        transport.protocol = layer
        layer.makeConnection(transport)
        if received:
            layer.dataReceived(received)

    def _stream_link(self, channel: Channel, transport: Any) -> StreamLink:
        clock = channel.wheel.clock
        return StreamLink(channel.outbox, transport, lambda call: clock.call_later(0, call), self.finished)

    def _leave(self) -> None:
        channel, self.channel = self.channel, _GONE
        if isinstance(channel, Channel):
            channel.start_tls = None
            self.factory.channels.pop(channel, None)


@implementer(IProtocolFactory)
class ChannelFactory:
    """One per listener: makes protocols, counts them and knows the channels that are open."""

    noisy = False

    def __init__(
        self,
        settings: ChannelSettings,
        layout: Layout,
        *,
        max_connections: int = 1_000_000,
        share: Share | None = None,
        tls_context: Any = None,
        reactor: Any = None,
    ) -> None:
        self.settings = settings
        self._share = share
        self.layout = layout
        self.max_connections = max_connections
        #: A set in the order of accepting; a dictionary needs half of a set's room.
        self.channels: dict[Channel, None] = {}
        self.counts = ConnectionCounts()
        self.tls_factory: TLSMemoryBIOFactory | None = None
        if tls_context is not None:
            # The wrapped factory makes protocols for others; here they are made by hand, so it only has to be one.
            self.tls_factory = TLSMemoryBIOFactory(
                tls_context, isClient=False, wrappedFactory=cast(Any, self), clock=reactor
            )
            self.tls_factory.noisy = False

    def accept(self) -> ChannelProtocol | None:
        """A protocol for a new connection, or None if there are too many."""
        counts, share = self.counts, self._share
        if counts.open >= self.max_connections or (share is not None and not share.take()):
            counts.refused += 1
            return None
        counts.accepted += 1
        counts.open += 1
        counts.most = max(counts.most, counts.open)
        return ChannelProtocol(self)

    def gone(self) -> None:
        """A socket is closed."""
        self.counts.open -= 1
        if self._share is not None:
            self._share.give_back()

    # IProtocolFactory

    def buildProtocol(self, addr: object) -> ChannelProtocol | None:
        return self.accept()

    def doStart(self) -> None: ...

    def doStop(self) -> None: ...


def _reason_of(failure: Failure) -> CloseReason:
    error = failure.value
    if isinstance(error, ConnectionDone):
        return reasons.PEER_CLOSED
    if isinstance(error, SslError):
        return CloseReason("tls_failed", _ssl_detail(error))
    return reasons.PEER_RESET


def _ssl_detail(error: SslError) -> str:
    queue = error.args[0] if error.args else ()
    if isinstance(queue, list) and queue:
        return str(queue[-1][-1])
    return str(error) or type(error).__name__


def _peer_of(transport: Any) -> tuple[str, int] | str:
    peer = transport.getPeer()
    host, port = getattr(peer, "host", None), getattr(peer, "port", None)
    return (host, port) if isinstance(host, str) and isinstance(port, int) else str(peer)
