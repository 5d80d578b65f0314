"""Groups back in memory: after a start, or when this node comes to give out the groups of another node's log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iot_mqtt.broker.shared_groups.cursor import ANYBODY, GroupCursor, Lease
from iot_mqtt.broker.shared_groups.groups import Groups
from iot_mqtt.broker.shared_groups.lease_book import LeaseBook
from iot_mqtt.broker.shared_groups.link import GroupLink
from iot_mqtt.broker.shared_groups.names import split_name
from iot_mqtt.broker.shared_groups.records import GroupRecords
from iot_mqtt.broker.shared_groups.references import count_of, places_of, split
from iot_mqtt.broker.shared_groups.registry import Registry
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.log import LogReader, Reference
from iot_mqtt.ports.store import StoredGroup
from iot_mqtt.session import Flight, Segment


class GroupLoader:
    """Restores groups from their records."""

    def __init__(
        self,
        groups: Groups,
        registry: Registry,
        records: GroupRecords,
        book: LeaseBook,
        link: GroupLink,
        counters: Counters,
    ) -> None:
        self._groups = groups
        self._registry = registry
        self._records = records
        self._book = book
        self._link = link
        self._counters = counters

    def restore(self, name: str, stored: StoredGroup, log: LogReader | None = None) -> bool:
        """Make a group durable again; False if nobody is a member any more."""
        group = self._registry.find(split_name(name).filter)
        if group is None:
            return False
        cursor = self._groups.add(group, stored.position, live=False, log=log)
        cursor.restoring = True
        self._returned(cursor, stored.returned)
        return True

    def restore_share(self, name: str, number: int, references: list[Reference]) -> bool:
        """What a member had under way is the group's again, unless that may go on with it elsewhere. False if there is
        no such group.
        """
        holder = split_name(name).holder
        cursor = self._registry.part(name.removesuffix(f"\0{holder}") if holder else name)
        if cursor is None:
            return False
        cursor.number = max(cursor.number, number)
        segment = Segment(number)
        segment.stored = True
        cursor.segments[segment] = holder
        if holder and self._link.clustered:
            lease = Lease(cursor, holder, None, 2, list(references))
            lease.shared_segment = segment
            segment.flights.append(lease)
            self._book.add(lease)
        else:
            cursor.shares.extend(references)
            self._records.left_over(cursor, segment)
        return True

    def restore_flight(self, name: str, flight: Flight) -> None:
        """A QoS 2 exchange that a durable member goes on with: not for others."""
        cursor = self._registry.part(name)
        if cursor is not None:
            flight.origin = cursor
            self._records.numbered(cursor, flight)
            cursor.kept.update(places_of(flight.reference))

    def settle(self, cursors: Iterable[GroupCursor]) -> None:
        """All is restored: what nobody goes on with returns to the groups."""
        for cursor in cursors:
            shares, kept = cursor.shares, cursor.kept
            cursor.shares, cursor.kept, cursor.restoring = [], set(), False
            self._returned(cursor, split(shares, kept)[1])
            self._records.moved(cursor)

    def _returned(self, cursor: GroupCursor, references: Sequence[Reference]) -> None:
        """These were with members when an earlier life ended."""
        # Whom they were with at QoS 1 is not written down.
        cursor.take_back(references, ANYBODY)
        waited = count_of(references)
        cursor.owe(waited)
        self._counters.messages_restored += waited
        self._counters.messages_found += waited
