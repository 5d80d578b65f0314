# Twisted's transports have few annotations.
# mypy: disable-error-code="no-untyped-call"
"""Twisted's side of a plain TCP connection: a ``tcp.Server`` that is a link, and the port that accepts it.

Both do what their base classes do with fewer calls per connection and per receive, and without a second buffer:
what the kernel does not take stays in the outbox. They lean on these parts of ``twisted.internet.tcp``: ``Server``'s
attributes ``socket``, ``fileno``, ``protocol``, ``client``, ``server`` and ``connected``, and ``Port.transport``; and
on ``socket._accept``, which Python's own ``accept`` is made of.
"""

from __future__ import annotations

import errno
import logging
import resource
import socket
import time
from typing import Any, Protocol

from twisted.internet import main, tcp
from twisted.internet.address import IPv6Address
from twisted.python import log
from twisted.python.failure import Failure

from iot_mqtt.pipeline.outbox import Part

__all__ = ["CalmPort", "ChannelPort", "ChannelTransport"]

logger = logging.getLogger(__name__)

READ_SIZE = 64 * 1024
#: Most of a client whose last read was as large: who sends much at once is read in fewer turns.
LARGE_READ = 512 * 1024
#: Bytes of a turn that such clients share, so that many of them keep nobody waiting for longer than they ever did.
TURN_READ = 2 * 1024 * 1024
#: Connections accepted before the other sockets get a turn.
ACCEPTS_PER_TURN = 64
#: Seconds for which a port accepts nobody when the system has no descriptor or no memory for a connection.
REST_SECONDS = 0.25
#: Seconds between two lines of the log that say so.
SAY_SECONDS = 60.0
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Source(Protocol):
    """What a transport serves as a link: the channel's outbox, or a TLS layer."""

    @property
    def blocked(self) -> bool: ...

    @property
    def empty(self) -> bool: ...

    def resume(self) -> None: ...


class ChannelTransport(tcp.Server):
    """The server side of one TCP connection."""

    #: None before there is one.
    outbox: Source | None = None
    _finishing = False
    _room = READ_SIZE
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
            data = self.socket.recv(self._room)
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST
        if not data:
            return main.CONNECTION_DONE
        if len(data) < READ_SIZE:
            self._room = READ_SIZE
        else:
            self._room = max(READ_SIZE, min(LARGE_READ, TURN_READ // self.reactor.ready))
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
        if self.outbox is None or self.outbox.empty:
            # Not now, for nobody expects it, and not by way of the poller, which would be told twice.
            self.reactor.call_at_turn_end(self._finish)
        else:  # a TLS layer has bytes that the kernel did not take
            self._finishing = True
            self.startWriting()

    def _finish(self) -> None:
        if self.connected and not self.disconnecting:
            reason = self._end_output()
            if reason is not None:
                self.connectionLost(Failure(reason))

    def abort(self) -> None:
        self.abortConnection()

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


class CalmPort(tcp.Port):
    """A listening port that accepts in a short loop, and rests when the system can give it nothing."""

    factory: Any
    #: When the log was told last that some port rests.
    _said = -SAY_SECONDS

    def doRead(self) -> None:
        accept, family = self.socket._accept, self.addressFamily  # type: ignore[union-attr]
        for _ in range(ACCEPTS_PER_TURN):
            if self.disconnecting:
                return
            try:
                # What ``accept`` does, without asking for the family and the type of each: they are the port's.
                descriptor, client = accept()
                sock = socket.socket(family, socket.SOCK_STREAM, 0, descriptor)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._rest(error)
                    return
                continue  # that connection was gone before it was accepted, or a filter of the kernel has refused it
            self.sessionno = number = self.sessionno + 1
            self.serve(sock, client, number)

    def serve(self, sock: socket.socket, client: tuple[Any, ...], number: int) -> None:
        """Make a connection of an accepted socket, or close it."""
        protocol = self.factory.buildProtocol(self._buildAddr(client))
        if protocol is None:
            sock.close()
        else:
            protocol.makeConnection(tcp.Server(sock, protocol, client, self, number, self.reactor))

    def _rest(self, error: OSError) -> None:
        """Who waits to be accepted would be reported again in every turn of the reactor: leave them for a while."""
        self.stopReading()
        self.reactor.callLater(REST_SECONDS, self._go_on)
        now = time.monotonic()
        if now - CalmPort._said >= SAY_SECONDS:
            CalmPort._said = now
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            logger.warning(
                "connections to port %s have to wait: %s (limit of descriptors: %d)",
                self._realPortNumber,
                error.strerror,
                limit,
            )

    def _go_on(self) -> None:
        if self.connected and not self.disconnecting:
            self.startReading()


class ChannelPort(CalmPort):
    """A port that makes ``ChannelTransport``s."""

    transport: Any = ChannelTransport

    def startListening(self) -> None:
        super().startListening()
        # Linux hands this on to accepted sockets, which saves a system call for each.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def serve(self, sock: socket.socket, client: tuple[Any, ...], number: int) -> None:
        protocol = self.factory.accept()
        if protocol is None:
            sock.close()
            return
        transport = ChannelTransport(sock, protocol, client, self, number, self.reactor)
        try:
            protocol.makeConnection(transport)
        except Exception:  # noqa: BLE001 - it must not cost us the port
            log.err(None, f"cannot serve {transport.logPrefix()}")
            transport.abortConnection()
