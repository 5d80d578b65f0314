"""The durable groups of one node, put together, and what others on the node ask of them.

::

    Registry ── GroupCursor ─▶ Dispatch ─▶ sessions here
       │             └───────▶ Leases ──▶ GroupLink ─▶ MemberSide there ─▶ Dispatch ─▶ sessions there
       │                          └ LeaseBook, LeaseSearch
    Groups ── MemberFlights, WaitingGroups          who comes and goes
    Parts ── GroupLoader, Leadership                whose log is given out here
    GroupRecords                                    what of all this is in the store
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from iot_mqtt.broker.log_cursor import ReadingNode
from iot_mqtt.broker.shared_groups.cursor import GroupCursor, Means
from iot_mqtt.broker.shared_groups.dispatch import Dispatch
from iot_mqtt.broker.shared_groups.flights import MemberFlights
from iot_mqtt.broker.shared_groups.groups import Groups
from iot_mqtt.broker.shared_groups.leadership import Leadership
from iot_mqtt.broker.shared_groups.lease_book import LeaseBook
from iot_mqtt.broker.shared_groups.lease_search import LeaseSearch
from iot_mqtt.broker.shared_groups.leases import Leases
from iot_mqtt.broker.shared_groups.link import TO_MEMBERS, GroupLink
from iot_mqtt.broker.shared_groups.loader import GroupLoader
from iot_mqtt.broker.shared_groups.member_side import Leader, MemberSide
from iot_mqtt.broker.shared_groups.names import part_name
from iot_mqtt.broker.shared_groups.node import (
    Group,
    GroupsOf,
    Logs,
    Member,
    OtherNodes,
    Progress,
    Sending,
    Sessions,
    Turn,
)
from iot_mqtt.broker.shared_groups.packet_ids import PacketIds
from iot_mqtt.broker.shared_groups.parts import Parts
from iot_mqtt.broker.shared_groups.records import GroupRecords
from iot_mqtt.broker.shared_groups.registry import Registry
from iot_mqtt.broker.shared_groups.waiting import WaitingGroups
from iot_mqtt.ports.cluster import Peers
from iot_mqtt.ports.log import Reference
from iot_mqtt.ports.store import Store
from iot_mqtt.session import Flight
from iot_mqtt.topics import parse_shared

#: The numbers of questions begin with the seconds of the time; they have four bytes, as those of other requests.
LATEST = 1 << 31


class SharedGroups:
    """Of one node; iterated over, the cursors of its own log."""

    def __init__(
        self,
        *,
        node: ReadingNode,
        turn: Turn,
        store: Store,
        logs: Logs,
        groups_of: GroupsOf,
        sessions: Sessions,
        sending: Sending,
        progress: Progress,
        count: Callable[[], None],
    ) -> None:
        """``count`` finds out what groups are owed where nobody knows it."""
        self._clock, self._sessions, self._store, self._logs = node.clock, sessions, store, logs
        counters = node.counters
        self._registry = registry = Registry(groups_of)
        self._link = link = GroupLink(turn, logs.own.writer, self._heard)
        #: A commit participant.
        self.records = records = GroupRecords(store, logs.own, link, turn.reserve)
        self._ids = ids = PacketIds()
        dispatch = Dispatch(sending, ids, counters, node.clock)
        self._member_side = MemberSide(registry, sessions, link, dispatch, progress, counters)
        book = LeaseBook(registry, records, int(node.clock.wall()) % LATEST)
        self._search = LeaseSearch(book, store, sessions, node.clock, self._member_side.answer_all)
        self._leases = Leases(registry, book, self._search, records, link, counters)
        self._flights = MemberFlights(progress, book, self._member_side, ids, turn.reserve)
        self._waiting = WaitingGroups(node.clock, self._want)
        means = Means(node, logs, dispatch, self._leases.lend, records)
        self._groups = groups = Groups(means, registry, records, self._flights, self._waiting, count)
        self._loader = GroupLoader(groups, registry, records, book, link, counters)
        self._parts = Parts(registry, groups, self._loader, self._waiting, store, turn.plan)
        #: A sole node gives out everything.
        self._leadership: Leadership | None = None
        # What others ask of one of these, and of nobody else.
        self.parts, self.has_part, self.grew = registry.parts, self._parts.has, self._parts.grew
        self.of, self.find, self.leased = registry.of, registry.find, registry.leased
        self.of_member = registry.of_member
        self.joined, self.left, self.emptied = groups.joined, groups.left, groups.emptied
        self.member_gone, self.kept = groups.member_gone, groups.kept
        self.take, self.has_room = self._member_side.take, self._member_side.has_room
        self.remembered = self._member_side.remembered
        self.told, self.end_turn, self.committed = link.told, link.end_turn, link.committed
        self.peer_down = self._leases.peer_down
        self.when_open = self._waiting.when_open

    def __iter__(self) -> Iterator[GroupCursor]:
        return iter(self._registry.own())

    # For who publishes.

    def keeps(self, group: Group) -> bool:
        """Whether the group is durable: what is for it is recorded."""
        return self._registry.of(group) is not None or group in self._waiting

    @property
    def unplaced(self) -> int:
        """Durable groups that this node records for, and does not give out: nobody here counts what waits for them."""
        return len(self._waiting)

    # For sessions.

    def moved(self, session: Member) -> None:
        """It goes on at another node, and is in no group of the routing table any more."""
        self._ids.forget(session.client_id)
        if self._link.clustered:
            self._flights.moves(session)
        self._groups.moved(session)
        self._registry.forget(session)

    def forget(self, session: Member) -> None:
        """Nothing is left of it."""
        self._ids.forget(session.client_id)
        self._member_side.forget(session)
        self._registry.forget(session)

    # For what is kept of sessions.

    def finished(self, session: Member, flight: Flight) -> None:
        """Messages of a flight that somebody here gave out, or somebody elsewhere, are not under way any more."""
        if isinstance(flight.origin, Leader):
            self._member_side.finished(session, flight)
        if flight.shared_segment is not None:
            self.records.finished(flight)

    # For who loads.

    async def load(self, *, keep: bool) -> None:
        """Groups with what none of their members had confirmed; ``keep`` those that nobody here is a member of."""
        self._parts.restore(await self._parts.read(self._logs.own.writer), keep=keep)

    def restore_flight(self, name: str, flight: Flight, *, over: bool) -> None:
        """A flight of a session that was loaded, by its origin; ``over``: it has arrived, and nobody has noted that."""
        if self._link.clustered:
            self._member_side.restore(name, flight, over=over)
        else:
            self._loader.restore_flight(name, flight)

    def settle(self, *, owned: bool = True) -> None:
        """Everything is restored: what nobody goes on with returns to the groups. ``owned``: this node's log is given
        out by itself.
        """
        writer = self._logs.own.writer
        self._groups.loaded()
        if owned:
            self._registry.writers.add(writer)
        self._loader.settle(self)
        if self._link.clustered:
            here = (name for one in self._sessions if one.durable for name in one.subscriptions if parse_shared(name))
            self._groups.kept(dict.fromkeys(chain(self._link.kept_groups(), here)))
        if owned and self._leadership is not None:
            self._leadership.begun(writer)
            self.entered()
        self._search.begin()
        self._link.begin()

    # Among other nodes.

    def doubt(self, some: bool) -> None:
        """See ``ports.cluster.Node``."""
        self._groups.doubt(some)

    def unheard(self, some: bool) -> None:
        """See ``ports.cluster.Node``."""
        self._search.unheard(some)

    def join(self, peers: Peers, others: OtherNodes) -> None:
        """There are others from now on; before anything is loaded."""
        self._link.join(peers, others)
        is_given = self._member_side.is_given
        self._leadership = Leadership(peers, self._parts, self._logs, self._store, self._clock, self._begun, is_given)

    @property
    def leadership(self) -> Leadership:
        """Who settles which node gives out what."""
        assert self._leadership is not None, "a sole node gives out everything"
        return self._leadership

    def _want(self) -> None:
        if self._leadership is not None:
            self._leadership.want()

    def entered(self, filter: str | None = None) -> None:
        """A member on another node can be reached, or all that a peer has."""
        for cursor in self._registry.parts() if filter is None else self._registry.of_filter(filter):
            cursor.go_on_soon()

    def _heard(
        self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference], question: int
    ) -> None:
        side = self._member_side if kind in TO_MEMBERS else self._leases
        side.told(peer, kind, name, client_id, references, question)

    def _begun(self, writer: int) -> None:
        """Everybody is told that a log is given out here, and asked what there is with members."""
        self._search.look_later()
        for peer in self._link.reachable():
            self._say(peer, writer)
            self._leases.ask(peer)
        self._say(self._logs.own.writer, writer)

    def _say(self, peer: int, writer: int) -> None:
        self._link.tell(peer, "gives", part_name(writer, ""), "", ())

    def peer_up(self, peer: int) -> None:
        """It can be reached."""
        self.leadership.peer_up(peer)
        for writer in self._registry.writers:
            self._say(peer, writer)
        self._ask(peer)
        self.entered()

    def node_gone(self, peer: int) -> None:
        """It is dead: others give its log out from now on."""
        self._leases.node_gone(peer)
        self.leadership.node_gone(peer)
        self._member_side.may_be_over(peer)

    def stream_broken(self, peer: int) -> None:
        """Either may have missed something of the other, which may be in a new life."""
        self._member_side.may_be_over(peer)
        self._link.tell(peer, "lost", "", "", ())
        self._ask(peer)

    def _ask(self, peer: int) -> None:
        self._leases.ask(peer)
        self._member_side.peer_up(peer)
