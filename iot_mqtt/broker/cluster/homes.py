"""Which node a session lives on: here after a claim, elsewhere after a release.

    CONNECT ─▶ claim ─▶ (its home lets go of it, or is fenced) ─▶ load what is kept ─▶ open, as on one node
    release ─▶ close its connection ─▶ commit everything ─▶ forget it in memory

A client whose session is here is served without asking anybody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.connections.access import guarded
from iot_mqtt.broker.driving import RETRY_SECONDS, drive
from iot_mqtt.broker.sessions.loading import load, load_session
from iot_mqtt.broker.sessions.owners import owner_of
from iot_mqtt.broker.shared_groups import writer_at_home
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.cluster import Claim

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.cluster.interest import OwnInterest
    from iot_mqtt.broker.connections.connection import Connection
    from iot_mqtt.broker.session import Session
    from iot_mqtt.broker.shared_groups import Leadership
    from iot_mqtt.ports.cluster import Peers

log = logging.getLogger(__name__)

#: Connections that may wait for one claim: each takes the client over from the one before.
MAX_WAITING = 16


class Homes:
    """The sessions whose home is this node."""

    def __init__(self, broker: Broker, peers: Peers, interest: OwnInterest, groups: Leadership) -> None:
        self._broker = broker
        self._peers = peers
        self._interest = interest
        self._groups = groups
        self._claiming: dict[str, list[tuple[Connection, Callable[[], None]]]] = {}
        #: Clients whose sessions left the memory, and the batch that has everything of it; oldest first.
        self._leaving: dict[str, int] = {}
        #: Clients of whom nothing is kept, and the batch that has their end; oldest first.
        self._gone: dict[str, int] = {}
        self._letting_go = False
        #: The client that is being released.
        self._releasing: set[str] = set()

    # Towards here.

    def claim(self, connection: Connection, client_id: str, opened: Callable[[], None]) -> None:
        """Call ``opened`` once the client's home is here; the connection holds what comes meanwhile."""
        waiting = self._claiming.get(client_id)
        if waiting is not None:
            # Counted for each owner: nobody keeps another out by asking for his id.
            if sum(owner_of(other) == owner_of(connection) for other, _ in waiting) >= MAX_WAITING:
                raise Refused("too many connections with this client id at once", ReasonCode.SERVER_BUSY)
            waiting.append((connection, opened))
        elif self._broker.sessions.get(client_id) is not None:
            opened()
        else:
            self._claiming[client_id] = [(connection, opened)]
            if client_id in self._leaving:
                # What the grid has of it is old, until what is staged is there.
                drive(self._broker.store.settled(), partial(self._ask, client_id), partial(self._failed, client_id))
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
            drive(
                load_session(self._broker, client_id, inherited=claim is Claim.INHERITED),
                partial(self._loaded, client_id),
                partial(self._failed, client_id),
            )

    def _ask_for_others(self, client_id: str, owner: str) -> None:
        """It was not for this owner: whoever else waits for the id may have it."""
        waiting = self._claiming.pop(client_id)
        others = [entry for entry in waiting if owner_of(entry[0]) != owner and not entry[0].closed]
        if others:
            self._claiming[client_id] = others
        for connection, _ in waiting:
            if not connection.closed and owner_of(connection) == owner:
                connection.fail(self._broker.owners.refusal(connection, client_id))
        if others:
            self._ask(client_id)

    def _loaded(self, client_id: str, session: Session | None) -> None:
        if session is not None:
            self._interest.settle(session)
            self._broker.turn.plan()
        self._open(client_id)

    def _failed(self, client_id: str, error: BaseException) -> None:
        log.error("a session cannot be loaded: %s", error, extra={"client": client_id})
        self._refuse(client_id, "its session cannot be read now")

    def _open(self, client_id: str) -> None:
        for connection, opened in self._claiming.pop(client_id):
            if not connection.closed:
                guarded(connection, lambda _, opened=opened: opened())(None)
        self._unless_used(client_id)

    def _refuse(self, client_id: str, why: str) -> None:
        for connection, _ in self._claiming.pop(client_id):
            if not connection.closed:
                connection.fail(Refused(why, ReasonCode.SERVER_UNAVAILABLE))

    def _unless_used(self, client_id: str) -> None:
        """The client went away before its session was opened, and nothing is kept for it."""
        if self._broker.sessions.get(client_id) is None:
            self.left(client_id)
            self._go(client_id)

    # Away from here.

    def left(self, client_id: str) -> None:
        """Its session is about to leave the memory; what is staged for that may be in the next batch."""
        self._leaving.pop(client_id, None)
        self._leaving[client_id] = self._broker.store.latest + 1

    def _go(self, client_id: str) -> None:
        self._gone.pop(client_id, None)
        self._gone[client_id] = self._broker.turn.reserve()

    def ended(self, client_id: str) -> None:
        """Its session has ended here, and nobody is its home any more: unless the next one begins with this CONNECT, or
        another node is waiting to take the record over.
        """
        self.left(client_id)
        if client_id not in self._releasing and client_id != self._broker.sessions.opening:
            self._go(client_id)

    def _is_unused(self, client_id: str) -> bool:
        return self._broker.sessions.get(client_id) is None and client_id not in self._claiming

    def committed(self, committed: int) -> None:
        """A commit is over: what is gone of clients is gone for good, and their records can go, too."""
        self._let_go()
        leaving = self._leaving
        while leaving:
            client_id = next(iter(leaving))
            if leaving[client_id] > committed:
                break
            del leaving[client_id]

    def _let_go(self) -> None:
        """One at a time, so that commits are not held up when many clients end at once. Not with the batch that has
        their end: when a batch is repeated because its answer was lost, another node may have the client by then.
        """
        committed = self._broker.store.committed
        while not self._letting_go and self._gone:
            client_id, ticket = next(iter(self._gone.items()))
            if ticket > committed:
                return
            del self._gone[client_id]
            if self._is_unused(client_id):
                self._letting_go = True
                going = self._peers.let_go(client_id, partial(self._is_unused, client_id))
                drive(going, self._went, partial(self._did_not_go, client_id))

    def _went(self, _: None) -> None:
        self._letting_go = False
        self._broker.turn.call_soon(self._let_go)

    def _did_not_go(self, client_id: str, error: BaseException) -> None:
        """Later: until then others ask this node, or its successor cleans up."""
        log.info("a client's home cannot be given up yet: %s", error, extra={"client": client_id})
        self._gone[client_id] = self._broker.store.latest
        self._broker.clock.call_later(RETRY_SECONDS, partial(self._went, None))

    def release(self, client_id: str, done: Callable[[bool], None]) -> None:
        """See ``ports.cluster.Node``."""
        broker = self._broker
        writer = writer_at_home(client_id)
        if writer is not None:
            self._groups.release(writer, done)
            return
        if client_id in self._claiming:
            done(False)  # noqa: FBT003 - the signature of the port
            return
        self._releasing.add(client_id)
        session = broker.sessions.get(client_id)
        if session is not None and session.connection is not None:
            # [MQTT-3.1.4-3] the newcomer wins, wherever it is.
            session.connection.disconnect(ReasonCode.SESSION_TAKEN_OVER, "the client has connected to another node")
            session = broker.sessions.get(client_id)
        if session is not None and session.durable:
            self.left(client_id)
            self._interest.moved_away(session)
            broker.sessions.hand_over(session)
        elif session is not None:
            # It is kept nowhere: it ends with its home.
            broker.sessions.end(session, ReasonCode.SESSION_TAKEN_OVER)
        self._releasing.discard(client_id)
        broker.turn.plan()
        drive(broker.store.settled(), lambda _: done(True), lambda _: done(False))  # noqa: FBT003 - the port says so

    def begin(self, clients: Collection[str]) -> None:
        """The sessions that were at home here have been loaded."""
        self._settle(clients)
        self._interest.loaded()
        for writer in _writers(clients):
            self._groups.take_on(writer)

    def adopt(self, clients: Collection[str], done: Callable[[bool], None]) -> None:
        """See ``ports.cluster.Node``."""
        wanted = clients if isinstance(clients, (set, frozenset)) else frozenset(clients)
        drive(
            self._adopt(wanted),
            partial(self._adopted, wanted, done),
            partial(self._not_adopted, done),
        )

    async def _adopt(self, clients: Collection[str]) -> None:
        await load(self._broker, clients.__contains__)
        for writer in _writers(clients):
            await self._groups.take(writer)

    def _adopted(self, clients: Collection[str], done: Callable[[bool], None], _: None) -> None:
        self._settle(clients)
        done(True)  # noqa: FBT003 - the signature of the port

    def _settle(self, clients: Collection[str]) -> None:
        sessions = self._broker.sessions
        for client_id in clients:
            session = sessions.get(client_id)
            if session is not None:
                self._interest.settle(session)
            elif client_id not in self._claiming and writer_at_home(client_id) is None:
                self._unless_used(client_id)
        self._broker.turn.plan()

    def _not_adopted(self, done: Callable[[bool], None], error: BaseException) -> None:
        log.error("the sessions of a dead node cannot be loaded: %s", error)
        done(False)  # noqa: FBT003 - the signature of the port


def _writers(clients: Collection[str]) -> list[int]:
    """Whose log's groups are among what has its home here."""
    return [writer for writer in map(writer_at_home, clients) if writer is not None]
