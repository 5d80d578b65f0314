"""Whose a session is: the user who began it has it, and a client id is a name, not a key.

A session belongs to ``Principal.identity`` of the client that began it, "" for anonymous ones, and keeps that owner as
long as it lives. A record from before there were owners says None: the first user who is let in with that id adopts the
session, because what was acknowledged for it must not be lost by an upgrade.

Whoever else asks is refused before anything is done: the connection that is there, what waits, and the will stay as
they are. Where the settings say so, the session ends instead, by the rules of a clean start; but nobody takes the name
of a gateway that is connected, and no gateway the session of another user.

A user who was deleted is another one than the user who has his name now. His sessions end when the new one asks for
them, as by a clean start.
"""

from __future__ import annotations

import logging

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.session import ClientConnection, Session
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.access import Action, generation_of, user_of
from iot_mqtt.ports.counters import Counters

logger = logging.getLogger(__name__)

#: One sentence for every reason: who is refused learns nothing of whose the name is, or whether it is in use.
_REFUSAL = "not allowed to use this client id"


class Owners:
    """Who may open which session of this node."""

    __slots__ = ("_sessions", "_counters", "_clean")

    def __init__(self, sessions: Sessions, counters: Counters, *, clean: bool) -> None:
        """``clean``: whoever asks for another's session ends it and begins with nothing."""
        self._sessions = sessions
        self._counters = counters
        self._clean = clean

    def check_name(self, connection: ClientConnection, client_id: str) -> None:
        """Raise ``Refused`` unless this client may use the id that it brought, or the name of its gateway."""
        if not may_be_called(connection, client_id):
            self._deny(connection, client_id, _asked(connection).value)
            raise self._refusal(connection, client_id, "a name was asked for that the rules do not give to this user")

    def yields(self, client_id: str, owner: str) -> bool:
        """Whether the session of this id may go to a client of this owner, here or on another node."""
        session = self._sessions.get(client_id)
        return session is None or not is_foreign(session, owner) or self._may_end(session) or is_left(session, owner)

    def check(self, connection: ClientConnection, client_id: str) -> bool:
        """Whether the client must begin with nothing, because the session that is there is another's; ``Refused``."""
        session = self._sessions.get(client_id)
        owner = owner_of(connection)
        if session is None or not is_foreign(session, owner):
            return False
        if is_left(session, owner):
            logger.warning("the session of a user who was deleted ends", extra=whose(connection, client_id))
            return True
        if connection.patient or not self._may_end(session):
            raise self.refusal(connection, client_id)
        logger.warning("the session of another user ends", extra=whose(connection, client_id))
        return True

    def _may_end(self, session: Session) -> bool:
        """Whether it may end for another user; that of a gateway that is connected never does."""
        return self._clean and not (session.connection is not None and session.connection.patient)

    def refusal(self, connection: ClientConnection, client_id: str) -> Refused:
        """What a client is told that asked for another's session; it is counted and logged."""
        self._deny(connection, client_id, "session")
        return self._refusal(connection, client_id, "the session of another user was asked for")

    def _deny(self, connection: ClientConnection, client_id: str, what: str) -> None:
        self._counters.denied[what] += 1
        asked = whose(connection, client_id)
        user = "nobody in particular" if asked["user"] is None else f"user {asked['user']}"
        self._counters.recent.note(client_id, f"denied_{what}", detail=f"{user}, from {asked['peer']}")

    def _refusal(self, connection: ClientConnection, client_id: str, what: str) -> Refused:
        logger.warning(what, extra=whose(connection, client_id))
        return Refused(_REFUSAL, ReasonCode.NOT_AUTHORIZED)


def may_be_called(connection: ClientConnection, client_id: str) -> bool:
    """Whether the rules give this name to the client of a connection; its rights are known."""
    permissions = connection.permissions
    assert permissions is not None
    return permissions.unrestricted or permissions.allows(_asked(connection), client_id)


def _asked(connection: ClientConnection) -> Action:
    return Action.GATEWAY if connection.patient else Action.CLIENT


def owner_of(connection: ClientConnection) -> str:
    """Who the client of a connection is, as an owner; its rights are known."""
    assert connection.principal is not None
    return connection.principal.identity


def is_foreign(session: Session, owner: str) -> bool:
    """Whether a session is somebody else's."""
    return session.owner is not None and session.owner != owner


def is_left(session: Session, owner: str) -> bool:
    """Whether a session is of a user who was deleted, and this owner has his name now."""
    known = session.owner
    return known is not None and user_of(known) == user_of(owner) and generation_of(known) < generation_of(owner)


def adopt(sessions: Sessions, session: Session, owner: str) -> None:
    """A session gets the client that may have it: what is new, or was nobody's, is its own from now on."""
    if session.owner is None and isinstance(session, KeptSession) and session.epoch:
        logger.info(
            "a session without an owner is adopted", extra={"client": session.client_id, "user": user_of(owner) or None}
        )
    sessions.own(session, owner)


def whose(connection: ClientConnection, client_id: str | None) -> dict[str, object]:
    """Who asked for which name, for the log: the user is a verified one."""
    peer = connection.ctx.channel.peer if connection.ctx is not None else "?"
    return {"client": client_id, "user": user_of(owner_of(connection)) or None, "peer": peer}
