"""What the durable groups that this node gives out have with members on other nodes.

::

    give ─▶ Loan ─(commit)─▶ forwarded ─▶ its member has it ─▶ done       over, and noted
                                                            └▶ returned   for the others
                                        no room there       ─▶ full       returned, and nothing more until ``room``

A loan is known by the client, not by the node: a QoS 2 exchange goes on wherever its session does. While the peer is
down a loan of QoS 1 returns at once. One of QoS 2 stays out as long as the client may go on with it, and that is
written down where its session is: in its segments, which this node reads when the session's node is dead. Whoever has
missed something of the other asks (``lost``, ``ask``), and is told of every loan what has become of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.driving import RETRY_SECONDS, done, drive
from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.shared_groups.names import split_name
from iot_mqtt.ports.log import LogRun, Reference

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.peers import RemoteMember
    from iot_mqtt.broker.shared_groups.cursor import GroupCursor
    from iot_mqtt.session import Segment

log = logging.getLogger(__name__)

#: Seconds after a start until what was out at QoS 2 is looked for in the store: by then the peers have said what is
#: with their members.
LOOK_AFTER = 5.0


class Loan:
    """Messages that a client on another node has; kept like a flight of one that is here."""

    __slots__ = ("client_id", "peer", "qos", "left", "origin", "shared_segment")

    def __init__(self, origin: GroupCursor, client_id: str, peer: int | None, qos: int, left: list[Reference]) -> None:
        self.origin = origin
        self.client_id = client_id
        #: Where it was sent; None: nobody knows where the client's session is now.
        self.peer = peer
        self.qos = qos
        #: What is not over.
        self.left = left
        self.shared_segment: Segment | None = None


class Loans:
    """Those of all parts that are given out here."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        #: Clients whose records are being read; whether they are to be read once more, for loans that came too late.
        self._looking: dict[str, bool] = {}

    # Out.

    def lend(self, cursor: GroupCursor, member: RemoteMember, part: Publication, reference: Reference) -> int:
        """Send as much to a member as it may have; how many messages that is."""
        count = min(part.count, self.room(cursor, member))
        if count <= 0:
            return 0
        broker = self._broker
        part, reference = part.part(0, count), reference.part(0, count)
        loan = Loan(cursor, member.client_id, member.peer, part.qos, [reference])
        self.add(loan)
        broker.groups.records.numbered(cursor, loan)
        broker.reserve()
        sent = Publication(part.run, part.topic, part.publisher, part.wall, part.origin)
        sent.logged = LogRun(reference, part.run, part.topic, part.publisher, part.wall, part.origin)
        member.lend(broker, sent, cursor.name)
        # It is matched where it is delivered.
        broker.counters.messages_matched -= count
        return count

    def room(self, cursor: GroupCursor, member: RemoteMember) -> int:
        """How many messages a member may be sent now."""
        if not member.reachable or member.full:
            return 0
        return max(0, member.credit - cursor.lent.get(member.client_id, 0))

    def add(self, loan: Loan) -> None:
        cursor = loan.origin
        cursor.loans.setdefault(loan.client_id, []).append(loan)
        count = sum(reference.length for reference in loan.left)
        cursor.lent[loan.client_id] = cursor.lent.get(loan.client_id, 0) + count

    def _all(self, client_id: str | None = None) -> Iterator[Loan]:
        for cursor in self._broker.groups.parts():
            for loans in list(cursor.loans.values() if client_id is None else [cursor.loans.get(client_id, [])]):
                yield from list(loans)

    # Back.

    def told(self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference]) -> None:
        """A peer says what became of some."""
        broker = self._broker
        cursor = broker.groups.part(name)
        if kind == "lost":
            self.ask(peer)
        elif not broker.groups.has_part(split_name(name).writer):
            # It may have heard of an adopter later than of the node that is back.
            broker.talk.tell(peer, "elsewhere", name, client_id, references)
        elif kind == "done":
            # Also what nobody knows of any more: who says so is to forget it. But not before this node has read what
            # there is; then it says that it gives, and is told again.
            broker.talk.tell(peer, "noted", name, client_id, references)
        if cursor is None:
            return
        clustering = broker.clustering
        member = clustering.routes.member(peer, cursor.filter, client_id) if clustering is not None else None
        if kind == "done":
            self._take_back(cursor, client_id, references)
            if member is not None:
                member.has_confirmed()
        elif kind in ("returned", "full"):
            cursor.give_back(self._take_back(cursor, client_id, references))
            if kind == "full" and member is not None:
                member.has_taken(cursor.lent.get(client_id, 0))
        elif kind == "room":
            if member is not None:
                member.full = False
        elif kind in ("held", "unknown"):
            self._is_at(cursor, client_id, references, peer, held=kind == "held")
        broker.call_soon(partial(cursor.read_on, broker))

    def _is_at(
        self, cursor: GroupCursor, client_id: str, references: Sequence[Reference], peer: int, *, held: bool
    ) -> None:
        look = False
        for loan in list(cursor.loans.get(client_id, ())):
            if any(_overlap(left, references) for left in loan.left):
                if held:
                    loan.peer = peer
                elif loan.peer == peer:
                    loan.peer, look = None, True
        if look:
            self._look(client_id)

    def _take_back(self, cursor: GroupCursor, client_id: str, references: Iterable[Reference]) -> list[Reference]:
        """What of these was out with this client, and is not any more."""
        positions = positions_of(references)
        found: list[Reference] = []
        for loan in list(cursor.loans.get(client_id, ())):
            inside, outside = split(loan.left, positions)
            if inside:
                found += inside
                loan.left = outside
                self._settle(loan)
        count = sum(reference.length for reference in found)
        if count:
            cursor.lent[client_id] = cursor.lent.get(client_id, 0) - count
            if not cursor.loans.get(client_id):
                cursor.lent.pop(client_id, None)
        return found

    def _settle(self, loan: Loan) -> None:
        cursor = loan.origin
        if not loan.left:
            cursor.loans[loan.client_id].remove(loan)
            if not cursor.loans[loan.client_id]:
                del cursor.loans[loan.client_id]
        self._broker.groups.records.finished(loan)

    def _return(self, loan: Loan) -> None:
        loan.origin.give_back(self._take_back(loan.origin, loan.client_id, list(loan.left)))

    # Peers come and go.

    def ask(self, peer: int) -> None:
        """What has become of everything that may be there? It may answer when what was sent to it before has come."""
        for loan in self._all():
            if loan.peer is None or loan.peer == peer:
                self._broker.talk.tell(peer, "ask", loan.origin.name, loan.client_id, loan.left)

    def peer_down(self, peer: int) -> None:
        """It is not heard: others get what was with its members, but what may be in the middle of QoS 2."""
        for loan in self._all():
            if loan.peer == peer and loan.qos != 2:
                self._return(loan)

    def node_gone(self, peer: int) -> None:
        """It is dead: what it had begun is in the records of its sessions, or nowhere."""
        self.peer_down(peer)
        clients: dict[str, None] = {}
        for loan in self._all():
            if loan.peer is None or loan.peer == peer:
                loan.peer = None
                clients[loan.client_id] = None
        for client_id in clients:
            self._look(client_id)

    def look_later(self) -> None:
        """After a start, or when the parts of a dead node were taken over."""
        self._broker.clock.call_later(LOOK_AFTER, self._look_for_all)

    def _look_for_all(self) -> None:
        for client_id in dict.fromkeys(loan.client_id for loan in self._all() if loan.peer is None):
            self._look(client_id)

    # What is written down.

    def _look(self, client_id: str) -> None:
        if client_id in self._looking:
            self._looking[client_id] = True
            return
        if self._broker.sessions.get(client_id) is not None:
            self._broker.borrowing.answer_all(client_id, self._all(client_id))
            return
        self._looking[client_id] = False
        drive(self._read(client_id), done, partial(self._failed, client_id))

    async def _read(self, client_id: str) -> None:
        loans = [loan for loan in self._all(client_id) if loan.peer is None]
        held: dict[str, set[int]] = {}
        over: dict[str, set[int]] = {}
        async for _, _, flights in self._broker.store.segments(client_id):
            for flight in flights:
                for offset, ids in flight.pieces:
                    kind = held if ids[0] else over
                    positions = positions_of([flight.reference.part(offset, offset + len(ids))])
                    kind.setdefault(flight.origin, set()).update(positions)
        again = self._looking.pop(client_id)
        for loan in loans:
            if loan.peer is not None or not loan.left:
                continue
            name = loan.origin.name
            self._take_back(loan.origin, client_id, split(loan.left, over.get(name, set()))[0])
            _, nowhere = split(loan.left, held.get(name, set()))
            loan.origin.give_back(self._take_back(loan.origin, client_id, nowhere))
        if again:
            self._look(client_id)

    def _failed(self, client_id: str, error: BaseException) -> None:
        self._looking.pop(client_id, None)
        log.error("what a client has begun cannot be read, trying again: %s", error, extra={"client": client_id})
        self._broker.clock.call_later(RETRY_SECONDS, partial(self._look, client_id))


def positions_of(references: Iterable[Reference]) -> set[int]:
    """Of all messages."""
    return {position for one in references for position in range(one.position, one.position + one.length)}


def split(references: Iterable[Reference], positions: set[int]) -> tuple[list[Reference], list[Reference]]:
    """What of them is at these positions, and the rest."""
    inside: list[Reference] = []
    outside: list[Reference] = []
    for reference in references:
        begin = 0
        for offset in range(1, reference.length + 1):
            kind = reference.position + begin in positions
            if offset == reference.length or (reference.position + offset in positions) != kind:
                (inside if kind else outside).append(reference.part(begin, offset))
                begin = offset
    return inside, outside


def _overlap(one: Reference, others: Iterable[Reference]) -> bool:
    return any(
        one.position < other.position + other.length and other.position < one.position + one.length for other in others
    )
