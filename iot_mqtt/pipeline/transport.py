# Twisted's reactor and its failures have few annotations.
# mypy: disable-error-code="no-untyped-call"
"""The transport under a channel, and what makes both when a connection is accepted.

A connection starts on a plain transport. ``start_tls`` slips a TLS layer between the two; the channel and its
stages stay what they were and notice nothing but a ``TlsEstablished`` event.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from typing import Any, Final

from twisted.internet import main
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import IHalfCloseableDescriptor, IReadWriteDescriptor
from twisted.python.failure import Failure
from zope.interface import classImplements  # type: ignore[import-untyped]

from iot_mqtt.native import receive, send, send_end
from iot_mqtt.pipeline import reasons
from iot_mqtt.pipeline.channel import Channel, ChannelSettings
from iot_mqtt.pipeline.doorman import ConnectionCounts, Doorman
from iot_mqtt.pipeline.layout import Layout
from iot_mqtt.pipeline.outbox import Link, Outbox, Part
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.tls_context import TlsContext
from iot_mqtt.pipeline.tls_layer import TlsLayer
from iot_mqtt.pipeline.wheel import Timeout

__all__ = ["ChannelFactory", "ChannelTransport"]

READ_SIZE: Final = 64 * 1024
#: Most of a client whose last read was as large: who sends much at once is read in fewer turns.
LARGE_READ: Final = 512 * 1024
#: Bytes of a turn that such clients share, so that many of them keep nobody waiting for longer than they ever did.
TURN_READ: Final = 2 * 1024 * 1024


class ChannelTransport(Link):
    """One TCP connection: what the reactor watches, and the link of a channel, or of the TLS layer below it.

    It is a descriptor and nothing else: no socket object, and no buffer, for what the kernel does not take stays in the
    outbox.
    """

    __slots__ = (
        "channel",
        "_aborted",
        "_descriptor",
        "_factory",
        "_finishing",
        "_input_ended",
        "_lingering",
        "_room",
        "_source",
        "_tls",
    )

    def __init__(self, factory: ChannelFactory, descriptor: int, channel: Channel) -> None:
        self._factory = factory
        #: -1: it is closed.
        self._descriptor = descriptor
        #: None: the connection has ended above, and may linger here.
        self.channel: Channel | None = channel
        self._tls: TlsLayer | None = None
        self._lingering: Timeout | None = None
        self._finishing = self._input_ended = self._aborted = False
        #: Of the channel that has ended.
        self._source = ""
        #: Bytes that the next read takes at most.
        self._room = READ_SIZE

    # for the reactor

    def fileno(self) -> int:
        return self._descriptor

    def logPrefix(self) -> str:
        return f"channel,{self._descriptor},{'' if self.channel is None else self.channel.peer}"

    def doRead(self) -> Any:
        try:
            data = receive(self._descriptor, self._room)
        except OSError:
            return main.CONNECTION_LOST
        if data is None:
            return None
        if not data:
            return main.CONNECTION_DONE
        if len(data) >= READ_SIZE:
            self._room = max(READ_SIZE, min(LARGE_READ, TURN_READ // self._factory.reactor.ready))
        else:
            self._room = READ_SIZE
        channel = self.channel
        if self._tls is not None:
            self._tls.received(data)
        elif channel is not None:
            channel.received(data)
            if channel.large:
                self._room = whole_packets(self._room, channel.large, channel.missing)
        if channel is not None and channel.most_read:
            self._room = min(self._room, channel.most_read)
        return None

    def doWrite(self) -> Any:
        waiting = self._waiting
        if waiting is not None and waiting.blocked and not self._aborted:
            waiting.resume()
            if waiting.blocked:
                return None
        if self._descriptor < 0:
            return None
        self._factory.reactor.removeWriter(self)
        return self._end_output() if self._finishing else None

    def readConnectionLost(self, reason: Failure) -> None:
        """The peer closed its side. Where nothing waits for it, nor will, the connection ends here."""
        waiting, channel = self._waiting, self.channel
        late = channel is not None and channel.answers_late and not channel.closing
        if waiting is None or self._input_ended or (waiting.empty and not late):
            self.connectionLost(reason)
        else:
            self._input_ended = True
            if channel is not None:
                channel.input_closed()

    def writeConnectionLost(self, reason: Failure) -> None: ...

    def connectionLost(self, reason: Failure) -> None:
        descriptor = self._descriptor
        if descriptor < 0:
            return
        self._factory.reactor.removeReader(self)
        self._factory.reactor.removeWriter(self)
        self._descriptor = -1
        if self._aborted:
            _reset(descriptor)
        # Descriptors are close-on-exec, so this alone sends FIN.
        os.close(descriptor)
        tls, self._tls = self._tls, None
        if tls is not None:
            tls.lost()
        self._end(_reason_of(reason))
        if self._lingering is not None:
            self._lingering.cancel()
        self._factory.doorman.left(self._source)

    # for the channel's outbox, or for TLS

    def push(self, data: Part) -> int:
        taken = send(self._descriptor, data)
        if 0 <= taken < len(data):
            self._factory.reactor.addWriter(self)
        return taken

    def set_reading(self, on: bool) -> None:
        if self._descriptor < 0 or self._aborted or self._input_ended:
            return
        if on:
            self._factory.reactor.addReader(self)
        else:
            self._factory.reactor.removeReader(self)

    def finish(self) -> None:
        waiting = self._waiting
        if waiting is None or waiting.empty:
            # Not now, for nobody expects it, and not by way of the poller, which would be told twice.
            self._factory.reactor.call_at_turn_end(self._finish)
        else:  # a TLS layer has bytes that the kernel did not take
            self._finishing = True
            self._factory.reactor.addWriter(self)

    def abort(self) -> None:
        if self._descriptor >= 0 and not self._aborted:
            self._aborted = True
            self._factory.reactor.removeReader(self)
            self._factory.reactor.removeWriter(self)
            self._factory.reactor.callLater(0, self.connectionLost, Failure(ConnectionAborted()))

    def start_tls(self, received: bytes) -> None:
        """Put TLS between this and the channel; ``received`` is ciphertext that was read already."""
        channel, context = self.channel, self._factory.tls
        assert channel is not None
        assert context is not None
        self._tls = channel.outbox.link = TlsLayer(context, channel, self)
        if received:
            self._tls.received(received)

    # the end

    @property
    def _waiting(self) -> TlsLayer | Outbox | None:
        """What keeps bytes for this."""
        if self._tls is not None:
            return self._tls
        return None if self.channel is None else self.channel.outbox

    def _finish(self) -> None:
        if self._descriptor >= 0 and not self._aborted:
            reason = self._end_output()
            if reason is not None:
                self.connectionLost(Failure(reason))

    def _end_output(self) -> Any:
        """Send FIN and read on until the peer's own.

        Closing at once would answer bytes that are still coming in with a reset, and a reset may reach the client
        before it has read our last packet: the DISCONNECT that says why.
        """
        if self._input_ended:
            return main.CONNECTION_DONE
        try:
            send_end(self._descriptor)
        except OSError:
            return main.CONNECTION_LOST
        channel = self.channel
        if channel is not None:
            # All was sent: over for the channel; the peer gets a little time to close.
            self._end(reasons.CLOSED)
            self._lingering = channel.wheel.schedule(channel.settings.linger, self.abort)
        return None

    def _end(self, reason: CloseReason) -> None:
        channel, self.channel = self.channel, None
        if channel is not None:
            self._source = channel.source
            channel.lost(reason)
            channel.start_tls = None
            self._factory.channels.pop(channel, None)


classImplements(ChannelTransport, IReadWriteDescriptor, IHalfCloseableDescriptor)


def whole_packets(room: int, size: int, missing: int) -> int:
    """Up to half of that room less, so that a read ends where a packet does, if the next ones have that size, too: what
    a read has of one that goes on behind it has to be copied once more, and looked at twice.
    """
    whole = missing + (room - missing) // size * size
    return whole if whole * 2 >= room >= missing else room


def _reset(descriptor: int) -> None:
    """Have the peer told at once, by a reset, that nobody reads or writes any more."""
    with suppress(OSError):
        # With a family, whichever it is, the system is not asked for it.
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, descriptor)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        finally:
            sock.detach()


class ChannelFactory:
    """One per listener: makes channels of connections that the doorman lets in, and knows those that are open."""

    noisy = False

    def __init__(
        self,
        reactor: Any,
        settings: ChannelSettings,
        layout: Layout,
        doorman: Doorman,
        tls: TlsContext | None = None,
    ) -> None:
        self.reactor = reactor
        self.settings = settings
        self.layout = layout
        self.doorman = doorman
        #: A set in the order of accepting; a dictionary needs half of a set's room.
        self.channels: dict[Channel, None] = {}
        self.tls = tls

    @property
    def counts(self) -> ConnectionCounts:
        """Connections accepted, refused and open."""
        return self.doorman.counts

    def accept(self, descriptor: int, client: tuple[Any, ...]) -> float:
        """Make a channel of a connection, or close it; returns the seconds for which the next ones have to wait."""
        source = self.doorman.lets_in(client[0])
        if source is None:
            os.close(descriptor)
            return 0.0
        channel = Channel(self.settings, client[:2])
        channel.source = source
        transport = ChannelTransport(self, descriptor, channel)
        try:
            if self.tls is not None:
                channel.start_tls = transport.start_tls
            self.channels[channel] = None
            self.layout.build(channel)
            self.reactor.watch(descriptor, transport)
            channel.begin(transport)
        except BaseException:
            transport.abort()
            raise
        return self.doorman.rest()

    # for the port

    def doStart(self) -> None: ...

    def doStop(self) -> None: ...


def _reason_of(failure: Failure) -> CloseReason:
    return reasons.PEER_CLOSED if isinstance(failure.value, ConnectionDone) else reasons.PEER_RESET
