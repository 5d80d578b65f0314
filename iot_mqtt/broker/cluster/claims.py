"""A client that connects here, and whose session may be at home on another node: claimed before it is served.

    CONNECT ─▶ claim ─▶ (its home lets go of it, or is fenced) ─▶ load what is kept ─▶ open, as on one node

A client whose session is here is served without asking anybody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from iot_mqtt.broker.cluster.departed import Departed
from iot_mqtt.broker.cluster.homes import Homes
from iot_mqtt.broker.connections.access import guarded
from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.owners import Owners, owner_of
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.cluster import Claim, Peers

log = logging.getLogger(__name__)

#: Connections that may wait for one claim: each takes the client over from the one before.
MAX_WAITING = 16


class Claims:
    """The clients that are on their way here."""

    def __init__(self, peers: Peers, sessions: Sessions, owners: Owners, departed: Departed, homes: Homes) -> None:
        self._peers = peers
        self._sessions = sessions
        self._owners = owners
        self._departed = departed
        self._homes = homes
        self._claiming: dict[str, list[tuple[Connection, Callable[[], None]]]] = {}

    def claim(self, connection: Connection, client_id: str, opened: Callable[[], None]) -> None:
        """Call ``opened`` once the client's home is here; the connection holds what comes meanwhile."""
        waiting = self._claiming.get(client_id)
        if waiting is not None:
            # Counted for each owner: nobody keeps another out by asking for his id.
            if sum(owner_of(other) == owner_of(connection) for other, _ in waiting) >= MAX_WAITING:
                raise Refused("too many connections with this client id at once", ReasonCode.SERVER_BUSY)
            waiting.append((connection, opened))
        elif self._sessions.get(client_id) is not None:
            opened()
        else:
            self._claiming[client_id] = [(connection, opened)]
            self._departed.claimed.add(client_id)
            if self._departed.is_leaving(client_id):
                drive(self._departed.settled(), partial(self._ask, client_id), partial(self._failed, client_id))
            else:
                self._ask(client_id)

    def _ask(self, client_id: str, _: None = None) -> None:
        waiting = [connection for connection, _ in self._claiming[client_id]]
        owner = owner_of(next((one for one in waiting if not one.closed), waiting[0]))
        self._peers.claim(
            client_id, partial(self._claimed, client_id, owner), partial(self._is_wanted, client_id, owner), owner
        )

    def _is_wanted(self, client_id: str, owner: str) -> bool:
        return any(
            not connection.closed and owner_of(connection) == owner
            for connection, _ in self._claiming.get(client_id, ())
        )

    def _claimed(self, client_id: str, owner: str, claim: Claim, why: str) -> None:
        if claim is Claim.FOREIGN or (claim is Claim.REFUSED and not self._is_wanted(client_id, owner)):
            self._ask_for_others(client_id, owner)
        elif claim is Claim.REFUSED:
            self._refuse(client_id, why)
        elif claim is Claim.NEW:
            self._open(client_id)
        else:
            loading = self._load(client_id, inherited=claim is Claim.INHERITED)
            drive(loading, partial(self._loaded, client_id), partial(self._failed, client_id))

    async def _load(self, client_id: str, *, inherited: bool) -> Session | None:
        """What is kept of it; but for what has ended here while it was asked for, with the sessions of a dead node."""
        if self._departed.is_leaving(client_id):
            await self._departed.settled()
        return await self._homes.load(client_id, inherited=inherited)

    def _ask_for_others(self, client_id: str, owner: str) -> None:
        """It was not for this owner: whoever else waits for the id may have it."""
        waiting = self._taken(client_id)
        others = [entry for entry in waiting if owner_of(entry[0]) != owner and not entry[0].closed]
        if others:
            self._claiming[client_id] = others
            self._departed.claimed.add(client_id)
        for connection, _ in waiting:
            if not connection.closed and owner_of(connection) == owner:
                connection.fail(self._owners.refusal(connection, client_id))
        if others:
            self._ask(client_id)

    def _loaded(self, client_id: str, _: Session | None) -> None:
        self._open(client_id)

    def _failed(self, client_id: str, error: BaseException) -> None:
        log.error("a session cannot be loaded: %s", error, extra={"client": client_id})
        # The client is told to come again, and may not; what it has subscribed to is wanted all the same.
        self._peers.stray(client_id)
        self._refuse(client_id, "its session cannot be read now")

    def _open(self, client_id: str) -> None:
        for connection, opened in self._taken(client_id):
            if not connection.closed:
                guarded(connection, lambda _, opened=opened: opened())(None)
        self._departed.unless_used(client_id)

    def _refuse(self, client_id: str, why: str) -> None:
        for connection, _ in self._taken(client_id):
            if not connection.closed:
                connection.fail(Refused(why, ReasonCode.SERVER_UNAVAILABLE))

    def _taken(self, client_id: str) -> list[tuple[Connection, Callable[[], None]]]:
        """Who waited for it; nobody does any more."""
        self._departed.claimed.discard(client_id)
        return self._claiming.pop(client_id)
