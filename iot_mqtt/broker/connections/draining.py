"""Sending clients to other nodes, so many a second: all of them before a node is stopped, or a surplus.

::

    serving ─ begin ─▶ draining: newcomers are refused, those who are here leave ─▶ drained
        ▲                  │                                                         │
        └────── resume ────┴─────────────────────────────────────────────────────────┘
    serving ─ shed(n) ─▶ rebalancing: n leave, newcomers are welcome ─▶ serving

A client that is to leave is not read any further. Once everything that came from it is committed and acknowledged it is
told where to go (version 5: DISCONNECT 0x9C or 0x9D with a Server Reference; version 3 has no words for it and is
closed). What it sent behind that was not received: it sends it again elsewhere. Its session stays as it is until its
client connects to another node, which takes it over.

They leave in the order in which their sessions came to be here. So a client that another node has just sent here, or
that has just come back, is among the last to be sent on. Nothing of this survives the process: a node that starts is
not draining.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.door import Door
from iot_mqtt.broker.connections.registry import Connections
from iot_mqtt.broker.facade import DEFAULT_RATE, DrainInfo
from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters

if TYPE_CHECKING:
    from iot_mqtt.ports.clock import Timer

log = logging.getLogger(__name__)

#: Seconds between two looks at who may leave next.
STEP_SECONDS = 0.1
#: Ten tenths are a little less than one.
ROUNDING = 1e-6

_TEXTS = {
    ReasonCode.USE_ANOTHER_SERVER: "this node takes no clients now; use another",
    ReasonCode.SERVER_MOVED: "this node will not come back; use another",
}
_SHED_TEXT = "other nodes have fewer clients"


class Draining:
    """One node's clients on their way to others."""

    def __init__(
        self,
        door: Door,
        sessions: Sessions,
        connections: Connections,
        budget: Budget,
        counters: Counters,
        clock: Clock,
    ) -> None:
        self._door = door
        self._sessions = sessions
        self._connections = connections
        self._budget = budget
        self._counters = counters
        self._clock = clock
        #: Called when this node begins or ceases to refuse newcomers, so that other nodes learn of it.
        self.on_change: Callable[[], None] = lambda: None
        self._refusal: Refused | None = None
        self._reason = ReasonCode.USE_ANOTHER_SERVER
        self._rate = DEFAULT_RATE
        #: How many have still to go of a surplus; None: everybody has.
        self._surplus: int | None = 0
        self._began_at: float | None = None
        self._sent_away = 0
        self._refused_before = 0
        self._queue: deque[str] = deque()
        self._leaving: set[Connection] = set()
        self._allowance = 0.0
        self._stepped_at = 0.0
        self._timer: Timer | None = None
        self._said = False

    @property
    def active(self) -> bool:
        """Newcomers are refused."""
        return self._refusal is not None

    # Orders.

    def begin(self, rate: int | None = None, reason: ReasonCode = ReasonCode.USE_ANOTHER_SERVER) -> None:
        """Let nobody in, and send everybody away; again: with another rate or reason."""
        door = self._door
        anew = self._refusal is None
        self._reason = reason
        refusal = Refused(_TEXTS[reason], reason)
        if door.refusing is None or door.refusing is self._refusal:
            # Another refusal has a better reason than ours.
            door.refusing = refusal
        self._refusal = refusal
        if anew:
            self._refused_before = self._refused
            self._start(rate, None)
            log.info("draining: %d clients leave, %d a second", self._connections.clients, self._rate)
            self.on_change()
        elif rate is not None:
            self._rate = rate

    def shed(self, count: int, rate: int | None = None) -> None:
        """Send so many away, and let whoever wants come; nothing if this node is being drained."""
        if self._refusal is None and count > 0:
            self._reason = ReasonCode.USE_ANOTHER_SERVER
            self._start(rate, count)
            log.info("rebalancing: %d of %d clients leave, %d a second", count, self._connections.clients, self._rate)

    def resume(self) -> None:
        """Let clients in again and send nobody away any more, for whichever reason that was done."""
        door, refusal = self._door, self._refusal
        if door.refusing is refusal:
            door.refusing = None
        self._refusal = None
        self._reason = ReasonCode.USE_ANOTHER_SERVER
        self._surplus = 0
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        leaving, self._leaving = self._leaving, set()
        for connection in leaving:
            # It has not been told: it stays.
            if not connection.closed and self._budget.paused(connection) is None:
                connection.proceed()
        if refusal is not None:
            log.info("clients are let in again")
            self.on_change()

    def progress(self) -> DrainInfo:
        """Cheap enough to be asked every second."""
        clients = self._connections.clients
        leaving = sum(1 for one in self._leaving if not one.closed)
        left = clients - leaving
        remaining = left if self._surplus is None else min(self._surplus, left)
        if self._refusal is not None:
            state = "draining" if clients else "drained"
        else:
            state = "rebalancing" if self._timer is not None else "serving"
        return DrainInfo(
            state=state,
            refusing=self._refusal is not None,
            moved=self._reason is ReasonCode.SERVER_MOVED,
            rate=self._rate,
            began_at=self._began_at,
            clients=clients,
            sent_away=self._sent_away,
            leaving=leaving,
            remaining=remaining,
            refused=self._refused - self._refused_before if self._refusal is not None else 0,
            estimate=(remaining + leaving) / self._rate if remaining or leaving else None,
        )

    @property
    def _refused(self) -> int:
        refused = self._counters.connects_refused
        return sum(refused[reason.name] for reason in _TEXTS)

    # One after the other.

    def _start(self, rate: int | None, surplus: int | None) -> None:
        clock = self._clock
        self._rate = DEFAULT_RATE if rate is None else rate
        self._surplus = surplus
        self._began_at = clock.wall()
        self._sent_away = 0
        self._said = False
        self._allowance = 0.0
        self._stepped_at = clock.monotonic()
        self._line_up()
        if self._timer is None:
            self._timer = clock.call_later(STEP_SECONDS, self._step)

    def _line_up(self) -> None:
        """Who is connected, in the order of their sessions."""
        self._queue = deque(one.client_id for one in self._sessions if one.connection is not None)

    def _step(self) -> None:
        clock = self._clock
        now = clock.monotonic()
        # A step that comes late does not make up for all of it at once.
        most = 1.0 + 2 * self._rate * STEP_SECONDS
        self._allowance = min(most, self._allowance + self._rate * (now - self._stepped_at))
        self._stepped_at = now
        self._leaving = {one for one in self._leaving if not one.closed}
        if not self._queue and self._surplus is None and self._connections.clients > len(self._leaving):
            # Clients that were being let in when it began.
            self._line_up()
        self._send_some()
        if self._surplus is not None and not (self._queue and self._surplus) and not self._leaving:
            self._timer = None
            log.info("rebalancing is over: %d clients were sent away", self._sent_away)
            return
        if self._surplus is None and not self._connections.clients and not self._said:
            self._said = True
            log.info("drained: %d clients were sent away", self._sent_away)
        if self._surplus is None and not self._connections:
            # Nobody can become a client any more: whoever connects from now on is refused.
            self._timer = None
            return
        self._timer = clock.call_later(STEP_SECONDS, self._step)

    def _send_some(self) -> None:
        # When nothing is committed nobody can leave, and no more than these are kept waiting.
        room = max(1, self._rate) - len(self._leaving)
        while self._allowance > 1 - ROUNDING and room > 0 and self._surplus != 0 and self._queue:
            session = self._sessions.get(self._queue.popleft())
            connection = session.connection if session is not None else None
            # One that waits for its CONNACK is looked at again later.
            if (
                not isinstance(connection, Connection)
                or connection.closed
                or connection.connecting
                or connection in self._leaving
            ):
                continue
            self._allowance -= 1
            room -= 1
            if self._surplus is not None:
                self._surplus -= 1
            self._send_away(connection)

    def _send_away(self, connection: Connection) -> None:
        """Acknowledge what came from it, then tell it where to go."""
        self._leaving.add(connection)
        connection.hold([])
        connection.after_commit(partial(self._tell, connection))

    def _tell(self, connection: Connection) -> None:
        if connection in self._leaving and not connection.closed:
            self._leaving.discard(connection)
            self._sent_away += 1
            connection.disconnect(self._reason, _TEXTS[self._reason] if self.active else _SHED_TEXT)
