"""The doorman of a listener: who is let in, asked before anything is made of a connection.

::

    accept ─▶ banned? ─▶ the address: too many, too fast? ─▶ the listener's places ─▶ a channel
                 └─────────────┴───────── no ───────────────────────┴─▶ closed at once, counted by reason
    behind a balancer:  accept ─▶ places ─▶ PROXY header ─▶ banned? the address? ─▶ TLS, WebSocket, CONNECT

How fast a listener takes connections is no reason to close one: those that come too fast wait in the kernel's backlog.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from iot_mqtt.pipeline.descriptors import Share
from iot_mqtt.pipeline.half_open import HalfOpen
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.settings import ListenerSettings
from iot_mqtt.pipeline.visitors import Pace, Visitors
from iot_mqtt.ports.addresses import host_of

__all__ = ["BANNED", "CROWDED", "ConnectionCounts", "Doorman"]

logger = logging.getLogger(__name__)

BANNED: Final = "banned"
CROWDED: Final = "connections"
#: Seconds for which a port that is too fast rests at least: then it takes several.
LEAST_REST: Final = 0.01
#: Seconds between two lines of the log for the same reason.
SAY_SECONDS: Final = 30.0


@dataclass(slots=True)
class ConnectionCounts:
    """What a listener counts."""

    accepted: int = 0
    #: Closed at once, for whatever reason.
    refused: int = 0
    #: Sockets open now, lingering ones included.
    open: int = 0
    #: The most that were open at once.
    most: int = 0
    #: Why those were refused.
    refusals: Counter[str] = field(default_factory=Counter)


class Placed(Protocol):
    """A channel of which a PROXY header has said where it comes from."""

    source: str

    @property
    def peer(self) -> str: ...


class Doorman:
    """One per listener; the collaborators are the node's. Without them there are no limits but the listener's own."""

    __slots__ = ("counts", "_banned", "_half_open", "_now", "_pace", "_said", "_settings", "_share", "_visitors")

    def __init__(
        self,
        settings: ListenerSettings,
        now: Callable[[], float],
        *,
        share: Share | None = None,
        visitors: Visitors | None = None,
        half_open: HalfOpen | None = None,
        banned: Callable[[str], bool] | None = None,
    ) -> None:
        """``banned``: whether nobody is let in from a host."""
        self.counts = ConnectionCounts()
        self._settings = settings
        self._now = now
        self._share = share
        self._visitors = visitors
        self._half_open = half_open
        self._banned = banned
        self._pace = Pace()
        #: When the log was told last, by reason, and how many had been refused until then.
        self._said: dict[str, tuple[float, int]] = {}

    def lets_in(self, host: str) -> str | None:
        """What the address of a new connection counts as, if it is let in; ``left`` has to follow then."""
        source = ""
        if not self._settings.proxy_protocol:
            found = self._seen(host)
            if found is None:
                return None
            source = found
        counts, share = self.counts, self._share
        if counts.open >= self._settings.max_connections or (share is not None and not share.take()):
            if source and self._visitors is not None:
                self._visitors.left(source)
            self._refuse(CROWDED, host, self._bound())
            return None
        counts.accepted += 1
        counts.open += 1
        counts.most = max(counts.most, counts.open)
        return source

    def rest(self) -> float:
        """Seconds for which the next connections stay in the backlog; asked once for each that was let in."""
        settings = self._settings
        if not settings.connect_rate:
            return 0.0
        now = self._now()
        self._pace.take(now, settings.connect_rate)
        ahead = self._pace.ahead(now, settings.connect_rate, settings.connect_burst)
        return max(ahead, LEAST_REST) if ahead else 0.0

    def placed(self, channel: Placed) -> CloseReason | None:
        """A balancer has said where a connection comes from; why it has to be closed, if it has."""
        host = host_of(channel.peer)
        source = self._seen(host)
        if source is None:
            return CloseReason("turned_away", f"connections of {host} are not let in now")
        channel.source = source
        if source and self._half_open is not None:
            self._half_open.placed(channel)  # type: ignore[arg-type]
        return None

    def left(self, source: str) -> None:
        """A socket is closed."""
        self.counts.open -= 1
        if source and self._visitors is not None:
            self._visitors.left(source)
        if self._share is not None:
            self._share.give_back()

    def _seen(self, host: str) -> str | None:
        """What the address counts as; None if it is not let in."""
        if self._banned is not None and self._banned(host):
            self._refuse(BANNED, host)
            return None
        visitors = self._visitors
        if visitors is None:
            return ""
        source = visitors.source(host)
        if source:
            share = self._share
            # The last places are not for an address that has half of the others.
            most = share.open // 2 if share is not None and share.nearly_full else None
            reason = visitors.came(source, most)
            if reason is not None:
                self._refuse(reason, host)
                return None
        return source

    def _bound(self) -> str:
        """Why there is no place."""
        settings, share = self._settings, self._share
        bound = "" if share is None or self.counts.open >= settings.max_connections else share.bound
        return bound or f"listeners.{settings.name}.max_connections ({settings.max_connections})"

    def _refuse(self, reason: str, host: str, bound: str = "") -> None:
        counts = self.counts
        counts.refused += 1
        counts.refusals[reason] += 1
        now = self._now()
        said_at, before = self._said.get(reason, (-SAY_SECONDS, 0))
        if now - said_at >= SAY_SECONDS:
            self._said[reason] = now, counts.refusals[reason]
            logger.warning(
                "listener %s refused %d connections (%s), the last of %s",
                self._settings.name,
                counts.refusals[reason] - before,
                f"{reason}: no more by {bound}" if bound else reason,
                host,
            )
