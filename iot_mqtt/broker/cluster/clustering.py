"""The broker of one node among others, put together: ``ports.cluster.Node``, and what else there is to do with others.

What other nodes want stands in the routing table (``peers``), what this one wants is counted and told (``interest``),
and who is at home here is settled in ``claims``, ``homes`` and ``releases``. A sole node has none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from iot_mqtt.broker.cluster.arrivals import Arrivals
from iot_mqtt.broker.cluster.beginnings import Beginnings
from iot_mqtt.broker.cluster.claims import Claims
from iot_mqtt.broker.cluster.departed import Departed
from iot_mqtt.broker.cluster.forwarding import Forwarding
from iot_mqtt.broker.cluster.group_places import GroupPlaces
from iot_mqtt.broker.cluster.homes import Homes
from iot_mqtt.broker.cluster.interest import OwnInterest
from iot_mqtt.broker.cluster.links import Links
from iot_mqtt.broker.cluster.other_logs import OtherLogs
from iot_mqtt.broker.cluster.presence import Presence
from iot_mqtt.broker.cluster.releases import Releases
from iot_mqtt.broker.cluster.retained_sync import RetainedSync
from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.owners import Owners
from iot_mqtt.ports.cluster import Interest
from iot_mqtt.ports.log import Log
from iot_mqtt.values import Subscription


class OwnSessions:
    """What other nodes are to know of the sessions of this one."""

    alone = False

    def __init__(self, own: OwnInterest, beginnings: Beginnings, places: GroupPlaces, departed: Departed) -> None:
        self._own = own
        self._beginnings = beginnings
        self._places = places
        self._departed = departed
        self.removed, self.gone = own.removed, own.gone

    def added(self, session: Session, filter: str) -> None:
        """It has subscribed to a filter that it did not have."""
        self._own.added(session, filter)
        self._places.begun(session, filter)

    def changed(self, session: Session) -> None:
        """Whether it is connected, or kept, or there at all, has changed."""
        self._own.settle(session)
        if session.ended:
            self._places.take(session)
            self._departed.ended(session.client_id)

    def begin(self, session: KeptSession, subscription: Subscription) -> bool:
        """A durable session has a plain subscription that it did not have. True: where it begins in the logs of others
        is looked up, and it is stored when that is known.
        """
        self._beginnings.begin(session, subscription)
        return True

    def when_in_force(self, session: Session, call: Callable[[], None]) -> None:
        """``call`` when the session gets whatever is published anywhere for what it has subscribed to, and nothing that
        was published before; the former after a bounded time at the latest.
        """
        begun = self._places.take(session)

        def known(version: int) -> None:
            self._places.note(session, begun, version, call)

        self._beginnings.when_fixed(session, partial(self._own.when_known, known))


class ThisNode:
    """``ports.cluster.Node``: says who answers what other nodes say and ask, and does nothing itself."""

    def __init__(
        self,
        *,
        log: Log,
        own: OwnInterest,
        forwarding: Forwarding,
        logs: OtherLogs,
        links: Links,
        arrivals: Arrivals,
        presence: Presence,
        retained: RetainedSync,
        owners: Owners,
        homes: Homes,
        releases: Releases,
    ) -> None:
        self._log = log
        self._logs = logs
        self._links = links
        self._forwarding = forwarding
        self._retained = retained
        self.interest, self.unread, self.recall = own.interest, own.unread, own.recall
        self.peer_up, self.peer_down, self.doubt = presence.peer_up, presence.peer_down, presence.doubt
        self.peer_left, self.peer_started, self.node_gone = (
            presence.peer_left,
            presence.peer_started,
            presence.node_gone,
        )
        self.unheard, self.stream_broken = presence.unheard, presence.stream_broken
        self.received, self.group_told, self.retained = arrivals.received, arrivals.group_told, retained.retained
        self.yields, self.release, self.adopt = owners.yields, releases.release, homes.adopt

    def committed_end(self) -> int:
        return self._log.committed_end

    def peer_interest(
        self, peer: int, interest: Sequence[Interest], done: Callable[[], None], *, full: bool = False
    ) -> None:
        self._forwarding.peer_interest(peer, interest, done, full=full)
        if full:
            self._retained.missed()

    def peer_knows(self, peer: int, version: int) -> None:
        self._links.acts(peer)

    def follow(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._logs.follow(number)


@dataclass(frozen=True, slots=True)
class Clustering:
    """What a node has only where there are others, for whoever composes it: each goes to those who need that one."""

    #: For the cluster.
    node: ThisNode
    #: Before and after loading.
    own: OwnInterest
    homes: Homes
    #: For CONNECT, for sessions and SUBSCRIBE, and for the readers of other nodes' logs.
    claims: Claims
    sessions: OwnSessions
