"""Clients whose sessions are not in the memory of this node any more, until that is committed.

Who goes on at another node must not be read from the grid before all of it is there. Of whom nothing is kept, this node
is the home no more: that record goes, too, once the end of the session is committed.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from functools import partial

from iot_mqtt.broker.driving import RETRY_SECONDS, drive
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.turn import Turn
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Peers
from iot_mqtt.ports.store import Store

log = logging.getLogger(__name__)


class Departed:
    """Of one node."""

    def __init__(self, peers: Peers, sessions: Sessions, store: Store, turn: Turn, clock: Clock) -> None:
        self._peers = peers
        self._sessions = sessions
        self._store = store
        self._turn = turn
        self._clock = clock
        #: Clients that somebody waits for here, and those that another node is getting.
        self.claimed: set[str] = set()
        self.releasing: set[str] = set()
        #: Clients whose sessions left the memory, and the batch that has everything of it; oldest first.
        self._leaving: OrderedDict[str, int] = OrderedDict()
        #: Clients of whom nothing is kept, and the batch that has their end; oldest first.
        self._gone: OrderedDict[str, int] = OrderedDict()
        self._letting_go = False

    def is_leaving(self, client_id: str) -> bool:
        """What the grid has of it is old, until what is staged is there."""
        return client_id in self._leaving

    async def settled(self) -> None:
        """What is staged by now is in the grid."""
        await self._turn.settled()

    def left(self, client_id: str) -> None:
        """Its session is about to leave the memory; what is staged for that may be in the next batch."""
        self._leaving[client_id] = self._store.latest + 1
        self._leaving.move_to_end(client_id)

    def ended(self, client_id: str) -> None:
        """Its session has ended here, and nobody is its home any more: unless the next one begins with this CONNECT, or
        another node is waiting to take the record over.
        """
        self.left(client_id)
        if client_id not in self.releasing and client_id != self._sessions.opening:
            self._go(client_id)

    def unless_used(self, client_id: str) -> None:
        """The client went away before its session was opened, and nothing is kept for it."""
        if self._sessions.get(client_id) is None:
            self.left(client_id)
            self._go(client_id)

    def _go(self, client_id: str) -> None:
        self._gone[client_id] = self._turn.reserve()
        self._gone.move_to_end(client_id)

    def _is_unused(self, client_id: str) -> bool:
        return self._sessions.get(client_id) is None and client_id not in self.claimed

    def committed(self) -> None:
        """A commit is over: what is gone of clients is gone for good, and their records can go, too."""
        self._let_go()
        leaving, committed = self._leaving, self._store.committed
        while leaving:
            client_id = next(iter(leaving))
            if leaving[client_id] > committed:
                break
            del leaving[client_id]

    def _let_go(self) -> None:
        """One at a time, so that commits are not held up when many clients end at once. Not with the batch that has
        their end: when a batch is repeated because its answer was lost, another node may have the client by then.
        """
        committed = self._store.committed
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
        self._turn.call_soon(self._let_go)

    def _did_not_go(self, client_id: str, error: BaseException) -> None:
        """Later: until then others ask this node, or its successor cleans up."""
        log.info("a client's home cannot be given up yet: %s", error, extra={"client": client_id})
        self._gone[client_id] = self._store.latest
        self._clock.call_later(RETRY_SECONDS, partial(self._went, None))
