"""Rights that change while clients are in: what was allowed by rights that are gone is taken back.

::

    a file changed ─▶ changed    users who are gone are disconnected, everybody else's subscriptions are asked again
    a user changed ─▶ renamed    clients whose ids are not their user's any more are disconnected
    CONNECT        ─▶ recheck    the subscriptions of a session that is resumed, before anything is sent
    a will is due  ─▶ of         its topic, when it is published

A subscription that is not allowed any more is withdrawn as a whole. Its client is not told, except if it is a member of
a shared subscription: it is disconnected, so that what it has and did not confirm goes to other members. What waits for
a session, withdrawn or not, is asked for each message when it is the next to be sent (``Connection.may_receive``). A
client whose name is not its user's any more is disconnected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

from iot_mqtt.broker.driving import breath, done, drive
from iot_mqtt.broker.session import ClientConnection, Session
from iot_mqtt.broker.sessions.owners import may_be_called, whose
from iot_mqtt.broker.turn import Turn
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import Action, Authorizer, Permissions, principal_of
from iot_mqtt.ports.counters import Counters
from iot_mqtt.topics import parse_replay, parse_shared
from iot_mqtt.values import Standing

logger = logging.getLogger(__name__)

#: Connections that are asked again before others get their turn.
AT_ONCE = 200


class Rights:
    """The rights of this node's clients."""

    __slots__ = ("_connections", "_authorizer", "_withdraw", "_counters", "_turn", "_stale", "_checking")

    def __init__(
        self,
        connections: Iterable[ClientConnection],
        authorizer: Authorizer,
        withdraw: Callable[[Session, str], object],
        counters: Counters,
        turn: Turn,
    ) -> None:
        """``connections``: those that there are, whenever it is asked; ``withdraw`` takes a session's subscription."""
        self._connections = connections
        self._authorizer = authorizer
        self._withdraw = withdraw
        self._counters = counters
        self._turn = turn
        #: Something has changed since the last round over all connections began.
        self._stale = False
        self._checking = False

    def changed(self, gone: Collection[str]) -> None:
        """Users or rules are others now; ``gone``: users who were deleted or disabled."""
        for connection in list(self._connections) if gone else ():
            principal = connection.principal
            if principal is not None and principal.owner in gone and not connection.closed:
                _log("a client was disconnected: its user was deleted or disabled", connection)
                connection.disconnect(ReasonCode.NOT_AUTHORIZED, "this user may not connect any more")
        self._stale = True
        if not self._checking:
            self._checking = True
            drive(self._recheck_all(), done, self._failed)

    def renamed(self, users: Collection[str], may_be: Callable[[str, str], bool]) -> None:
        """These users may have other client ids now; ``may_be`` says of a user and an id whether he may have it."""
        for connection in list(self._connections):
            principal, connect = connection.principal, connection.connect
            # An id that the broker gave is free.
            if principal is None or principal.owner not in users or connect is None or not connect.client_id:
                continue
            if not connection.closed and not may_be(principal.owner, connect.client_id):
                _not_its_name(connection)

    async def _recheck_all(self) -> None:
        while self._stale:
            self._stale = False
            for count, connection in enumerate(list(self._connections), 1):
                self.recheck(connection)
                if count % AT_ONCE == 0:
                    await breath(self._turn.call_soon)
        self._checking = False

    def _failed(self, error: BaseException) -> None:
        self._checking = False
        logger.error("rights could not be asked again", exc_info=error)

    def recheck(self, connection: ClientConnection) -> None:
        """Withdraw what the client of a connection is subscribed to and may not be any more."""
        session, permissions = connection.session, connection.permissions
        if session is None or session.connection is not connection or permissions is None:
            return
        if permissions.unrestricted or connection.rights_version == permissions.version:
            return
        connection.rights_version = permissions.version
        if _brought_its_name(connection) and not may_be_called(connection, session.client_id):
            _not_its_name(connection)
            return
        lost = [filter for filter in session.subscriptions if not _may_subscribe(permissions, filter)]
        for filter in lost:
            session.deny(self._counters, "withdrawn", filter)
            _log("a subscription was withdrawn: its right is gone", connection, filter=filter)
        if any(map(parse_shared, lost)) and not connection.connecting:
            connection.disconnect(ReasonCode.NOT_AUTHORIZED, "a shared subscription is not allowed any more")
        for filter in lost:
            if not session.ended:
                self._withdraw(session, filter)
        if lost:
            self._turn.plan()

    def of(
        self,
        session: Session,
        standing: Standing,
        then: Callable[[Permissions], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Call ``then`` with the rights that a session's owner has now, connected or not."""
        principal = principal_of(session.client_id, session.owner or "", standing)
        drive(self._authorizer.permissions(principal), then, failed)


def _brought_its_name(connection: ClientConnection) -> bool:
    """Whether its name is to be asked for again: CONNECT asks for itself, and an id that the broker gave is free."""
    return connection.connect is not None and bool(connection.connect.client_id) and not connection.connecting


def _not_its_name(connection: ClientConnection) -> None:
    _log("a client was disconnected: its name is not given to its user any more", connection)
    connection.disconnect(ReasonCode.NOT_AUTHORIZED, "this client id is not allowed any more")


def _may_subscribe(permissions: Permissions, filter: str) -> bool:
    if not permissions.allows(Action.SUBSCRIBE, filter):
        return False
    return parse_replay(filter) is None or permissions.allows(Action.REPLAY, filter)


def _log(what: str, connection: ClientConnection, **more: object) -> None:
    client_id = None if connection.session is None else connection.session.client_id
    logger.warning(what, extra=whose(connection, client_id) | more)
