"""The Twisted protocol under a channel, and its factory.

A connection starts on a plain transport. ``start_tls`` slips a TLS layer between the two; the channel and its
stages stay what they were and notice nothing but a ``TlsEstablished`` event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol, IProtocol, IProtocolFactory
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]

from iot_mqtt.pipeline import reasons
from iot_mqtt.pipeline.channel import Channel, ChannelSettings
from iot_mqtt.pipeline.descriptors import Share
from iot_mqtt.pipeline.layout import Layout
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.tls import TlsContext
from iot_mqtt.pipeline.tls_layer import TlsLayer
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


@implementer(IProtocol, IHalfCloseableProtocol)
class ChannelProtocol:
    """Hands a transport's events to a channel."""

    __slots__ = ("channel", "factory", "transport", "_lingering")

    def __init__(self, factory: ChannelFactory) -> None:
        self.factory = factory
        self.transport: Any = None
        self.channel: Channel | _Gone = _GONE
        self._lingering: Timeout | None = None

    def makeConnection(self, transport: ChannelTransport) -> None:
        """The connection stands."""
        self.transport = transport
        factory = self.factory
        peer: Any = transport.client[:2]
        channel = Channel(factory.settings, peer)
        self.channel = channel
        if factory.tls is not None:
            channel.start_tls = self.start_tls
        factory.channels[channel] = None
        factory.layout.build(channel)
        transport.outbox = channel.outbox
        channel.begin(transport)

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
        channel, context, transport = self.channel, self.factory.tls, self.transport
        assert isinstance(channel, Channel)
        assert context is not None
        layer = TlsLayer(context, channel, self, transport)
        transport.protocol = transport.outbox = channel.outbox.link = layer
        if received:
            layer.dataReceived(received)

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
        tls: TlsContext | None = None,
    ) -> None:
        self.settings = settings
        self._share = share
        self.layout = layout
        self.max_connections = max_connections
        #: A set in the order of accepting; a dictionary needs half of a set's room.
        self.channels: dict[Channel, None] = {}
        self.counts = ConnectionCounts()
        self.tls = tls

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
    return reasons.PEER_RESET
