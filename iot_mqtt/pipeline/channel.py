# Twisted's Failure.
# mypy: disable-error-code="no-untyped-call"
"""Channels: one connection as everything above the transport sees it.

States, in order::

        made ──▶ active ──▶ closing ──▶ inactive
                    └──────────────────────▲   lost, aborted

``write``, ``flush`` and ``close`` start at the pipeline's tail and pass every stage. ``close`` sends what waits, for
a bounded time; nothing is read or written after it was called. ``inactive`` always comes from the reactor, never from
within ``close`` or ``abort``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from twisted.logger import Logger
from twisted.python.failure import Failure

from iot_mqtt.pipeline import reasons
from iot_mqtt.pipeline.debts import Debts
from iot_mqtt.pipeline.login_budget import LoginLimit
from iot_mqtt.pipeline.outbox import Link, Outbox
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.rows import Ends
from iot_mqtt.pipeline.settings import OutboxSettings
from iot_mqtt.pipeline.unfinished import Unfinished
from iot_mqtt.pipeline.wheel import Timeout, TimingWheel

__all__ = ["Channel", "ChannelSettings", "InputClosed", "Recorded", "TlsStarter"]

_log = Logger()


class TlsStarter(Protocol):
    """Puts a TLS layer between a channel and its transport; ``received`` is what had been read already."""

    def __call__(self, received: bytes) -> None: ...


class Recorded(Protocol):
    """Takes down what goes over a connection, in the bytes of its protocol."""

    def received(self, data: bytes) -> bool:
        """True: ``follow`` has to be called behind the decoder."""
        ...

    def follow(self, data: bytes, held: int, missing: int) -> None:
        """Of the packet that these bytes end in, so many are there, and so many missing."""
        ...

    def sent(self, parts: list[bytes]) -> None: ...


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """What all channels of a listener share."""

    listener: str
    wheel: TimingWheel
    local: str = ""
    outbox: OutboxSettings = field(default_factory=OutboxSettings)
    linger: float = 3.0
    #: Of bytes that come before the login; None: no limit.
    login: LoginLimit | None = None
    #: Of what waits for all connections; None: no limit.
    debts: Debts | None = None
    #: Of large packets that are not complete, of all connections; None: no limit.
    unfinished: Unfinished | None = None


@dataclass(frozen=True, slots=True)
class InputClosed:
    """Event: the peer will send no more, but may still read; the channel closes once its outbox is empty. A stage that
    has answers to what came stops the close that follows, and closes behind them.
    """


class Channel:
    """One connection."""

    __slots__ = (
        "active",
        "answers_late",
        "bytes_received",
        "certificate",
        "certificate_name",
        "close_reason",
        "closing",
        "large",
        "login",
        "missing",
        "most_read",
        "outbox",
        "pipeline",
        "reading",
        "recorded",
        "settings",
        "source",
        "start_tls",
        "tls_version",
        "writable",
        "_failing",
        "_lingering",
        "_local",
        "_peer",
    )

    pipeline: Ends

    def __init__(self, settings: ChannelSettings, peer: str | tuple[str, int] = "") -> None:
        self.settings = settings
        self.outbox = Outbox(self, settings.outbox, settings.debts)
        self.active = False
        #: A stage may have answers for a peer that sends no more, also while nothing waits in the outbox.
        self.answers_late = False
        self.closing = False
        #: False above the high water mark of the outbox: QoS 0 is then dropped, QoS 1/2 stays in the session.
        self.writable = True
        self.reading = True
        self.bytes_received = 0
        #: Of a peer that sends large packets: the size of one, and the bytes that complete the one that has begun.
        self.large = self.missing = 0
        #: Bytes that a stage wants to be read at once, at most; 0: it does not say.
        self.most_read = 0
        self.close_reason: CloseReason | None = None
        #: What bounds the bytes of a client that has not logged in; None: it has.
        self.login = settings.login
        #: None: nobody takes down what goes over it.
        self.recorded: Recorded | None = None
        #: What its address counts as; empty: for nothing, or it is not known yet.
        self.source = ""
        #: Common name of the client's verified certificate.
        self.certificate_name: str | None = None
        #: Its further names by their kind; None without one.
        self.certificate: dict[str, tuple[str, ...]] | None = None
        #: "TLSv1.3", or None without TLS.
        self.tls_version: str | None = None
        #: Set by transports that can.
        self.start_tls: TlsStarter | None = None
        self._peer = peer
        self._local: str | None = None
        self._failing = False
        self._lingering: Timeout | None = None

    # what it is

    @property
    def peer(self) -> str:
        """``host:port`` of the client, by the PROXY header where there is one."""
        peer = self._peer
        if not isinstance(peer, str):
            # Whoever is let in is asked for more than once, and a text is smaller than what it is made of.
            peer = self._peer = address(peer[0], peer[1])
        return peer

    @peer.setter
    def peer(self, value: str) -> None:
        self._peer = value

    @property
    def local(self) -> str:
        """``host:port`` that the client connected to: the listener's, or by the PROXY header."""
        return self.settings.local if self._local is None else self._local

    @local.setter
    def local(self, value: str) -> None:
        self._local = value

    @property
    def listener(self) -> str:
        """Name of the listener."""
        return self.settings.listener

    @property
    def wheel(self) -> TimingWheel:
        """The timing wheel that all waiting is done on."""
        return self.settings.wheel

    @property
    def bytes_sent(self) -> int:
        """Bytes that the transport took."""
        return self.outbox.sent

    # for those above: outbound events from the tail

    def write(self, batch: list[Any]) -> None:
        """Write through all stages; nothing is sent before ``flush``."""
        self.pipeline.write(batch)

    def flush(self) -> None:
        """Send what was written."""
        self.pipeline.flush()

    def close(self, reason: CloseReason = reasons.CLOSED) -> None:
        """Send what waits and close; aborted if that takes longer than the linger time. First reason counts."""
        if not self.closing:
            self.pipeline.close(reason)

    def set_reading(self, on: bool) -> None:
        """Start or stop taking bytes from the peer. Over TLS, what was received but not yet decrypted still comes."""
        self.pipeline.set_reading(on)

    def abort(self, reason: CloseReason = reasons.ABORTED) -> None:
        """Close at once and drop what waits."""
        self.closing = True
        if self.close_reason is None:
            self.close_reason = reason
        link = self.outbox.link
        self.outbox.discard()
        if link is not None:
            link.abort()

    def give_up(self, error: BaseException) -> None:
        """An exception that no stage handled: log it, close; abort if closing is what failed."""
        _log.failure("unhandled error on {peer} ({listener})", Failure(error), peer=self.peer, listener=self.listener)
        if self._failing or self.closing:
            self.abort(reasons.failed(error))
        else:
            self._failing = True
            self.close(reasons.failed(error))

    # for the link: inbound events from the head

    def begin(self, link: Link) -> None:
        """The connection stands; the pipeline must be there."""
        self.outbox.link = link
        self.active = True
        if self.closing:  # a stage failed, or changed its mind, when it was added
            link.abort()
        else:
            self.pipeline.fire_active()

    def received(self, data: bytes) -> None:
        """Bytes from the peer."""
        if self.closing:
            return
        self.bytes_received += len(data)
        pipeline = self.pipeline
        pipeline.fire_read([data])
        if pipeline.row.completes:
            pipeline.fire_read_complete()
        if self.login is not None:
            self.login.received(self, len(data))

    def encrypted(self, size: int) -> None:
        """Bytes of a TLS handshake that is not done."""
        if self.login is not None:
            self.login.received(self, size)

    def logged_in(self) -> None:
        """It is known who the client is."""
        if self.login is not None:
            self.login.budget.forget(self)
            self.login = None

    def input_closed(self) -> None:
        """The peer sends no more; what waits for it is still sent."""
        if not self.closing:
            self.pipeline.fire_event(InputClosed())
            self.close(reasons.PEER_CLOSED)

    def lost(self, reason: CloseReason) -> None:
        """The connection is gone (or as good as gone): the pipeline's last event."""
        if not self.active:
            return
        self.active = False
        self.closing = True
        if self.close_reason is None:
            self.close_reason = reason
        if self._lingering is not None:
            self._lingering.cancel()
        self.outbox.discard()
        self.pipeline.fire_inactive(self.close_reason)
        self.pipeline.dismantle()
        self.outbox.retire()
        if self.login is not None:
            self.login.budget.forget(self)
        if self.large and self.settings.unfinished is not None:
            self.settings.unfinished.forget(self)

    # for the head and the outbox

    def begin_close(self, reason: CloseReason) -> None:
        """What ``close`` does once it has passed all stages."""
        if self.closing:
            return
        self.outbox.flush()
        self.closing = True
        if self.close_reason is None:
            self.close_reason = reason
        link = self.outbox.link
        if link is None:
            return
        if not self.reading:
            link.set_reading(on=True)  # or the peer's own close goes unnoticed
        self._lingering = self.wheel.schedule(self.settings.linger, link.abort)
        if self.outbox.empty:
            link.finish()

    def drained(self) -> None:
        """The outbox is empty after it was not."""
        if self.closing and self.outbox.link is not None:
            self.outbox.link.finish()

    def broken(self) -> None:
        """The link failed in the middle of a push."""
        self.abort(reasons.PEER_RESET)

    def switch_reading(self, on: bool) -> None:
        """What ``set_reading`` does once it has passed all stages."""
        if self.reading != on and not self.closing and self.outbox.link is not None:
            self.reading = on
            self.outbox.link.set_reading(on)

    def switch_writable(self, *, writable: bool) -> None:
        """Set ``writable`` and tell the stages."""
        self.writable = writable
        if self.active and not self.closing:
            self.pipeline.fire_writability(writable)

    def __repr__(self) -> str:
        return f"<Channel {self.peer} on {self.listener}>"


def address(host: str, port: int) -> str:
    """``host:port``, with brackets around IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
