"""What is kept of durable groups: their places in logs, and what members have under way, written with the turn's batch
and read again after a start, or when this node comes to give out the groups of another node's log.

    the group's record      its position, and what was returned to it
    a share                 what one member has under way, or all whose messages return to the group if this node dies

Who gets what is decided in ``groups``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from iot_mqtt.broker.shared_groups.cursor import GroupCursor, by_position
from iot_mqtt.broker.shared_groups.leases import Loan
from iot_mqtt.broker.shared_groups.names import LONGEST_NAME, share_name, split_name
from iot_mqtt.ports.log import Reference
from iot_mqtt.ports.store import StoredGroup
from iot_mqtt.session import Flight, Segment

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.ports.grid import WriteBatch
    from iot_mqtt.ports.log import LogReader


class GroupRecords:
    """Those of the groups that this node gives out; a ``ports.store.Stager``."""

    __slots__ = ("_broker", "_changed", "_moved", "_open")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._changed: dict[Segment, GroupCursor] = {}
        self._moved: dict[GroupCursor, None] = {}
        #: Shares of this turn, by cursor and holder.
        self._open: dict[tuple[GroupCursor, str], Segment] = {}

    # Written.

    def numbered(self, cursor: GroupCursor, flight: Flight | Loan) -> None:
        """A member has messages of the group under way."""
        holder = self._holder(cursor, flight)
        segment = self._open.get((cursor, holder))
        if segment is None:
            cursor.number += 1
            segment = self._open[cursor, holder] = Segment(cursor.number)
            cursor.segments[segment] = holder
            self._changed[segment] = cursor
            self._moved[cursor] = None
        segment.flights.append(flight)
        flight.shared_segment = segment

    def _holder(self, cursor: GroupCursor, flight: Flight | Loan) -> str:
        """Who goes on with it whatever becomes of this node; nobody for what returns to the group then."""
        if flight.qos != 2 or self._broker.clustering is None:
            return ""
        if isinstance(flight, Flight) and not flight.session.durable:
            return ""
        client_id: str = flight.client_id if isinstance(flight, Loan) else flight.session.client_id
        return client_id if len(share_name(cursor.name, client_id).encode()) <= LONGEST_NAME else ""

    def finished(self, flight: Flight | Loan) -> None:
        """Messages that a member had are over, or were given back."""
        segment, cursor = flight.shared_segment, flight.origin
        if segment is not None and not cursor.closed and segment not in self._changed:
            self._changed[segment] = cursor
            self._broker.reserve()

    def moved(self, cursor: GroupCursor) -> None:
        """Its position or what was returned to it has changed."""
        self._moved[cursor] = None
        self._broker.reserve()

    def stage(self, batch: WriteBatch, ticket: int) -> None:
        """Add what changed. What was returned stands in the group's record before it leaves a segment."""
        changed, self._changed = self._changed, {}
        moved, self._moved = self._moved, {}
        self._open.clear()
        store, end = self._broker.store, self._broker.log.end
        taken = [(segment, cursor) for segment, cursor in changed.items() if not segment.stored]
        for segment, cursor in taken:
            self._store(segment, cursor)
        for cursor in moved:
            if not cursor.closed:
                store.save_group(cursor.name, StoredGroup(cursor.place(end), tuple(cursor.returned)))
        for segment, cursor in changed.items():
            if (segment, cursor) not in taken:
                self._store(segment, cursor)

    def committed(self, ticket: int) -> None:
        """Nothing here waits."""

    def write_down(self, cursor: GroupCursor) -> None:
        """All that has changed of one, now."""
        self._broker.store.save_group(cursor.name, StoredGroup(cursor.position, tuple(cursor.returned)))
        for segment in [segment for segment, one in self._changed.items() if one is cursor]:
            self._store(segment, cursor)

    def _store(self, segment: Segment, cursor: GroupCursor) -> None:
        if cursor.closed:
            return
        name = share_name(cursor.name, cursor.segments.get(segment, ""))
        references = [reference for flight in segment.flights for reference in left_of(flight)]
        store = self._broker.store
        if references:
            store.save_group_segment(name, segment.number, references)
            segment.stored = True
            return
        cursor.segments.pop(segment, None)
        if segment.stored:
            store.remove_group_segment(name, segment.number)
            segment.stored = False

    def forget(self, cursor: GroupCursor) -> None:
        """Nothing more is written for it."""
        self._moved.pop(cursor, None)
        self._open = {key: segment for key, segment in self._open.items() if key[0] is not cursor}
        for segment in cursor.segments:
            self._changed.pop(segment, None)

    def remove(self, cursor: GroupCursor) -> None:
        """There is no such group any more."""
        store = self._broker.store
        store.remove_group(cursor.name)
        for segment, holder in cursor.segments.items():
            if segment.stored:
                store.remove_group_segment(share_name(cursor.name, holder), segment.number)

    # Read.

    def restore(self, name: str, stored: StoredGroup, log: LogReader | None = None) -> bool:
        """Make a group durable again; False if nobody is a member any more."""
        group = self._broker.groups.find(split_name(name).filter)
        if group is None:
            return False
        cursor = self._broker.groups.add(group, stored.position, live=False, log=log)
        cursor.returned = deque(stored.returned)
        return True

    def restore_share(self, name: str, number: int, references: list[Reference]) -> bool:
        """What a member had under way is the group's again, unless that may go on with it elsewhere. False if there is
        no such group.
        """
        holder = split_name(name).holder
        cursor = self._broker.groups.part(name.removesuffix(f"\0{holder}") if holder else name)
        if cursor is None:
            return False
        cursor.number = max(cursor.number, number)
        segment = Segment(number)
        segment.stored = True
        cursor.segments[segment] = holder
        if holder and self._broker.clustering is not None:
            loan = Loan(cursor, holder, None, 2, list(references))
            loan.shared_segment = segment
            segment.flights.append(loan)
            self._broker.loans.add(loan)
            return True
        cursor.shares.extend(references)
        # Without flights it will be removed, in the batch that has what was returned.
        self._changed[segment] = cursor
        return True

    def restore_flight(self, name: str, flight: Flight) -> None:
        """A QoS 2 exchange that a durable member goes on with: not for others."""
        cursor = self._broker.groups.part(name)
        if cursor is not None:
            flight.origin = cursor
            self.numbered(cursor, flight)
            first = flight.reference.position
            cursor.kept.update(range(first, first + flight.reference.length))

    def settle(self, cursors: Iterable[GroupCursor]) -> None:
        """All is restored: what nobody goes on with returns to the groups."""
        for cursor in cursors:
            shares, kept = cursor.shares, cursor.kept
            cursor.shares, cursor.kept = [], set()
            returned = [part for share in shares for part in _without(share, kept)]
            cursor.returned = deque(sorted([*cursor.returned, *returned], key=by_position))
            waited = sum(part.length for part in cursor.returned)
            cursor.owe(waited)
            self._broker.counters.messages_restored += waited
            self.moved(cursor)


def left_of(flight: Flight | Loan) -> list[Reference]:
    """What is not over."""
    if isinstance(flight, Loan):
        return flight.left
    outstanding = flight.outstanding(flight.session.outbound.entries)
    return [flight.reference.part(offset, offset + len(ids)) for offset, ids in outstanding]


def _without(reference: Reference, kept: set[int]) -> Iterator[Reference]:
    """The parts of a reference that are not in ``kept``."""
    begin = None
    for offset in range(reference.length + 1):
        wanted = offset < reference.length and reference.position + offset not in kept
        if wanted and begin is None:
            begin = offset
        elif not wanted and begin is not None:
            yield reference.part(begin, offset)
            begin = None
