"""A client that may have its session gets it, at home here, and is answered once that is safe."""

from __future__ import annotations

from functools import partial

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.limiting import Limiting
from iot_mqtt.broker.connections.registry import Connections
from iot_mqtt.broker.connections.welcome import Welcome
from iot_mqtt.broker.sessions.attaching import Attaching
from iot_mqtt.broker.sessions.owners import Owners
from iot_mqtt.broker.sessions.rights import Rights
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.sessions.wills import Wills
from iot_mqtt.values import Will


class Opening:
    """Opens sessions."""

    __slots__ = ("_sessions", "_attaching", "_owners", "_limiting", "_rights", "_wills", "_connections", "_welcome")

    def __init__(
        self,
        sessions: Sessions,
        attaching: Attaching,
        owners: Owners,
        limiting: Limiting,
        rights: Rights,
        wills: Wills,
        connections: Connections,
        welcome: Welcome,
    ) -> None:
        self._sessions = sessions
        self._attaching = attaching
        self._owners = owners
        self._limiting = limiting
        self._rights = rights
        self._wills = wills
        self._connections = connections
        self._welcome = welcome

    def open(self, connection: Connection, will: Will | None, assigned: str | None, data: bytes | None) -> None:
        """Give a connection its session; see ``handlers.connect`` for the whole list."""
        connect = connection.connect
        assert connect is not None and connection.permissions is not None
        client_id = assigned or connect.client_id
        self._sessions.require_room(connect, client_id, connection.allowance.session_expiry)
        before = self._sessions.get(client_id)
        foreign = before is not None and self._owners.check(connection, client_id)
        self._limiting.require(connection, before)
        replaces = before is not None and before.durable
        connection.connected_at = connection.output.clock.wall()
        session, present = self._attaching.open(connection, connect, client_id, anew=foreign)
        connection.session = session
        self._limiting.attached(connection, session)
        if not connection.permissions.unrestricted:
            self._rights.recheck(connection)
            connection.begin_verdicts()
        self._connections.connected(connection)
        self._wills.set(session, will)
        welcome = self._welcome.welcome
        if session.durable or replaces or will is not None:
            # What CONNACK says of the session must be true after a crash as well.
            connection.after_commit(partial(welcome, connection, session, present, assigned, data))
        else:
            welcome(connection, session, present, assigned, data)
