"""The connections of a node, and which of them are clients.

::

    opened ─▶ (CONNECT) ─▶ connected ─▶ leaving, closed      a session has the connection from ``connected`` on, until
       └────────────────────────────▶ leaving, closed      it leaves, is closed, or another one takes its session
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from iot_mqtt.broker.connections.connection import WHO, Connection
from iot_mqtt.broker.publishing.accompanying import Accompaniment
from iot_mqtt.broker.recorder import Recorded, Recorder
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.attempts import Attempts
from iot_mqtt.broker.turn import Turn
from iot_mqtt.errors import MqttError
from iot_mqtt.pipeline import CloseReason, ConnectTimeouts
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.endings import end_text, end_with
from iot_mqtt.ports.events import CLIENT_CONNECTED, CLIENT_DISCONNECTED, Events

logger = logging.getLogger(__name__)

#: Endings of those who were not let through to the protocol.
TURNED_AWAY = frozenset(
    {"untrusted_proxy", "bad_proxy_header", "foreign_origin", "bad_websocket_handshake", "tls_failed"}
)
#: Endings of those who were cut off because they did not read.
CUT_OFF = frozenset({"outbox_limit", "outbox_total"})
#: Endings decided below the protocol that count as errors.
FAULTS = (
    frozenset({"connect_timeout", "before_login", "half_open", "tls_handshakes", "unfinished_total", "failed"})
    | TURNED_AWAY
    | CUT_OFF
)
#: What is told of a client that is gone.
WHO_LEFT = (*WHO, "reason", "text")


class Connections:
    """Every connection of this node, from accept to close, in the order of accepting."""

    __slots__ = (
        "by_owner",
        "clients",
        "detach",
        "most_clients",
        "on_closed",
        "on_connected",
        "reference",
        "_accompaniment",
        "_attempts",
        "_closed_bytes",
        "_counters",
        "_events",
        "_open",
        "_recorder",
        "_timeouts",
        "_turn",
    )

    def __init__(
        self,
        turn: Turn,
        counters: Counters,
        accompaniment: Accompaniment,
        attempts: Attempts,
        timeouts: ConnectTimeouts,
        recorder: Recorder,
        events: Events,
    ) -> None:
        self._turn = turn
        self._counters = counters
        self._accompaniment = accompaniment
        self._attempts = attempts
        self._timeouts = timeouts
        self._recorder = recorder
        self._events = events
        #: A set in the order of accepting; a dictionary needs half of a set's room.
        self._open: dict[Connection, None] = {}
        #: Connections that a session has, and how many they were at most.
        self.clients = self.most_clients = 0
        #: The former by the identity of their clients.
        self.by_owner: dict[str, int] = {}
        #: Whoever watches clients looks at one that was let in.
        self.on_connected: tuple[Callable[[Connection], None], ...] = ()
        #: Whoever remembers connections forgets one that is gone.
        self.on_closed: tuple[Callable[[Connection], None], ...] = ()
        #: Listener → where clients are sent that are to use another server; empty: nowhere.
        self.reference: Callable[[str], str] = lambda _: ""
        #: A session loses its connection, for a reason.
        self.detach: Callable[[Session, Connection, str], None]
        self._closed_bytes = [0, 0]

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._open)

    def opened(self, connection: Connection) -> None:
        """A socket was accepted: its client has to say soon who it is."""
        self._counters.connections_opened += 1
        self._open[connection] = None
        if connection.ctx is not None:
            channel = connection.ctx.channel
            channel.recorded = self._recorder.begin()
            self._timeouts.expect(channel)

    def identified(self, connection: Connection) -> None:
        """The client has sent all that it takes to let it in: the connect time-out has done its work."""
        if connection.ctx is not None:
            self._timeouts.forget(connection.ctx.channel)

    def connected(self, connection: Connection) -> None:
        """A session has its connection; ``_detach`` is the counterpart."""
        if connection.connect is not None and connection.connect.properties.authentication_method is not None:
            self.identified(connection)
        connection.note_origin()
        self._accompaniment.by.client_came(connection)
        if connection.ctx is not None:
            channel = connection.ctx.channel
            channel.logged_in()
            recorded, session = channel.recorded, connection.session
            if isinstance(recorded, Recorded) and session is not None:
                self._recorder.named(recorded, session.client_id, channel.peer)
        self.clients += 1
        owner = _owner(connection)
        self.by_owner[owner] = self.by_owner.get(owner, 0) + 1
        self.most_clients = max(self.most_clients, self.clients)
        self._events.note(CLIENT_CONNECTED, WHO, connection.whose())
        for look in self.on_connected:
            look(connection)
        self._turn.plan_if_unsettled()

    def leaving(self, connection: Connection, end: str, error: MqttError | None = None) -> None:
        """We close a connection: its session lets go of it at once, not when the socket is gone. ``error`` is why, if
        the client did not ask for it.
        """
        self._detach(connection, end, "" if error is None else error.detail)
        unanswered = connection.connecting or connection.session is None
        if error is not None and unanswered and connection.connect is not None:
            self._counters.connects_refused[error.reason.name] += 1
            self._attempts.refused(connection, end, error.detail)

    def closed(self, connection: Connection, reason: CloseReason | None) -> None:
        """The socket is gone."""
        self._counters.connections_closed += 1
        self._open.pop(connection, None)
        for forget in self.on_closed:
            forget(connection)
        if connection.ctx is not None:
            channel = connection.ctx.channel
            self._timeouts.forget(channel)
            self._closed_bytes[0] += channel.bytes_received
            self._closed_bytes[1] += channel.bytes_sent
            recorded = channel.recorded
            if isinstance(recorded, Recorded):
                channel.recorded = None
                refused = None if connection.connect is None else connection.connect.client_id
                end = "connection_lost" if reason is None else end_with(reason.name.lower(), reason.detail)
                self._recorder.ended(recorded, end, refused, channel.peer)
        if reason is not None and reason.name in FAULTS:
            self._counters.errors[reason.name.upper()] += 1
            if reason.name in TURNED_AWAY:
                logger.info("turned away: %s", reason.detail, extra=connection.who() | {"reason": reason.name.upper()})
            elif reason.name in CUT_OFF:
                logger.warning("cut off: %s", reason.detail, extra=connection.who() | {"reason": reason.name.upper()})
        if reason is None:
            self._detach(connection, "connection_lost")
            return
        if connection.connect is None and self._attempts.unnamed(connection, reason.name.lower(), reason.detail):
            self._counters.connects_refused[reason.name.upper()] += 1
        self._detach(connection, reason.name.lower(), reason.detail)

    def _detach(self, connection: Connection, reason: str, detail: str = "") -> None:
        session = connection.session
        if session is None or session.connection is not connection:
            return
        self.clients -= 1
        owner = _owner(connection)
        left = self.by_owner[owner] - 1
        if left:
            self.by_owner[owner] = left
        else:
            del self.by_owner[owner]
        self._counters.disconnects[reason] += 1
        self._events.note(CLIENT_DISCONNECTED, WHO_LEFT, (*connection.whose(), reason, end_text(reason, detail)))
        self.detach(session, connection, reason)
        self._accompaniment.by.client_left(connection)
        if session.ended:
            self._attempts.ended(session.client_id, session.user, reason, connection, detail)
        else:
            self._attempts.left(session.client_id, session.user, reason, connection, detail)
        self._turn.plan_if_unsettled()

    def count_bytes(self) -> None:
        """Bring the byte counters up to date; they are kept by the channels while those live."""
        received, sent = self._closed_bytes
        for connection in self._open:
            if connection.ctx is not None:
                received += connection.ctx.channel.bytes_received
                sent += connection.ctx.channel.bytes_sent
        self._counters.bytes_received, self._counters.bytes_sent = received, sent

    # What goes wrong.

    def note_error(self, connection: Connection, error: MqttError) -> None:
        """A client broke a rule, or was not let in: one line, no traceback, no payload. The two kinds of lines are
        thinned out apart from each other, so that a flood of one does not hide the other.
        """
        logger.info(
            "connection closed: %s" if connection.session is not None else "connection refused: %s",
            error.detail,
            extra=connection.who() | {"reason": error.reason.name},
        )

    def report(self, error: BaseException) -> None:
        """A fault of ours, with its traceback."""
        logger.error("unexpected error while serving a connection", exc_info=error)


def _owner(connection: Connection) -> str:
    """Its identity, which never changes once a session has it."""
    return "" if connection.principal is None else connection.principal.owner
