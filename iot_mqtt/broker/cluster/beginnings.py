"""Where new subscriptions of durable sessions begin in the logs of other nodes: looked up before SUBACK is sent.

::

    SUBSCRIBE ─▶ cursors of other logs are held ─▶ which nodes were there ever, and where do their logs end? ─▶ claims
              ─▶ stored, cursors go on ─▶ everybody knows of it ─▶ SUBACK

A subscription owns nothing that was published before it. What is known here of another node's log does not say where
that is: its end is what the link has brought, and a node may have begun of which nobody here has heard. So the grid is
asked, once for all SUBSCRIBEs of a turn, and again for those that come meanwhile. Whatever is in a log behind the end
that is found was not acknowledged when SUBSCRIBE came; a log that is not found did not exist.

Until then the filter claims nothing there, and the session's cursors read what it is owed for its other filters.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from twisted.internet.defer import Deferred, gatherResults

from iot_mqtt.broker.cluster.other_logs import OtherLogs
from iot_mqtt.broker.driving import RETRY_SECONDS, drive
from iot_mqtt.broker.kept_session import Beginning, KeptSession
from iot_mqtt.broker.readers.elsewhere import Elsewhere
from iot_mqtt.broker.readers.progress import Progress
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.turn import Turn
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Peers
from iot_mqtt.ports.store import Store
from iot_mqtt.values import Subscription

log = logging.getLogger(__name__)

#: By session.
_Begun = dict[KeptSession, list[Beginning]]


class _Waiting(NamedTuple):
    """For whatever of the session began up to a number."""

    session: KeptSession
    number: int
    call: Callable[[], None]


class LogEnds:
    """Where the logs of all other nodes end, as the grid has them."""

    def __init__(self, peers: Peers, logs: OtherLogs, readers: Elsewhere) -> None:
        self._peers = peers
        self._logs = logs
        self._readers = readers
        #: Number → the boot at whose end its log was looked at: it does not grow before that node begins again.
        self._ended: dict[int, int] = {}

    async def look(self) -> dict[int, int]:
        """By number."""
        known = dict(await self._peers.numbers())
        found = await gatherResults(
            [Deferred.fromCoroutine(self._end(number, ended)) for number, ended in known.items()], consumeErrors=True
        )
        return dict(zip(known, found, strict=True))

    async def _end(self, number: int, ended: int | None) -> int:
        reader = await self._logs.open(number)
        if ended is None:
            return await reader.look()
        if self._ended.get(number) != ended:
            # Nobody will announce it.
            await reader.refresh()
            self._readers.grew(number)
            self._ended[number] = ended
        return reader.end


class Beginnings:
    """The subscriptions whose claims on other nodes' logs are not fixed yet."""

    def __init__(
        self,
        ends: LogEnds,
        remove: Callable[[Session, str], object],
        store: Store,
        progress: Progress,
        turn: Turn,
        clock: Clock,
    ) -> None:
        """``remove`` takes a subscription from a session."""
        self._ends = ends
        self._remove = remove
        self._store = store
        self._progress = progress
        self._turn = turn
        self._clock = clock
        self._number = 0
        self._sessions: dict[KeptSession, None] = {}
        self._waiting: list[_Waiting] = []
        self._looking = False

    def begin(self, session: KeptSession, subscription: Subscription) -> None:
        """A durable session has a plain subscription that it did not have."""
        if session.beginning is None:
            session.beginning = OrderedDict()
        self._number += 1
        session.beginning[subscription.filter] = (self._number, subscription)
        session.beginning.move_to_end(subscription.filter)
        for cursor in (session.elsewhere or {}).values():
            cursor.hold()
        self._sessions[session] = None
        self._turn.call_soon(self._look)

    def when_fixed(self, session: Session, call: Callable[[], None]) -> None:
        """``call`` when the claims of all subscriptions that the session has now are fixed, and staged."""
        if isinstance(session, KeptSession) and session.beginning:
            self._waiting.append(_Waiting(session, self._number, call))
        else:
            call()

    def _look(self) -> None:
        if self._looking or not self._sessions:
            return
        self._looking = True
        sessions, self._sessions = self._sessions, {}
        begun = {session: list(session.beginning.values()) for session in sessions if session.beginning}
        drive(self._ends.look(), partial(self._found, begun), partial(self._not_found, begun))

    def _not_found(self, begun: _Begun, error: BaseException) -> None:
        log.warning("where the logs of other nodes end cannot be found, trying again: %s", error)
        self._looking = False
        # One that has ended may go on at another node, with records that are that one's now.
        self._sessions = {session: None for session in (*begun, *self._sessions) if not session.ended}
        for session in self._sessions:
            if session.connection is None:
                # Nobody was told that they are in force, and nobody waits for it any more.
                for filter in list(session.beginning or ()):
                    self._remove(session, filter)
        self._answer()
        self._clock.call_later(RETRY_SECONDS, self._look)

    def _found(self, begun: _Begun, ends: dict[int, int]) -> None:
        self._looking = False
        for session, ones in begun.items():
            if not session.ended:
                self._fix(session, ones, ends)
        self._answer()
        self._look()

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            beginning = one.session.beginning
            if beginning and not one.session.ended and next(iter(beginning.values()))[0] <= one.number:
                self._waiting.append(one)
            else:
                one.call()
        self._turn.plan()

    def _fix(self, session: KeptSession, begun: list[Beginning], ends: dict[int, int]) -> None:
        for one in begun:
            _, subscription = one
            filter = subscription.filter
            if session.beginning is None or session.beginning.get(filter) is not one:
                # It has been given up, or replaced.
                continue
            del session.beginning[filter]
            for writer, cursor in (session.elsewhere or {}).items():
                cursor.begin(filter, ends.get(writer, 0))
            if session.durable:
                self._store.save_subscription(session.client_id, subscription, session.since(filter))
        if session.durable:
            self._progress.moved(session)
        for cursor in (session.elsewhere or {}).values():
            self._turn.call_soon(cursor.read_on)
