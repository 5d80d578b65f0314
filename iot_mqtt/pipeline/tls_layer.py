"""TLS between a transport and its channel: bytes of the wire below, bytes of the protocol above.

::

    channel.received ◀── read ◀── incoming ◀── received ◀── transport
    channel.outbox ──push──▶ write ──▶ outgoing ──▶ transport.push ──▶ kernel
                                                        │ took less
                             waits here, the outbox is blocked; transport: ``resume``

OpenSSL works in memory on what came, whoever read it: a PROXY header, or what tells TLS from plain MQTT, is read before
TLS begins. To the transport the layer is a protocol and an outbox, to the channel's outbox a link.
"""

from __future__ import annotations

import ssl
from contextlib import suppress

from iot_mqtt.codec import WrongPort, at_tls_port
from iot_mqtt.pipeline.channel import Channel
from iot_mqtt.pipeline.outbox import Link, Part
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.tls import TlsEstablished, blame_certificate, certificate_name, certificate_names, ssl_text
from iot_mqtt.pipeline.tls_context import TlsContext

__all__ = ["TlsLayer"]

#: A record has 16 KiB at most, and OpenSSL gives one at a time.
RECORD = 16 * 1024
#: Bytes that are encrypted before the kernel is asked to take them. OpenSSL keeps room for as many, per connection.
CHUNK = 4 * RECORD
_NOTHING = memoryview(b"")
#: Nobody writes to it.
_EMPTY = ssl.MemoryBIO()


class _Nowhere(Link):
    """The link of a connection that is lost."""

    __slots__ = ()

    def push(self, data: Part) -> int:
        return -1

    def set_reading(self, on: bool) -> None: ...

    def finish(self) -> None: ...

    def abort(self) -> None: ...


_NOWHERE = _Nowhere()


class TlsLayer(Link):
    """Of one connection."""

    __slots__ = (
        "_channel",
        "_context",
        "_done",
        "_failed",
        "_incoming",
        "_link",
        "_outgoing",
        "_over",
        "_received",
        "_tls",
        "_unsent",
    )

    def __init__(self, context: TlsContext, channel: Channel, link: Link) -> None:
        self._incoming = self._outgoing = _EMPTY
        #: None before the first bytes: who says nothing costs nothing of OpenSSL's.
        self._tls: ssl.SSLObject | None = None
        self._context = context
        self._channel = channel
        self._link: Link = link
        #: What OpenSSL made and the link did not take.
        self._unsent = _NOTHING
        #: Bytes of the handshake.
        self._received = 0
        #: The handshake is done; it or what came after it failed; nothing more is read.
        self._done = self._failed = self._over = False

    # a channel, to the transport

    def received(self, data: bytes) -> None:
        """Bytes of the wire."""
        if self._tls is None and not self._over:
            self._begin()
        at = 0
        while not self._done and at < len(data):
            # Piece by piece: what takes them in stays as large as it ever had to be.
            piece, at = data[at : at + RECORD], at + RECORD
            if self._over or self._tls is None:
                return
            self._incoming.write(piece)
            self._received += len(piece)
            self._channel.encrypted(len(piece))
            if not self._over:  # they may have been too many
                self._shake_hands(self._tls, piece)
        if self._over or self._tls is None:
            return
        self._incoming.write(data[at:])
        if self._done:
            self._read(self._tls)

    def lost(self) -> None:
        """The connection is gone."""
        self._over = True
        self._context.shown.went(self._channel)
        self._count_no_more()
        self._tls = None
        self._unsent = _NOTHING
        # The transport has this for its outbox: neither is to wait for the collector.
        self._incoming = self._outgoing = _EMPTY
        self._link = _NOWHERE

    # an outbox, to the transport

    @property
    def blocked(self) -> bool:
        """Something waits for ``resume``."""
        return bool(self._unsent) or (self._done and self._channel.outbox.blocked)

    @property
    def empty(self) -> bool:
        """Nothing waits."""
        return not self._unsent and self._channel.outbox.empty

    def resume(self) -> None:
        """The kernel takes bytes again."""
        if self._send():
            self._resume_outbox()

    # a link, to the channel's outbox

    def push(self, data: Part) -> int:
        tls = self._tls
        if tls is None:
            return -1 if self._over else 0
        taken, view = 0, memoryview(data)
        # No more than a chunk of what the kernel does not take has a second copy here.
        while self._done and not self._unsent and taken < len(view):
            chunk = view[taken : taken + CHUNK]
            try:
                while chunk:
                    written = tls.write(chunk)
                    taken += written
                    chunk = chunk[written:]
            except ssl.SSLError:
                return -1
            if not self._send() and self._failed:
                return -1
        return taken

    def set_reading(self, on: bool) -> None:
        self._link.set_reading(on)

    def finish(self) -> None:
        self._over = True
        if self._done and not self._failed and self._tls is not None:
            with suppress(ssl.SSLError):  # the peer's own close_notify is not waited for
                self._tls.unwrap()
            self._send()
        self._link.finish()

    def abort(self) -> None:
        self._over = True
        if self._failed and not self._unsent:
            self._link.finish()  # behind the alert that says why
        else:
            self._link.abort()

    # OpenSSL

    def _begin(self) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = self._context.wrap(self._incoming, self._outgoing)
        if self._context.handshakes is not None:
            self._context.handshakes.add(self._channel, 1)

    def _count_no_more(self) -> None:
        """The handshake is done, or will never be."""
        if self._context.handshakes is not None:
            self._context.handshakes.forget(self._channel)

    def _shake_hands(self, tls: ssl.SSLObject, piece: bytes) -> None:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
        except ssl.SSLError as error:
            blame_certificate(error, self._received)
            self._fail(error, at_tls_port(piece) if self._received == len(piece) else None)
        else:
            self._done = True
            self._count_no_more()
            channel = self._channel
            channel.tls_version = tls.version()
            if channel.tls_version != "TLSv1.3":
                self._send()  # else it is a session ticket, and goes with our first bytes
            channel.certificate_name = certificate_name(tls.getpeercert())
            channel.certificate = certificate_names(tls) or None
            self._context.shown.came(channel, tls)
            channel.pipeline.fire_event(TlsEstablished(str(channel.tls_version), channel.certificate_name))
            self._resume_outbox()  # what was written before waits there

    def _resume_outbox(self) -> None:
        outbox = self._channel.outbox
        while self._done and not self._unsent and not self._over and outbox.blocked:
            outbox.resume()

    def _read(self, tls: ssl.SSLObject) -> None:
        records: list[bytes] = []
        ended = False
        incoming = self._incoming
        try:
            while not ended and (incoming.pending or tls.pending()):
                if record := tls.read(RECORD):
                    records.append(record)
                else:
                    ended = True
        except ssl.SSLWantReadError:
            pass  # part of a record
        except ssl.SSLError as error:
            self._deliver(records)
            self._fail(error)
            return
        self._deliver(records)
        if ended and not self._over:
            self._channel.input_closed()

    def _deliver(self, records: list[bytes]) -> None:
        if records and not self._over:
            self._channel.received(records[0] if len(records) == 1 else b"".join(records))

    def _send(self) -> bool:
        """Give the link what OpenSSL made; whether it took all of it."""
        if self._unsent and self._outgoing.pending:
            data = memoryview(b"".join((self._unsent, self._outgoing.read())))
        else:
            data = self._unsent or memoryview(self._outgoing.read())
        if not data:
            return True
        taken = self._link.push(data)
        if taken < 0:
            self._unsent, self._failed = _NOTHING, True
            self._channel.broken()
            return False
        self._unsent = data[taken:]
        return not self._unsent

    def _fail(self, error: ssl.SSLError, wrong: WrongPort | None = None) -> None:
        """The peer is told by an alert, and the channel by the reason; ``wrong``: what came in place of a handshake."""
        if self._over:
            return
        self._send()
        self._failed = True
        self._context.failed(error)
        self._channel.abort(CloseReason("tls_failed", wrong or ssl_text(error)))
