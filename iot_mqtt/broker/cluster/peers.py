"""Other nodes as receivers: they stand in the routing table like sessions, and what they get is forwarded.

::

    fan_out ─▶ Keeper: record it, a durable session somewhere wants it
            ─▶ Peer:   gather ─(end of turn)─▶ not recorded: forwarded now
                                            └▶ recorded: forwarded after the commit, in order, and with it
                                                         what came later of the same publisher

A publication that came from another node is never forwarded: every node hears of it from the one it was published at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, cast

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.fanout import FanOut
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.route_turns import RouteTurns, effort_of
from iot_mqtt.broker.shared_groups import GroupKeeper, RemoteMember, SharedGroups
from iot_mqtt.codec import PublishRun
from iot_mqtt.ports.cluster import Forwarded, Interest, Peers
from iot_mqtt.ports.counters import Counters, LinkDrop
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.topics import Match, Route, Routes, parse_shared
from iot_mqtt.values import Subscription

#: No node's number: stands for all that have not said what they want.
UNHEARD: Final = -1
#: Groups that are kept for those at most, besides the ones that were there when the doubt began.
MOST_LET_GO: Final = 10_000
#: Bytes of QoS 0 that wait for one peer because messages of their publishers wait for a commit.
MOST_BEHIND = 8 * 1024 * 1024
#: A shared group as subscribed, and the member that was picked; None: the plain subscribers.
Member = tuple[str, str] | None
#: What a peer wants, if it said that, and the work that follows it (see ``RouteTurns``).
_Said = tuple[Sequence[Interest], Iterator[int]]


def wanted_elsewhere(match: Match[Session], qos: int) -> bool:
    """Whether sessions of other nodes get a message that is published here: those that are connected, and from QoS 1 on
    durable ones. Members of shared groups are picked, and counted, here.
    """
    routes: Sequence[Route[Any]] = match.plain
    wanting = (Peer, Keeper) if qos else (Peer,)
    return any(isinstance(route.receiver, wanting) for route in routes)


class Keeper:
    """Durable sessions of another node: what they want is recorded here, where it is published."""

    __slots__ = ("client_id",)

    inflight_count = 0
    records: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        self.client_id = name

    def receive(self, fan_out: FanOut, publication: Publication, source: Session | None, outcome: Outcome) -> None:
        """Record it. QoS 0 is kept for nobody who is away, as on one node."""
        if publication.remote or not publication.qos:
            return
        outcome.elsewhere = True
        fan_out.recording.record(publication)
        outcome.ticket = fan_out.store.latest


class Peer:
    """The connected sessions of another node."""

    __slots__ = (
        "client_id",
        "number",
        "up",
        "_peers",
        "_counters",
        "_plan",
        "_crowded",
        "_gathered",
        "_held",
        "_publishers",
        "_behind",
    )

    inflight_count = 0
    records: ClassVar[bool] = False

    def __init__(self, number: int, peers: Peers, counters: Counters, plan: Callable[[], None]) -> None:
        """``plan`` makes sure that this turn's end comes."""
        self.client_id = f"\0peer-{number}"
        self.number = number
        self.up = False
        self._peers = peers
        self._counters = counters
        self._plan = plan
        #: Whether it is crowded in this turn, once somebody has asked.
        self._crowded: bool | None = None
        # Of this turn, in order.
        self._gathered: list[tuple[Publication, Member]] = []
        # What waits for a commit, and what must not overtake it.
        self._held: deque[tuple[int, Publication, Member]] = deque()
        # How many of these are whose; and the bytes of QoS 0 among them.
        self._publishers: dict[str, int] = {}
        self._behind = 0

    def receive(self, fan_out: FanOut, publication: Publication, source: Session | None, outcome: Outcome) -> None:
        """Somebody there wants it."""
        if not publication.remote:
            outcome.elsewhere = True
            self.take(publication, None)

    def take(self, publication: Publication, member: Member) -> None:
        """Forward it at the end of the turn, or after its commit."""
        if not self.up:
            self._counters.forwards_dropped[LinkDrop.PEER_DOWN] += publication.count
        elif not publication.qos and (self._is_crowded() or self._is_far_behind(publication.publisher)):
            self._counters.forwards_dropped[LinkDrop.PEER_CROWDED] += publication.count
        else:
            self._counters.messages_forwarded += publication.count
            self._gathered.append((publication, member))
            self._plan()

    def _is_crowded(self) -> bool:
        if self._crowded is None:
            self._crowded = self._peers.crowded(self.number)
        return self._crowded

    def _is_far_behind(self, publisher: str) -> bool:
        return self._behind >= MOST_BEHIND and publisher in self._publishers

    def end_turn(self, latest: int) -> None:
        """Forward what need not wait. QoS 0 waits for what its own publisher sent before [MQTT-4.6.0-6]."""
        self._crowded = None
        if not self._gathered:
            return
        gathered, self._gathered = self._gathered, []
        held, together = self._held, self._peers.takes_more(self.number)
        item: Forwarded | None = None
        more: list[PublishRun] = []
        for publication, member in gathered:
            if publication.logged is not None:
                self._hold(latest, publication, member)
            elif held and (publication.qos or publication.publisher in self._publishers):
                self._hold(0, publication, member)
            elif (
                together
                and item is not None
                and member is None
                and not publication.traced
                and _goes_with(publication, item)
            ):
                more.append(publication.run)
            else:
                self._send(item, more)
                item, more = self._item(publication, member), []
        self._send(item, more)

    def _hold(self, ticket: int, publication: Publication, member: Member) -> None:
        self._held.append((ticket, publication, member))
        publisher = publication.publisher
        self._publishers[publisher] = self._publishers.get(publisher, 0) + 1
        if not publication.qos:
            self._behind += len(publication.run.wire)

    def _let_go(self) -> Forwarded:
        _, publication, member = self._held.popleft()
        publisher = publication.publisher
        self._publishers[publisher] -= 1
        if not self._publishers[publisher]:
            del self._publishers[publisher]
        if not publication.qos:
            self._behind -= len(publication.run.wire)
        return self._item(publication, member)

    def _send(self, item: Forwarded | None, more: list[PublishRun]) -> None:
        """What came of one client at once goes as one item."""
        if item is not None:
            self._peers.forward(self.number, item._replace(more=tuple(more)) if more else item)

    def committed(self, committed: int) -> None:
        """Forward what waited for this commit."""
        held = self._held
        while held and held[0][0] <= committed:
            self._peers.forward(self.number, self._let_go())

    def _item(self, publication: Publication, member: Member) -> Forwarded:
        logged = publication.logged
        return Forwarded(
            publication.run,
            publication.topic,
            publication.publisher,
            # What is in the log came when it says there: sessions read logs in the order of these times.
            publication.wall if logged is None else logged.arrived,
            None if logged is None else logged.reference,
            member is None,
            () if member is None else (member,),
            publication.origin,
            context=publication.forwarded(self.number) if publication.traced else "",
            again=publication.again,
        )

    def lost(self) -> None:
        """It is down; what was recorded is in the log, and nobody is there for the rest."""
        self.up = False
        self._gathered.clear()
        self._held.clear()
        self._publishers.clear()
        self._behind = 0


def _goes_with(publication: Publication, item: Forwarded) -> bool:
    """Whether it came from the same client at the same time, and both say their topics themselves."""
    run = publication.run
    return (
        item.plain
        and not item.context
        and publication.wall == item.arrived
        and publication.publisher == item.publisher
        and publication.origin == item.origin
        and run.five == item.run.five
        and run.topic != b""
        and item.run.topic != b""
    )


class PeerRoutes:
    """What every other node wants, kept in this node's routing table."""

    def __init__(
        self,
        peers: Peers,
        routes: Routes[Session],
        groups: SharedGroups,
        counters: Counters,
        plan: Callable[[], None],
        turns: RouteTurns,
    ) -> None:
        """``plan`` makes sure that this turn's end comes."""
        self._peers = peers
        self._routes = routes
        self._groups = groups
        self._counters = counters
        self._plan = plan
        self._turns = turns
        #: What peers have said and is not in the routes yet, by number; who waits until nothing is.
        self._following: dict[int, deque[_Said]] = {}
        self._when_followed: list[Callable[[], None]] = []
        self._by_number: dict[int, Peer] = {}
        self._wants: dict[int, dict[str, Interest]] = {}
        self._keepers: dict[int, Keeper] = {}
        #: By peer and by the filter of the group.
        self._group_keepers: dict[tuple[int, str], GroupKeeper] = {}
        self._members: dict[tuple[int, str, str], RemoteMember] = {}
        self._doubtful = False
        #: Groups that have been let go of since.
        self._let_go = 0

    # As a participant in commits. A batch may be made ready in the middle of a turn, when the one before it is
    # committed: what has gathered by then is in it, and must be forwarded with it, because the end of the log is
    # announced with it.

    def contribute(self, batch: WriteBatch, ticket: int) -> None:
        """Nothing is written; see above."""
        for peer in self:
            peer.end_turn(ticket)

    def committed(self, ticket: int) -> None:
        """``Forwarding.committed`` forwards."""

    def __iter__(self) -> Iterator[Peer]:
        return iter(self._by_number.values())

    def peer(self, number: int) -> Peer:
        """The peer of a number, whether or not it has been heard of."""
        peer = self._by_number.get(number)
        if peer is None:
            peer = self._by_number[number] = Peer(number, self._peers, self._counters, self._plan)
            self._wants[number] = {}
        return peer

    def member(self, number: int, filter: str, client_id: str) -> RemoteMember | None:
        """A connected member of a shared group on a peer."""
        return self._members.get((number, filter, client_id))

    def reachable(self) -> list[int]:
        """The numbers of those that are up."""
        return [peer.number for peer in self if peer.up]

    def kept_groups(self) -> Iterator[str]:
        """The filters of groups that somebody durable on another node has, and of whatever is about to be followed."""
        for _, filter in self._group_keepers:
            yield filter
        for following in self._following.values():
            for interest, _ in following:
                yield from (one.filter for one in interest if one.kept)

    def wants(self, number: int, interest: Sequence[Interest], *, full: bool = False) -> None:
        """Bring the routing table up to what the store has of a node, or to what this one keeps for itself: at once."""
        deque(self._bring(number, interest, full=full), maxlen=0)

    def follow(
        self, number: int, interest: Sequence[Interest], done: Callable[[], None], *, full: bool = False
    ) -> None:
        """Bring the routing table up to what a peer said, behind what it said before; in turns if it is much."""

        def work() -> Iterator[int]:
            yield from self._bring(number, interest, full=full)
            done()

        filters = len(interest) + (len(self._wants.get(number, ())) if full else 0)
        self._begin(number, (interest, work()), filters)

    def down(self, number: int) -> None:
        """It cannot be reached: nobody is connected there. What it keeps is wanted all the same."""
        self.peer(number).lost()
        self._begin(number, ((), self._keep_only(number)), len(self._wants[number]))

    def when_followed(self, call: Callable[[], None]) -> None:
        """``call`` when the routing table has all that peers have said."""
        if self._following:
            self._when_followed.append(call)
        else:
            call()

    def _begin(self, number: int, said: _Said, filters: int) -> None:
        following = self._following.get(number)
        if following is not None:
            following.append(said)
        else:
            self._following[number] = deque((said,))
            self._turns.begin(self._follow(number), filters)

    def _follow(self, number: int) -> Iterator[int]:
        """What a peer has said, one after the other, also what it says meanwhile."""
        following = self._following[number]
        while following:
            _, work = following[0]
            yield from work
            following.popleft()
        del self._following[number]
        if not self._following:
            calls, self._when_followed = self._when_followed, []
            for call in calls:
                call()

    def _bring(self, number: int, interest: Sequence[Interest], *, full: bool) -> Iterator[int]:
        self.peer(number)
        for one in interest:
            yield self._want(number, one)
        if full:
            told = {one.filter for one in interest}
            for filter in [filter for filter in self._wants[number] if filter not in told]:
                yield self._want(number, Interest(filter))

    def _keep_only(self, number: int) -> Iterator[int]:
        for one in list(self._wants[number].values()):
            yield self._want(number, Interest(one.filter, kept=one.kept))

    def _want(self, number: int, now: Interest) -> int:
        """What that took (``effort_of``)."""
        peer = self.peer(number)
        wanted = self._wants[number]
        before = wanted.get(now.filter, Interest(now.filter))
        if now.none:
            wanted.pop(now.filter, None)
        else:
            wanted[now.filter] = now
        self._apply(peer, before, now)
        return effort_of(now.filter)

    def doubt(self, some: bool) -> None:
        """See ``ports.cluster.Node``. Whoever is not heard may have members of any group: until they have said it, no
        group loses its place in this node's log because those that are heard let go of it.
        """
        self._doubtful, self._let_go = some, 0
        if some:
            for cursor in self._groups:
                self._group_kept(UNHEARD, cursor.filter)
        else:
            for number, filter in list(self._group_keepers):
                if number == UNHEARD:
                    self._group_let_go(number, filter)

    def _apply(self, peer: Peer, before: Interest, now: Interest) -> None:
        if parse_shared(now.filter) is None:
            self._apply_plain(peer, before, now)
        else:
            self._apply_shared(peer, before, now)

    def _apply_plain(self, peer: Peer, before: Interest, now: Interest) -> None:
        if now.kept != before.kept:
            keeper = self._keepers.get(peer.number)
            if keeper is None:
                keeper = self._keepers[peer.number] = Keeper(f"\0keeper-{peer.number}")
            self._set(keeper, now.filter, present=now.kept)
        if now.live != before.live:
            self._set(peer, now.filter, present=now.live)

    def _apply_shared(self, peer: Peer, before: Interest, now: Interest) -> None:
        filter, groups = now.filter, self._groups
        if now.kept != before.kept:
            change = self._group_kept if now.kept else self._group_let_go
            change(peer.number, filter)
        for client_id in before.members:
            if client_id not in now.members:
                self._set(self._members.pop((peer.number, filter, client_id)), filter, present=False)
                groups.emptied(filter)
        for client_id in now.members:
            if client_id not in before.members:
                forward = peer.take
                member = RemoteMember(client_id, peer.number, filter, lambda: peer.up, groups.leased, forward)
                self._members[peer.number, filter, client_id] = member
                self._set(member, filter, present=True)
                groups.entered(filter)

    def _group_kept(self, number: int, filter: str) -> None:
        if (number, filter) not in self._group_keepers:
            keeper = self._group_keepers[number, filter] = GroupKeeper(f"\0keeper-{number}")
            self._set(keeper, filter, present=True)
            self._groups.kept((filter,))

    def _group_let_go(self, number: int, filter: str) -> None:
        if self._doubtful and self._let_go < MOST_LET_GO:
            self._let_go += (UNHEARD, filter) not in self._group_keepers
            self._group_kept(UNHEARD, filter)
        self._set(self._group_keepers.pop((number, filter)), filter, present=False)
        self._groups.emptied(filter)

    def _set(self, receiver: Keeper | GroupKeeper | Peer | RemoteMember, filter: str, *, present: bool) -> None:
        if present:
            self._routes.subscribe_foreign(cast(Session, receiver), Subscription(filter, qos=2))
        else:
            self._routes.unsubscribe_foreign(cast(Session, receiver), filter)
