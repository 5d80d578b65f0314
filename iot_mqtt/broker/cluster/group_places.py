"""Where a durable group begins in the log of a node that does not hear of it: noted here, in the grid.

That node records what it acknowledges, and gives the group a place when it hears of it. Whoever gives out its log
before, or instead of it when it is dead, finds the place that was noted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from twisted.internet.defer import Deferred, gatherResults

from iot_mqtt.broker.cluster.beginnings import LogEnds
from iot_mqtt.broker.cluster.peers import PeerRoutes
from iot_mqtt.broker.driving import RETRY_SECONDS, drive
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.shared_groups import Leadership, part_name
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Peers
from iot_mqtt.ports.store import Store, StoredGroup
from iot_mqtt.topics import parse_shared

log = logging.getLogger(__name__)


class GroupPlaces:
    """Of the groups of this node's durable sessions."""

    def __init__(
        self, peers: Peers, routes: PeerRoutes, ends: LogEnds, leadership: Leadership, store: Store, clock: Clock
    ) -> None:
        self._peers = peers
        self._routes = routes
        self._ends = ends
        self._leadership = leadership
        self._store = store
        self._clock = clock
        #: Filters of groups that sessions have subscribed to, until that is answered.
        self._begun: dict[Session, list[str]] = {}

    def begun(self, session: Session, filter: str) -> None:
        """A session has a shared subscription that it did not have."""
        if session.durable and parse_shared(filter) is not None:
            self._begun.setdefault(session, []).append(filter)

    def take(self, session: Session) -> list[str]:
        """What has begun since the last time."""
        return self._begun.pop(session, [])

    def note(self, session: Session, filters: Sequence[str], version: int, call: Callable[[], None]) -> None:
        """``call`` when these have a place in every log whose node does not act on this version of what is wanted here;
        or when the session has ended.
        """
        unaware = [peer.number for peer in self._routes if not self._peers.known_by(peer.number, version)]
        if not unaware or not filters or session.ended:
            call()
            return
        again = partial(self.note, session, filters, version, call)
        drive(self._note(unaware, filters), lambda _: call(), partial(self._not_noted, again))

    async def _note(self, writers: Sequence[int], filters: Sequence[str]) -> None:
        ends = await self._ends.look()
        for writer in writers:
            place = StoredGroup(ends.get(writer, 0), ())
            placing = [self._store.place_group(part_name(writer, filter), place) for filter in filters]
            await gatherResults([Deferred.fromCoroutine(one) for one in placing], consumeErrors=True)
            self._leadership.placed(writer)

    def _not_noted(self, again: Callable[[], None], error: BaseException) -> None:
        log.warning("where groups begin cannot be noted, trying again: %s", error)
        self._clock.call_later(RETRY_SECONDS, again)
