"""What members on other nodes have of the groups that are given out here: a ``Lease`` for whatever was sent to one.

Questions about leases have numbers, and a lease knows the last one before it. An answer is about what was out when its
question was asked: meanwhile that may have come back, and the same message may be out anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iot_mqtt.broker.shared_groups.cursor import GroupCursor, Lease
from iot_mqtt.broker.shared_groups.records import GroupRecords
from iot_mqtt.broker.shared_groups.references import count_of, positions_of, split
from iot_mqtt.broker.shared_groups.registry import Registry
from iot_mqtt.ports.log import Reference


class LeaseBook:
    """Leases by group and client, kept with the groups' cursors."""

    def __init__(self, registry: Registry, records: GroupRecords, asked: int) -> None:
        """``asked``: more than an earlier life of this node has asked, whose answers may still come."""
        self._registry = registry
        self._records = records
        self._asked = asked

    def question(self) -> int:
        """The number of another one, about all leases that there are."""
        self._asked += 1
        return self._asked

    def add(self, lease: Lease) -> None:
        """A client has it."""
        cursor = lease.origin
        lease.after = self._asked
        cursor.leases.setdefault(lease.client_id, []).append(lease)
        cursor.leased[lease.client_id] = cursor.leased.get(lease.client_id, 0) + count_of(lease.left)

    def all(self, client_id: str | None = None) -> Iterator[Lease]:
        """Those of one client, or of all."""
        for cursor in self._registry.parts():
            for leases in list(cursor.leases.values() if client_id is None else [cursor.leases.get(client_id, [])]):
                yield from list(leases)

    def take_back(
        self, cursor: GroupCursor, client_id: str, references: Iterable[Reference], question: int = 0
    ) -> list[Reference]:
        """What of these was out with this client, and is not any more; ``question``: which one says so."""
        positions = positions_of(references)
        found: list[Reference] = []
        for lease in [one for one in cursor.leases.get(client_id, ()) if one.was_asked(question)]:
            inside, outside = split(lease.left, positions)
            if inside:
                found += inside
                lease.left = outside
                self._settle(lease)
        count = count_of(found)
        if count:
            cursor.leased[client_id] = cursor.leased.get(client_id, 0) - count
            if not cursor.leases.get(client_id):
                cursor.leased.pop(client_id, None)
        return found

    def _settle(self, lease: Lease) -> None:
        cursor = lease.origin
        if not lease.left:
            cursor.leases[lease.client_id].remove(lease)
            if not cursor.leases[lease.client_id]:
                del cursor.leases[lease.client_id]
        self._records.finished(lease)

    def give_back(
        self,
        cursor: GroupCursor,
        client_id: str,
        references: Iterable[Reference],
        question: int = 0,
        *,
        had: bool = True,
    ) -> None:
        """The same, for others: these messages are here again. ``had``: the client may have been sent them."""
        found = self.take_back(cursor, client_id, references, question)
        count, counters = count_of(found), cursor.node.counters
        counters.messages_restored += count
        counters.messages_borrowed += count
        cursor.give_back(found, client_id if had else None)
