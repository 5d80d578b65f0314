"""What sessions of this node have from durable groups that are given out elsewhere: the other side of ``leases``.

A message comes with the group's part and the member that it is for, and the session takes it as a flight whose origin
is a ``Lender``. Whatever becomes of it is told to the node that gave it out.

That a QoS 2 message has arrived is remembered, for a durable session in its record, until that node has noted it: so it
cannot be given to the same client again, whoever dies when. ``held`` and ``over`` together are what a client must not
get a second time.

A session may come to live on the very node that gives its group out. It is told in the same words then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from iot_mqtt.broker.shared_groups.leases import positions_of, split
from iot_mqtt.broker.shared_groups.names import split_name
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import Reference
from iot_mqtt.session import Flight

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.publication import Publication
    from iot_mqtt.broker.session import Session
    from iot_mqtt.broker.shared_groups.leases import Loan

#: By position of the message.
Places = dict[int, Flight]


class Lender:
    """A group's part, as sessions here have it. The origin of flights."""

    __slots__ = ("name", "writer", "filter", "held", "over")

    def __init__(self, name: str) -> None:
        self.name = name
        self.writer, self.filter, _ = split_name(name)
        #: Client id → what it has and has not confirmed.
        self.held: dict[str, Places] = {}
        #: Client id → what has arrived at QoS 2, which nobody has noted.
        self.over: dict[str, Places] = {}

    def taken(self, flight: Flight) -> None:
        """A session has these under way."""
        first = flight.reference.position
        places = range(first, first + flight.reference.length)
        self.held.setdefault(flight.session.client_id, {}).update(dict.fromkeys(places, flight))

    def pieces_over(self, flight: Flight) -> Iterator[tuple[int, tuple[int, ...]]]:
        """What of a flight is to be remembered, as pieces without packet ids."""
        first = flight.reference.position
        for position, other in self.over.get(flight.session.client_id, {}).items():
            if other is flight:
                yield position - first, (0,)


class Borrowing:
    """Of all sessions of this node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lenders: dict[str, Lender] = {}
        #: Who gives the parts of a log out, if that is not the node that writes it.
        self._givers: dict[int, int] = {}
        #: Clients that had no room, and who is to hear when they have.
        self._hungry: dict[str, dict[tuple[int, str], None]] = {}

    def lender(self, name: str) -> Lender:
        """The part of that name."""
        lender = self._lenders.get(name)
        if lender is None:
            lender = self._lenders[name] = Lender(name)
        return lender

    def _giver(self, lender: Lender) -> int:
        return self._givers.get(lender.writer, lender.writer)

    def _tell(self, lender: Lender, kind: str, client_id: str, references: Sequence[Reference]) -> None:
        if references:
            self._broker.talk.tell(self._giver(lender), kind, lender.name, client_id, references)

    # A message comes.

    def take(self, peer: int, publication: Publication, name: str, client_id: str, reference: Reference) -> None:
        """A peer gives a member messages of a group."""
        lender = self.lender(name)
        self._givers[lender.writer] = peer
        known = {**lender.held.get(client_id, {}), **lender.over.get(client_id, {})}
        if not known:
            self._take(lender, publication, client_id, reference)
            return
        twice, fresh = split([reference], set(known))
        over = lender.over.get(client_id)
        if over:
            self._tell(lender, "done", client_id, split(twice, set(over))[0])
        for part in fresh:
            offset = part.position - reference.position
            self._take(lender, publication.part(offset, offset + part.length), client_id, part)

    def _take(self, lender: Lender, publication: Publication, client_id: str, reference: Reference) -> None:
        broker = self._broker
        session = broker.sessions.get(client_id)
        group = broker.groups.find(lender.filter)
        count = publication.count
        if session is None or group is None or not group.has(session) or session.connection is None:
            self._tell(lender, "returned", client_id, [reference])
            return
        if publication.expired(broker.clock.wall()):  # [MQTT-3.3.2-5]
            broker.counters.messages_matched += count
            broker.counters.dropped[Drop.EXPIRED] += count
            self._tell(lender, "done", client_id, [reference])
            return
        route = group.route(session)
        qos = min(route.qos, publication.qos)
        retain = publication.run.retain and route.retain_as_published
        if qos:
            taken = broker.outflow.take(session, publication, reference, qos, retain, route.identifiers, lender)
        elif session.connection.writable:
            session.connection.send_qos0(publication, retain, route.identifiers)
            taken = count
            self._tell(lender, "done", client_id, [reference])
        else:
            taken = 0
        broker.counters.messages_matched += taken
        if taken < count:
            self._hungry.setdefault(client_id, {})[self._giver(lender), lender.name] = None
            self._tell(lender, "full", client_id, [reference.part(taken, count)])

    def has_room(self, session: Session) -> None:
        """Its client has confirmed something, or reads again."""
        if self._hungry and session.client_id in self._hungry and session.outbound.room > 0:
            for giver, name in self._hungry.pop(session.client_id):
                self._broker.talk.tell(giver, "room", name, session.client_id, ())

    # It is over, or goes back.

    def finished(self, session: Session, flight: Flight) -> None:
        """Messages of a flight are not under way any more."""
        lender: Lender = flight.origin
        held = lender.held.get(session.client_id)
        if not held:
            return
        first, entries = flight.reference.position, session.outbound.entries
        found: list[Reference] = []
        for offset, packet_id in enumerate(flight.ids):
            if entries.get(packet_id) is not flight and held.get(first + offset) is flight:
                del held[first + offset]
                found.append(flight.reference.part(offset, offset + 1))
                if flight.qos == 2 and not session.ended:
                    lender.over.setdefault(session.client_id, {})[first + offset] = flight
        if not held:
            del lender.held[session.client_id]
        self._tell(lender, "done", session.client_id, found)

    def member_gone(self, session: Session, flight: Flight, *, ended: bool) -> None:
        """Its connection is gone: what it has not begun goes to others; without a session nobody goes on with it."""
        lender: Lender = flight.origin
        client_id, entries = session.client_id, session.outbound.entries
        held = lender.held.get(client_id, {})
        for offset, ids in list(flight.outstanding(entries)):
            # [MQTT-4.8.2-4] [MQTT-4.8.2-5]
            kept = min(max(flight.sent - offset, 0), len(ids)) if flight.qos == 2 else 0
            back = flight.reference.part(offset + kept, offset + len(ids))
            for packet_id in ids[kept:]:
                del entries[packet_id]
            for position in range(back.position, back.position + back.length):
                held.pop(position, None)
            if back.length:
                self._tell(lender, "returned", client_id, [back])
            if ended and kept:
                self._tell(lender, "done", client_id, [flight.reference.part(offset, offset + kept)])
        self._broker.progress.finished(session, flight)
        if not held:
            lender.held.pop(client_id, None)

    def forget(self, session: Session) -> None:
        """The session has ended, or lives elsewhere with all its records."""
        self._hungry.pop(session.client_id, None)
        for lender in self._lenders.values():
            lender.held.pop(session.client_id, None)
            lender.over.pop(session.client_id, None)
        for name in [name for name, lender in self._lenders.items() if not (lender.held or lender.over)]:
            del self._lenders[name]

    def remembered(self, session: Session) -> Iterator[Flight]:
        """Flights of which nothing but their arrival is kept, and others."""
        for lender in self._lenders.values():
            yield from lender.over.get(session.client_id, {}).values()

    # What the givers say.

    def told(self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference]) -> None:
        """One of ``noted``, ``ask``, ``gives``, ``elsewhere``."""
        lender = self.lender(name)
        if kind == "noted":
            self._noted(lender, client_id, references)
            return
        if kind == "elsewhere":
            self._is_elsewhere(peer, lender, client_id, references)
            return
        self._givers[lender.writer] = peer
        if kind == "ask":
            self._answer(lender, client_id, references)
        else:
            self._repeat(peer)

    def _noted(self, lender: Lender, client_id: str, references: Sequence[Reference]) -> None:
        over = lender.over.get(client_id)
        if not over:
            return
        for position in positions_of(references):
            flight = over.pop(position, None)
            if flight is not None:
                self._broker.progress.changed(flight)
        if not over:
            del lender.over[client_id]

    def _is_elsewhere(self, peer: int, lender: Lender, client_id: str, references: Sequence[Reference]) -> None:
        """Who was told is not who gives: the node that writes the log is, unless another one says so."""
        if self._givers.get(lender.writer) == peer != lender.writer:
            del self._givers[lender.writer]
        if self._giver(lender) != peer:
            self._answer(lender, client_id, references)

    def answer_all(self, client_id: str, loans: Iterable[Loan]) -> None:
        """The session lives where its groups are given out."""
        for loan in loans:
            if loan.peer is None:
                self._answer(self.lender(loan.origin.name), client_id, list(loan.left))

    def _answer(self, lender: Lender, client_id: str, references: Sequence[Reference]) -> None:
        if self._broker.sessions.get(client_id) is None:
            self._tell(lender, "unknown", client_id, references)
            return
        held, rest = split(references, set(lender.held.get(client_id, ())))
        over, rest = split(rest, set(lender.over.get(client_id, ())))
        self._tell(lender, "held", client_id, held)
        self._tell(lender, "done", client_id, over)
        self._tell(lender, "returned", client_id, rest)

    def peer_up(self, peer: int) -> None:
        """What it may not have heard is told again."""
        self._repeat(peer)

    def _repeat(self, peer: int) -> None:
        for lender in self._lenders.values():
            if lender.over and self._giver(lender) == peer:
                for client_id in lender.over:
                    self._repeat_for(lender, client_id)

    def _repeat_for(self, lender: Lender, client_id: str) -> None:
        places = lender.over.get(client_id, {}).items()
        self._tell(lender, "done", client_id, [_at(flight, position) for position, flight in places])

    # Back after a restart, or from another node.

    def restore(self, name: str, flight: Flight, *, over: bool) -> None:
        """A flight of a session that was loaded; ``over``: it has arrived, and nobody has noted that."""
        lender = self.lender(name)
        flight.origin = lender
        if over:
            first = flight.reference.position
            places = dict.fromkeys(range(first, first + flight.reference.length), flight)
            lender.over.setdefault(flight.session.client_id, {}).update(places)
            self._repeat_for(lender, flight.session.client_id)
        else:
            lender.taken(flight)


def _at(flight: Flight, position: int) -> Reference:
    offset = position - flight.reference.position
    reference: Reference = flight.reference.part(offset, offset + 1)
    return reference
