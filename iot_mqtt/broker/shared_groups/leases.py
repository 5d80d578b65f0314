"""What the durable groups that this node gives out have with members on other nodes.

::

    give ─▶ Lease ─(commit)─▶ forwarded ─▶ its member has it ─▶ done       over, and noted
                                                             └▶ returned   for the others
                                        no room there        ─▶ full       returned, and nothing more until ``room``

A lease is known by the client, not by the node: a QoS 2 exchange goes on wherever its session does. While the peer is
down a lease of QoS 1 returns at once. One of QoS 2 stays out as long as the client may go on with it, and that is
written down where its session is: in its segments, which this node reads when the session's node is dead. Whoever has
missed something of the other asks (``lost``, ``ask``), and is told of every lease what has become of it. An answer
names its question, and counts for what was out when that was asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.shared_groups.cursor import GroupCursor, Lease
from iot_mqtt.broker.shared_groups.lease_book import LeaseBook
from iot_mqtt.broker.shared_groups.lease_search import LeaseSearch
from iot_mqtt.broker.shared_groups.link import GroupLink
from iot_mqtt.broker.shared_groups.members import RemoteMember
from iot_mqtt.broker.shared_groups.names import split_name
from iot_mqtt.broker.shared_groups.records import GroupRecords
from iot_mqtt.broker.shared_groups.references import overlap
from iot_mqtt.broker.shared_groups.registry import Registry
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.log import LogRun, Reference


class Leases:
    """Those of all parts that are given out here."""

    def __init__(
        self,
        registry: Registry,
        book: LeaseBook,
        search: LeaseSearch,
        records: GroupRecords,
        link: GroupLink,
        counters: Counters,
    ) -> None:
        self._registry = registry
        self._book = book
        self._search = search
        self._records = records
        self._link = link
        self._counters = counters

    # Out.

    def lend(self, cursor: GroupCursor, member: RemoteMember, part: Publication, reference: Reference) -> int:
        """Send as much to a member as it may have; how many messages that is."""
        count = min(part.count, member.room(cursor.leased.get(member.client_id, 0)))
        if count <= 0:
            return 0
        part, reference = part.part(0, count), reference.part(0, count)
        lease = Lease(cursor, member.client_id, member.peer, part.qos, [reference])
        self._book.add(lease)
        self._records.lent(cursor, lease)
        sent = Publication(part.run, part.topic, part.publisher, part.wall, part.origin)
        sent.logged = LogRun(reference, part.run, part.topic, part.publisher, part.wall, part.origin)
        sent.again = part.again
        member.lend(sent, cursor.name)
        self._counters.messages_handed_over += count
        self._counters.messages_lent += count
        return count

    # Back.

    def told(
        self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference], question: int
    ) -> None:
        """A peer says what became of some."""
        writer, filter, _ = split_name(name)
        if kind == "lost":
            self.ask(peer)
            return
        if writer not in self._registry.writers:
            # It may have heard of an adopter later than of the node that is back.
            self._link.tell(peer, "elsewhere", name, client_id, references)
        elif kind == "done":
            # Also what nobody knows of any more: who says so is to forget it. But not before this node has read what
            # there is; then it says that it gives, and is told again.
            self._link.tell(peer, "noted", name, client_id, references)
        cursor, member = self._registry.part(name), self._link.member(peer, filter, client_id)
        if kind == "room" and member is not None:
            member.full = False
        if cursor is not None:
            self._happened(cursor, member, peer, kind, client_id, references, question)
        # A member's room is for all parts of its group.
        for one in self._registry.of_filter(filter):
            one.go_on_soon()

    def _happened(
        self,
        cursor: GroupCursor,
        member: RemoteMember | None,
        peer: int,
        kind: str,
        client_id: str,
        references: Sequence[Reference],
        question: int,
    ) -> None:
        if kind == "done":
            self._book.take_back(cursor, client_id, references)
            if member is not None:
                member.has_confirmed()
        elif kind in ("returned", "full"):
            self._book.give_back(cursor, client_id, references, question, had=kind == "returned")
            if kind == "full" and member is not None:
                member.has_taken(cursor.leased.get(client_id, 0))
        elif kind in ("held", "unknown"):
            asked = [lease for lease in cursor.leases.get(client_id, ()) if lease.was_asked(question)]
            about = [lease for lease in asked if any(overlap(left, references) for left in lease.left)]
            self._are_at(about, peer, held=kind == "held")

    def _are_at(self, leases: Sequence[Lease], peer: int, *, held: bool) -> None:
        found = leases if held else [lease for lease in leases if lease.peer == peer]
        for lease in found:
            lease.peer = peer if held else None
        if found and not held:
            self._search.look(found[0].client_id)

    # Peers come and go.

    def ask(self, peer: int) -> None:
        """What has become of everything that may be there? It may answer when what was sent to it before has come."""
        question = self._book.question()
        for lease in self._book.all():
            if lease.peer is None or lease.peer == peer:
                self._link.tell(peer, "ask", lease.origin.name, lease.client_id, lease.left, question)

    def peer_down(self, peer: int) -> None:
        """It is not heard: others get what was with its members, but what may be in the middle of QoS 2."""
        for lease in self._book.all():
            if lease.peer == peer and lease.qos != 2:
                self._book.give_back(lease.origin, lease.client_id, list(lease.left))

    def node_gone(self, peer: int) -> None:
        """It is dead: what it had begun is in the records of its sessions, or nowhere. What nobody knows the place of
        may still be with one that lives.
        """
        self.peer_down(peer)
        clients: dict[str, None] = {}
        for lease in self._book.all():
            if lease.peer == peer:
                lease.peer = None
                clients[lease.client_id] = None
        for client_id in clients:
            self._search.look(client_id)
