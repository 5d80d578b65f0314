"""What sessions of this node have from durable groups that are given out elsewhere: the other side of ``leases``.

A message comes with the group's part and the member that it is for, and the session takes it as a flight whose origin
is a ``Leader``. Whatever becomes of it is told to the node that gave it out.

That a QoS 2 message has arrived is remembered, for a durable session in its record, until that node has noted it: so it
cannot be given to the same client again, whoever dies when. ``held`` and ``over`` together are what a client must not
get a second time.

A session may come to live on the very node that gives its group out. It is told in the same words then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.shared_groups.cursor import Lease
from iot_mqtt.broker.shared_groups.dispatch import Dispatch
from iot_mqtt.broker.shared_groups.link import GroupLink
from iot_mqtt.broker.shared_groups.names import split_name
from iot_mqtt.broker.shared_groups.node import Member, Progress, Sessions
from iot_mqtt.broker.shared_groups.references import places_of, positions_of, split
from iot_mqtt.broker.shared_groups.registry import Registry
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.log import Reference
from iot_mqtt.session import Flight

#: By position of the message.
Places = dict[int, Flight]


class Leader:
    """A group's part, as sessions here have it. The origin of flights."""

    __slots__ = ("name", "writer", "filter", "held", "over")

    is_shared: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.writer, self.filter, _ = split_name(name)
        #: Client id → what it has and has not confirmed.
        self.held: dict[str, Places] = {}
        #: Client id → what has arrived at QoS 2, which nobody has noted.
        self.over: dict[str, Places] = {}

    def under_way(self, flight: Flight) -> None:
        """A session has these."""
        places = places_of(flight.reference)
        self.held.setdefault(flight.session.client_id, {}).update(dict.fromkeys(places, flight))

    def pieces_over(self, flight: Flight) -> Iterator[tuple[int, tuple[int, ...]]]:
        """What of a flight is to be remembered, as pieces without packet ids."""
        first = flight.reference.position
        for position, other in self.over.get(flight.session.client_id, {}).items():
            if other is flight:
                yield position - first, (0,)


class MemberSide:
    """Of all sessions of this node."""

    def __init__(
        self,
        registry: Registry,
        sessions: Sessions,
        link: GroupLink,
        dispatch: Dispatch,
        progress: Progress,
        counters: Counters,
    ) -> None:
        self._registry = registry
        self._sessions = sessions
        self._link = link
        self._dispatch = dispatch
        self._progress = progress
        self._counters = counters
        self._leaders: dict[str, Leader] = {}
        #: Who gives the parts of a log out, if that is not the node that writes it.
        self._givers: dict[int, int] = {}
        #: Nodes that have said in this life that they give their own log out. Whoever had adopted it does not any more,
        #: however late its words come; unless that node is dead, of which nobody here has heard: who said so then.
        self._own: dict[int, int | None] = {}
        #: Clients that had no room, and who is to hear when they have.
        self._full: dict[str, dict[tuple[int, str], None]] = {}

    def leader(self, name: str) -> Leader:
        """The part of that name."""
        leader = self._leaders.get(name)
        if leader is None:
            leader = self._leaders[name] = Leader(name)
        return leader

    def _giver(self, leader: Leader) -> int:
        return self._givers.get(leader.writer, leader.writer)

    def _tell(
        self, leader: Leader, kind: str, client_id: str, references: Sequence[Reference], question: int = 0
    ) -> None:
        if references:
            self._link.tell(self._giver(leader), kind, leader.name, client_id, references, question)

    # A message comes.

    def take(self, peer: int, publication: Publication, name: str, client_id: str, reference: Reference) -> None:
        """A peer gives a member messages of a group.

        As far as is known here it may not give them out: then they were on their way for longer than it did, and who
        does has given them to somebody; or it was not heard when it said so.
        """
        leader = self.leader(name)
        if peer != self._giver(leader):
            self._link.tell(peer, "lost", "", "", ())
            return
        known = {**leader.held.get(client_id, {}), **leader.over.get(client_id, {})}
        if not known:
            self._take(leader, publication, client_id, reference)
            return
        twice, fresh = split([reference], set(known))
        over = leader.over.get(client_id)
        if over:
            self._tell(leader, "done", client_id, split(twice, set(over))[0])
        for part in fresh:
            offset = part.position - reference.position
            self._take(leader, publication.part(offset, offset + part.length), client_id, part)

    def _take(self, leader: Leader, publication: Publication, client_id: str, reference: Reference) -> None:
        session, group = self._sessions.get(client_id), self._registry.find(leader.filter)
        count = publication.count
        if session is None or group is None or not group.has(session) or session.connection is None:
            self._tell(leader, "returned", client_id, [reference])
            return
        if self._dispatch.expired(publication):
            self._counters.messages_matched += count
            self._counters.messages_borrowed += count
            self._tell(leader, "done", client_id, [reference])
            return
        taken, confirmed = self._dispatch.give(session, group.route(session), publication, reference, leader)
        if taken and not confirmed:
            self._tell(leader, "done", client_id, [reference])
        self._counters.messages_matched += taken
        self._counters.messages_borrowed += taken
        if taken < count:
            self._full.setdefault(client_id, {})[self._giver(leader), leader.name] = None
            self._tell(leader, "full", client_id, [reference.part(taken, count)])

    def has_room(self, session: Member) -> None:
        """Its client has confirmed something, or reads again."""
        if self._full and session.client_id in self._full and session.outbound.room > 0:
            for giver, name in self._full.pop(session.client_id):
                self._link.tell(giver, "room", name, session.client_id, ())

    # It is over, or goes back.

    def finished(self, session: Member, flight: Flight) -> None:
        """Messages of a flight are not under way any more."""
        leader: Leader = flight.origin
        held = leader.held.get(session.client_id)
        if not held:
            return
        first, entries = flight.reference.position, session.outbound.entries
        found: list[Reference] = []
        for offset, packet_id in enumerate(flight.ids):
            if entries.get(packet_id) is not flight and held.get(first + offset) is flight:
                del held[first + offset]
                found.append(flight.reference.part(offset, offset + 1))
                if flight.qos == 2 and not session.ended:
                    leader.over.setdefault(session.client_id, {})[first + offset] = flight
        if not held:
            del leader.held[session.client_id]
        self._tell(leader, "done", session.client_id, found)

    def member_gone(self, session: Member, flight: Flight, *, ended: bool) -> None:
        """Its connection is gone: what it has not begun goes to others; without a session nobody goes on with it."""
        leader: Leader = flight.origin
        client_id = session.client_id
        held = leader.held.get(client_id, {})
        for back, kept in unbegun(session, flight):
            for position in places_of(back):
                held.pop(position, None)
            if back.length:
                self._counters.messages_handed_over += back.length
                self._counters.messages_lent += back.length
                self._tell(leader, "returned", client_id, [back])
            if ended and kept.length:
                self._tell(leader, "done", client_id, [kept])
        self._progress.finished(session, flight)
        if not held:
            leader.held.pop(client_id, None)

    def forget(self, session: Member) -> None:
        """The session has ended, or lives elsewhere with all its records."""
        self._full.pop(session.client_id, None)
        for leader in self._leaders.values():
            leader.held.pop(session.client_id, None)
            leader.over.pop(session.client_id, None)
        for name in [name for name, leader in self._leaders.items() if not (leader.held or leader.over)]:
            del self._leaders[name]

    def remembered(self, session: Member) -> Iterator[Flight]:
        """Flights of which nothing but their arrival is kept, and others."""
        for leader in self._leaders.values():
            yield from leader.over.get(session.client_id, {}).values()

    # What the givers say.

    def told(
        self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference], question: int
    ) -> None:
        """One of ``noted``, ``ask``, ``gives``, ``elsewhere``."""
        leader = self.leader(name)
        if kind == "noted":
            self._noted(leader, client_id, references)
            return
        if kind == "elsewhere":
            self._is_elsewhere(peer, leader, client_id, references)
            return
        if not self._gives(peer, leader.writer):
            return
        if kind == "ask":
            self._answer(leader, client_id, references, question)
        else:
            self._repeat(peer)

    def is_given(self, writer: int) -> bool:
        """Whether some node has said that it gives a log out: then somebody will, whoever dies."""
        return writer in self._givers

    def _gives(self, peer: int, writer: int) -> bool:
        """A node says that it gives a log out; False: that is over."""
        if peer == writer:
            if self._link.hears(peer):
                self._own[writer] = None
        elif writer in self._own:
            self._own[writer] = peer
            return False
        self._givers[writer] = peer
        return True

    def may_be_over(self, writer: int) -> None:
        """The life of a node, or this one does not know any more what it has said."""
        adopter = self._own.pop(writer, None)
        if adopter is not None:
            self._givers[writer] = adopter
            self._repeat(adopter)

    def _noted(self, leader: Leader, client_id: str, references: Sequence[Reference]) -> None:
        over = leader.over.get(client_id)
        if not over:
            return
        for position in positions_of(references):
            flight = over.pop(position, None)
            if flight is not None:
                self._progress.changed(flight)
        if not over:
            del leader.over[client_id]

    def _is_elsewhere(self, peer: int, leader: Leader, client_id: str, references: Sequence[Reference]) -> None:
        """Who was told is not who gives: the node that writes the log is, unless another one says so."""
        if self._givers.get(leader.writer) == peer != leader.writer:
            del self._givers[leader.writer]
        if self._giver(leader) != peer:
            self._answer(leader, client_id, references)

    def answer_all(self, client_id: str, leases: Iterable[Lease]) -> None:
        """The session lives where its groups are given out."""
        for lease in leases:
            if lease.peer is None:
                self._answer(self.leader(lease.origin.name), client_id, list(lease.left))

    def _answer(self, leader: Leader, client_id: str, references: Sequence[Reference], question: int = 0) -> None:
        if self._sessions.get(client_id) is None:
            self._tell(leader, "unknown", client_id, references, question)
            return
        held, rest = split(references, set(leader.held.get(client_id, ())))
        over, rest = split(rest, set(leader.over.get(client_id, ())))
        self._tell(leader, "held", client_id, held, question)
        self._tell(leader, "done", client_id, over, question)
        self._tell(leader, "returned", client_id, rest, question)

    def peer_up(self, peer: int) -> None:
        """What it may not have heard is told again."""
        self._repeat(peer)

    def _repeat(self, peer: int) -> None:
        for leader in self._leaders.values():
            if leader.over and self._giver(leader) == peer:
                for client_id in leader.over:
                    self._repeat_for(leader, client_id)

    def _repeat_for(self, leader: Leader, client_id: str) -> None:
        places = leader.over.get(client_id, {}).items()
        self._tell(leader, "done", client_id, [_at(flight, position) for position, flight in places])

    # Back after a restart, or from another node.

    def restore(self, name: str, flight: Flight, *, over: bool) -> None:
        """A flight of a session that was loaded; ``over``: it has arrived, and nobody has noted that."""
        leader = self.leader(name)
        flight.origin = leader
        if over:
            places = dict.fromkeys(places_of(flight.reference), flight)
            leader.over.setdefault(flight.session.client_id, {}).update(places)
            self._repeat_for(leader, flight.session.client_id)
        else:
            leader.under_way(flight)


def unbegun(session: Member, flight: Flight) -> Iterator[tuple[Reference, Reference]]:
    """Take from a session what is not over of a flight and has not begun. For each piece: that, and what is kept: a
    QoS 2 message that has left waits for its member [MQTT-4.8.2-4], for ever if need be [MQTT-4.8.2-5].
    """
    entries = session.outbound.entries
    for offset, ids in list(flight.outstanding(entries)):
        kept = min(max(flight.sent - offset, 0), len(ids)) if flight.qos == 2 else 0
        for packet_id in ids[kept:]:
            del entries[packet_id]
        split_at = offset + kept
        yield flight.reference.part(split_at, offset + len(ids)), flight.reference.part(offset, split_at)


def _at(flight: Flight, position: int) -> Reference:
    offset = position - flight.reference.position
    reference: Reference = flight.reference.part(offset, offset + 1)
    return reference
