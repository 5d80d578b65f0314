# Twisted's transports have few annotations.
# mypy: disable-error-code="no-untyped-call"
"""Twisted's side of a plain TCP connection: a ``tcp.Server`` that is a link, and the port that accepts it.

Both do what their base classes do with fewer calls per connection and per receive, and without a second buffer:
what the kernel does not take stays in the outbox. They lean on these parts of ``twisted.internet.tcp``: ``Server``'s
attributes ``socket``, ``fileno``, ``protocol``, ``client``, ``server`` and ``connected``, and ``Port.transport``.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from twisted.internet import main, tcp
from twisted.internet.address import IPv6Address
from twisted.python import log
from twisted.python.failure import Failure

from iot_mqtt.pipeline.outbox import Outbox, Part

if TYPE_CHECKING:
    from iot_mqtt.pipeline.protocol import ChannelFactory

__all__ = ["ChannelPort", "ChannelTransport"]

READ_SIZE = 64 * 1024
#: Connections accepted before the other sockets get a turn.
ACCEPTS_PER_TURN = 64


class ChannelTransport(tcp.Server):
    """The server side of one TCP connection."""

    #: The outbox this transport serves as a link, or None: then somebody above (a TLS layer) uses Twisted's buffer.
    outbox: Outbox | None = None
    _finishing = False
    #: No shutdown() before close(): descriptors are close-on-exec, so close alone sends FIN. One system call less.
    _shouldShutdown = False  # noqa: N815
    _input_ended = False
    protocol: Any
    _tempDataLen = 0  # noqa: N815

    def __init__(
        self, sock: socket.socket, protocol: Any, client: tuple[Any, ...], server: tcp.Port, number: int, reactor: Any
    ) -> None:
        # Not super().__init__: it formats two strings per connection for logs that are hardly ever written.
        sock.setblocking(False)  # noqa: FBT003
        self.reactor = reactor
        self.socket = sock
        self.fileno = sock.fileno
        self.protocol = protocol
        self.client = client
        self.server = server
        self.sessionno = number
        self.connected = 1
        if len(client) != 2:
            self._addressType = IPv6Address
        reactor.addReader(self)

    def logPrefix(self) -> str:
        return f"channel,{self.sessionno},{self.client[0]}"

    @property
    def hostname(self) -> str:  # type: ignore[override]
        return str(self.client[0])

    @property
    def repstr(self) -> str:  # type: ignore[override]
        return f"<ChannelTransport #{self.sessionno} of {self.client}>"

    # reading and writing, called by the reactor

    def doRead(self) -> Any:
        try:
            data = self.socket.recv(READ_SIZE)
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST
        if not data:
            return main.CONNECTION_DONE
        self.protocol.dataReceived(data)
        return None

    def doWrite(self) -> Any:
        outbox = self.outbox
        if outbox is None:
            return super().doWrite()
        if outbox.blocked:
            outbox.resume()
            if outbox.blocked:
                return None
        if not self.connected:
            return None
        self.stopWriting()
        if self._finishing:
            return self._end_output()
        return main.CONNECTION_DONE if self.disconnecting else None

    def readConnectionLost(self, reason: Failure) -> None:
        """The peer closed its side. Where nothing waits for it any more the connection ends here."""
        outbox = self.outbox
        if outbox is None or outbox.empty or self._input_ended:
            self.connectionLost(reason)
        else:
            self._input_ended = True
            self.protocol.readConnectionLost()

    # Link

    def push(self, data: Part) -> int:
        try:
            taken = self.socket.send(data)
        except BlockingIOError:
            taken = 0
        except (OSError, AttributeError):  # AttributeError: Twisted deletes the socket of a lost connection
            return -1
        if taken < len(data):
            self.startWriting()
        return taken

    def set_reading(self, on: bool) -> None:
        if on:
            self.resumeProducing()
        else:
            self.pauseProducing()

    def finish(self) -> None:
        self._finishing = True
        self.startWriting()

    def abort(self) -> None:
        self.abortConnection()

    def give_way(self) -> None:
        """A TLS layer comes between this and the channel: from now on be Twisted's transport, buffer and all."""
        self.outbox = None
        self._tempDataBuffer: list[bytes] = []

    def _end_output(self) -> Any:
        """Send FIN and read on until the peer's own.

        Closing at once would answer bytes that are still coming in with a reset, and a reset may reach the client
        before it has read our last packet: the DISCONNECT that says why.
        """
        if self._input_ended:
            return main.CONNECTION_DONE
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return main.CONNECTION_LOST
        self.protocol.finished()
        return None


class ChannelPort(tcp.Port):
    """A listening port that accepts in a short loop and makes ``ChannelTransport``s."""

    transport: Any = ChannelTransport
    factory: Any

    def startListening(self) -> None:
        super().startListening()
        # Linux hands this on to accepted sockets, which saves a system call for each.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def doRead(self) -> None:
        factory: ChannelFactory = self.factory
        for _ in range(ACCEPTS_PER_TURN):
            if self.disconnecting:
                return
            try:
                sock, client = self.socket.accept()
            except BlockingIOError:
                return
            except OSError:
                super().doRead()  # out of descriptors and the like: Twisted has a reserve for that
                return
            protocol = factory.accept()
            if protocol is None:
                sock.close()
                continue
            self.sessionno = number = self.sessionno + 1
            transport = ChannelTransport(sock, protocol, client, self, number, self.reactor)
            try:
                protocol.makeConnection(transport)
            except Exception:  # noqa: BLE001 - it must not cost us the port
                log.err(None, f"cannot serve {transport.logPrefix()}")
                transport.abortConnection()
