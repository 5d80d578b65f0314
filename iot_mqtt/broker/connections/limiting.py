"""What clients may use up, by who they are: found at CONNECT, found again when something else is said of them.

::

    CONNECT   begin      who the client is, is known: its allowance
              require    has its user too many connections or sessions already?          0x97
              attached   the session's queue
    changed              every connection again, some of them a turn

What a client was told in CONNACK is kept to until the next one: its session's expiry and its own receive maximum. Who
is there stays, also where there are too many now.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from iot_mqtt.broker.allowance import Allowance, allowance_of
from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.registry import Connections
from iot_mqtt.broker.connections.traffic import Traffic
from iot_mqtt.broker.driving import breath, done, drive
from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.publishing.retained_use import RetainedUse
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.owners import whose
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.pipeline import OutboxSettings
from iot_mqtt.ports.access import Denied, Principal, user_of
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.limits import Limits

logger = logging.getLogger(__name__)

#: Connections that are asked again before others get their turn.
AT_ONCE = 200
#: What stands for the Receive Maximum of a client that names none.
ABSENT_RECEIVE_MAXIMUM = 65_535


class Limiting:
    """Of all clients of a node. ``limits``: what is said of a client now; None: nothing."""

    __slots__ = (
        "elsewhere",
        "_settings",
        "_usual",
        "_outbox",
        "_limits",
        "_connections",
        "_sessions",
        "_counters",
        "_traffic",
        "_retained",
        "_call_soon",
        "_stale",
        "_looking",
        "_everybody",
    )

    def __init__(
        self,
        settings: MqttSettings,
        usual: Allowance,
        limits: Callable[[Principal], Limits | None],
        connections: Connections,
        sessions: Sessions,
        counters: Counters,
        traffic: Traffic,
        retained: RetainedUse,
        call_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self._settings = settings
        self._usual = usual
        of_applications = settings.application
        self._outbox = OutboxSettings(
            of_applications.outbox_high, of_applications.outbox_low, of_applications.outbox_limit
        )
        self._limits = limits
        self._connections = connections
        self._sessions = sessions
        self._counters = counters
        self._traffic = traffic
        self._retained = retained
        self._call_soon = call_soon
        #: User → connections and sessions at other nodes, as they were last heard of.
        self.elsewhere: Callable[[str], tuple[int, int]] = lambda _: (0, 0)
        self._stale = self._looking = self._everybody = False

    def begin(self, connection: Connection, principal: Principal, client_id: str) -> None:
        """It is known who the client of a connection is, and what it will be called."""
        who = principal if principal.client_id == client_id else principal._replace(client_id=client_id)
        limits = self._limits(who)
        if limits is not None:
            connection.allowance = allowance_of(self._settings, limits)
        if limits is not None or self._traffic.for_all:
            self._traffic.lead(connection, principal.owner, client_id, connection.allowance.limits)
        if limits is not None or principal.owner in self._retained.limits:
            self._retained.limit(principal.owner, connection.allowance.limits)

    def publishes(self, user: str) -> None:
        """Somebody does in a user's name: know what he may retain. Of a user with a connection that is known."""
        if user in self._connections.by_owner:
            return
        limits = self._limits(Principal("", user))
        if limits is not None or user in self._retained.limits:
            allowance = self._usual if limits is None else allowance_of(self._settings, limits)
            self._retained.limit(user, allowance.limits)

    def require(self, connection: Connection, before: Session | None) -> None:
        """Refuse a client whose user has as much as it may; ``before``: the session that it will have, or take."""
        owner = "" if connection.principal is None else connection.principal.owner
        reached = self._reached(connection.allowance.limits, owner, before)
        if reached is not None:
            raise self._refusal(connection, *reached)

    def refusal(self, who: Principal, before: Session | None) -> Denied | None:
        """The same of a client that does not come: what it would be told."""
        limits = self._limits(who)
        reached = None if limits is None else self._reached(limits, who.owner, before)
        return None if reached is None else Denied(ReasonCode.QUOTA_EXCEEDED, _text(*reached))

    def _reached(self, limits: Limits, owner: str, before: Session | None) -> tuple[str, int] | None:
        """Of what the user has as much as he may, and how much that is."""
        if limits.connections is None and limits.sessions is None:
            return None
        connections, sessions = self.elsewhere(owner)
        connections += self._connections.by_owner.get(owner, 0)
        sessions += self._sessions.by_owner.get(owner, 0)
        if before is not None and before.owner is not None and user_of(before.owner) == owner:
            # It comes in this one's place.
            connections -= before.connection is not None
            sessions -= 1
        if limits.connections is not None and connections >= limits.connections:
            return "connections", limits.connections
        if limits.sessions is not None and sessions >= limits.sessions:
            return "sessions", limits.sessions
        return None

    def _refusal(self, connection: Connection, what: str, most: int) -> Refused:
        self._counters.limited[what] += 1
        client_id = None if connection.connect is None else connection.connect.client_id
        extra = whose(connection, client_id) | {"limit": what, "most": most}
        logger.warning("a client was refused: its user has as much as it may", extra=extra)
        return Refused(_text(what, most), ReasonCode.QUOTA_EXCEEDED)

    def attached(self, connection: Connection, session: Session) -> None:
        """A session has its connection."""
        allowance = connection.allowance
        session.queue.max_messages, session.queue.max_bytes = allowance.queue_messages, allowance.queue_bytes
        if connection.ctx is not None and (allowance.application or allowance is not connection.serving.allowance):
            channel = connection.ctx.channel
            channel.outbox.bound(self._outbox if allowance.application else channel.settings.outbox)

    def forget(self, connection: Connection) -> None:
        """The connection is gone."""
        if connection.flow is not None:
            self._traffic.end(connection)

    # While clients are in.

    def usual_changed(self) -> None:
        """Something else holds for everybody of whom nothing is said; the usual allowance has it already."""
        self._everybody = True
        self.changed()

    def changed(self) -> None:
        """Something else is said of somebody."""
        self._stale = True
        if not self._looking:
            self._looking = True
            drive(self._look_again(), done, self._failed)

    async def _look_again(self) -> None:
        while self._stale:
            self._stale, everybody, self._everybody = False, self._everybody, False
            for count, connection in enumerate(list(self._connections), 1):
                self._renew(connection, everybody=everybody)
                if count % AT_ONCE == 0:
                    await breath(self._call_soon)
        self._looking = False

    def _failed(self, error: BaseException) -> None:
        self._looking = False
        logger.error("limits could not be asked again", exc_info=error)

    def _renew(self, connection: Connection, *, everybody: bool) -> None:
        session, principal, connect = connection.session, connection.principal, connection.connect
        if session is None or principal is None or connect is None or session.connection is not connection:
            return
        limits = self._limits(principal._replace(client_id=session.client_id))
        allowance = self._usual if limits is None else allowance_of(self._settings, limits)
        if allowance == connection.allowance and not everybody:
            return
        connection.allowance = allowance
        self._traffic.lead(connection, principal.owner, session.client_id, allowance.limits)
        self._retained.limit(principal.owner, allowance.limits)
        self.attached(connection, session)
        if isinstance(session, KeptSession):
            session.application = allowance.application
        if not connection.connecting:
            window = connect.properties.receive_maximum or ABSENT_RECEIVE_MAXIMUM
            session.outbound.limit = min(window, allowance.max_inflight)
            connection.serving.inbound.pump(session)


def _text(what: str, most: int) -> str:
    return f"this user may have {most} {what}"
