"""The sessions that come to be at home here, because their client is here or their node is dead."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial

from iot_mqtt.broker.cluster.departed import Departed
from iot_mqtt.broker.cluster.interest import OwnInterest
from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.loading import Loading
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.shared_groups import Leadership, writer_at_home
from iot_mqtt.broker.turn import Turn

log = logging.getLogger(__name__)


class Homes:
    """The sessions whose home is this node."""

    def __init__(
        self,
        sessions: Sessions,
        interest: OwnInterest,
        groups: Leadership,
        departed: Departed,
        loading: Loading,
        turn: Turn,
    ) -> None:
        self._sessions = sessions
        self._interest = interest
        self._groups = groups
        self._departed = departed
        self._loading = loading
        self._turn = turn

    async def load(self, client_id: str, *, inherited: bool) -> Session | None:
        """This node is a client's home from now on: what is kept for it is here when this returns."""
        session = await self._loading.load_session(client_id, inherited=inherited)
        if session is not None:
            self._interest.settle(session)
            self._turn.plan()
        return session

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
        await self._loading.load(clients.__contains__)
        for writer in _writers(clients):
            await self._groups.take(writer)

    def _adopted(self, clients: Collection[str], done: Callable[[bool], None], _: None) -> None:
        self._settle(clients)
        done(True)  # noqa: FBT003 - the signature of the port

    def _settle(self, clients: Collection[str]) -> None:
        for client_id in clients:
            session = self._sessions.get(client_id)
            if session is not None:
                self._interest.settle(session)
            elif client_id not in self._departed.claimed and writer_at_home(client_id) is None:
                self._departed.unless_used(client_id)
        self._turn.plan()

    def _not_adopted(self, done: Callable[[bool], None], error: BaseException) -> None:
        log.error("the sessions of a dead node cannot be loaded: %s", error)
        done(False)  # noqa: FBT003 - the signature of the port


def _writers(clients: Collection[str]) -> list[int]:
    """Whose log's groups are among what has its home here."""
    return [writer for writer in map(writer_at_home, clients) if writer is not None]
