# Twisted's transports have few annotations.
# mypy: disable-error-code="no-untyped-call"
"""Ports: Twisted's, with a shorter loop that accepts.

What is accepted is a descriptor. A channel needs no more than that, and the admin port makes a socket of it.
"""

from __future__ import annotations

import errno
import logging
import resource
import socket
import time
from typing import Any

from twisted.internet import tcp
from twisted.python import log

from iot_mqtt.native import accept

__all__ = ["CalmPort", "ChannelPort"]

logger = logging.getLogger(__name__)

#: Connections accepted before the other sockets get a turn.
ACCEPTS_PER_TURN = 64
#: Seconds for which a port accepts nobody when the system has no descriptor or no memory for a connection.
REST_SECONDS = 0.25
#: Seconds between two lines of the log that say so.
SAY_SECONDS = 60.0
#: The kernel asks after a client that was silent for so many seconds, again and again, and then gives it up. MQTT's
#: keep-alive notices sooner, where a client has one.
_ASKING = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 120),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class CalmPort(tcp.Port):
    """A listening port that accepts in a short loop, and rests when the system can give it nothing."""

    factory: Any
    #: Of one turn. Where the oldest gives way to the newest, a few: then each is read from before.
    accepts = ACCEPTS_PER_TURN
    #: How often ports had to rest because the process may have no more descriptors.
    starved = 0
    #: When the log was told last that some port rests.
    _said = -SAY_SECONDS

    def doRead(self) -> None:
        listening = self.fileno()
        for _ in range(self.accepts):
            if self.disconnecting:
                return
            try:
                accepted = accept(listening)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._rest(error)
                    return
                continue  # that connection was gone before it was accepted, or a filter of the kernel has refused it
            if accepted is None:
                return
            wait = self.serve(*accepted)
            if wait:
                self._pause(wait)
                return

    def serve(self, descriptor: int, client: tuple[Any, ...]) -> float:
        """Make a connection of an accepted socket, or close it; returns for how long no other is to be accepted."""
        sock = socket.socket(self.addressFamily, socket.SOCK_STREAM, 0, descriptor)
        self.sessionno = number = self.sessionno + 1
        protocol = self.factory.buildProtocol(self._buildAddr(client))
        if protocol is None:
            sock.close()
        else:
            protocol.makeConnection(tcp.Server(sock, protocol, client, self, number, self.reactor))
        return 0.0

    def _pause(self, seconds: float) -> None:
        self.stopReading()
        self.reactor.callLater(seconds, self._go_on)

    def _rest(self, error: OSError) -> None:
        """Who waits to be accepted would be reported again in every turn of the reactor: leave them for a while."""
        self._pause(REST_SECONDS)
        CalmPort.starved += error.errno == errno.EMFILE
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
    """A port whose factory makes channels."""

    def startListening(self) -> None:
        super().startListening()
        # Linux hands these on to accepted sockets, which saves system calls for each.
        for level, option, value in ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), *_ASKING):
            self.socket.setsockopt(level, option, value)

    def serve(self, descriptor: int, client: tuple[Any, ...]) -> float:
        try:
            return float(self.factory.accept(descriptor, client))
        except Exception:  # noqa: BLE001 - it must not cost us the port
            log.err(None, f"cannot serve {client}")
        return 0.0
