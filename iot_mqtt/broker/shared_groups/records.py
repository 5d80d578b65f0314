"""What is kept of durable groups: their places in logs, and what members have under way, written with the turn's batch.

    the group's record      its position, and what was returned to it
    a share                 what one member has under way, or all whose messages return to the group if this node dies

Who gets what is decided in ``groups``; what is read again after a start, in ``loader``.
"""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.broker.shared_groups.cursor import GroupCursor, Lease
from iot_mqtt.broker.shared_groups.link import GroupLink
from iot_mqtt.broker.shared_groups.names import LONGEST_NAME, share_name
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.ports.log import Log, Reference
from iot_mqtt.ports.store import Store, StoredGroup
from iot_mqtt.session import Flight, Segment


class GroupRecords:
    """Those of the groups that this node gives out; a ``ports.store.CommitParticipant``."""

    def __init__(self, store: Store, log: Log, link: GroupLink, reserve: Callable[[], int]) -> None:
        self._store = store
        self._log = log
        self._link = link
        self._reserve = reserve
        self._changed: dict[Segment, GroupCursor] = {}
        self._moved: dict[GroupCursor, None] = {}
        #: Shares of this turn, by cursor and holder.
        self._open: dict[tuple[GroupCursor, str], Segment] = {}

    # Written.

    def numbered(self, cursor: GroupCursor, flight: Flight | Lease) -> None:
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

    def lent(self, cursor: GroupCursor, lease: Lease) -> None:
        """The same of a member on another node."""
        self.numbered(cursor, lease)
        self._reserve()

    def left_over(self, cursor: GroupCursor, segment: Segment) -> None:
        """A share of before that nobody goes on with: it will be removed, in the batch that has what was returned."""
        self._changed[segment] = cursor

    def _holder(self, cursor: GroupCursor, flight: Flight | Lease) -> str:
        """Who goes on with it whatever becomes of this node; nobody for what returns to the group then."""
        if flight.qos != 2 or not self._link.clustered:
            return ""
        if isinstance(flight, Flight) and not flight.session.durable:
            return ""
        client_id: str = flight.client_id if isinstance(flight, Lease) else flight.session.client_id
        return client_id if len(share_name(cursor.name, client_id).encode()) <= LONGEST_NAME else ""

    def finished(self, flight: Flight | Lease) -> None:
        """Messages that a member had are over, or were given back."""
        segment, cursor = flight.shared_segment, flight.origin
        if segment is not None and not cursor.closed and segment not in self._changed:
            self._changed[segment] = cursor
            self._reserve()

    def moved(self, cursor: GroupCursor) -> None:
        """Its position or what was returned to it has changed."""
        self._moved[cursor] = None
        self._reserve()

    def contribute(self, batch: WriteBatch, ticket: int) -> None:
        """Add what changed. What was returned stands in the group's record before it leaves a segment."""
        changed, self._changed = self._changed, {}
        moved, self._moved = self._moved, {}
        self._open.clear()
        store, end = self._store, self._log.end
        taken = [(segment, cursor) for segment, cursor in changed.items() if not segment.stored]
        for segment, cursor in taken:
            self._write(segment, cursor)
        for cursor in moved:
            if not cursor.closed:
                store.save_group(cursor.name, StoredGroup(cursor.place(end), tuple(cursor.returned)))
        for segment, cursor in changed.items():
            if (segment, cursor) not in taken:
                self._write(segment, cursor)

    def committed(self, ticket: int) -> None:
        """Nothing here waits."""

    def write_down(self, cursor: GroupCursor) -> None:
        """All that has changed of one, now."""
        self._store.save_group(cursor.name, StoredGroup(cursor.position, tuple(cursor.returned)))
        for segment in [segment for segment, one in self._changed.items() if one is cursor]:
            self._write(segment, cursor)

    def _write(self, segment: Segment, cursor: GroupCursor) -> None:
        if cursor.closed:
            return
        name = share_name(cursor.name, cursor.segments.get(segment, ""))
        references = [reference for flight in segment.flights for reference in left_of(flight)]
        store = self._store
        if references:
            store.save_group_segment(name, segment.number, references)
            segment.stored = True
            return
        cursor.segments.pop(segment, None)
        segment.flights.clear()
        if segment.stored:
            store.remove_group_segment(name, segment.number)
            segment.stored = False

    def forget(self, cursor: GroupCursor) -> None:
        """Nothing more is written for it."""
        self._moved.pop(cursor, None)
        self._open = {key: segment for key, segment in self._open.items() if key[0] is not cursor}
        for segment in cursor.segments:
            self._changed.pop(segment, None)
            # Flights refer to it and to the group: a cycle, and memory until everything is searched for such.
            segment.flights.clear()

    def remove(self, cursor: GroupCursor) -> None:
        """There is no such group any more."""
        store = self._store
        store.remove_group(cursor.name)
        for segment, holder in cursor.segments.items():
            if segment.stored:
                store.remove_group_segment(share_name(cursor.name, holder), segment.number)
        cursor.segments.clear()


def left_of(flight: Flight | Lease) -> list[Reference]:
    """What is not over."""
    if isinstance(flight, Lease):
        return flight.left
    outstanding = flight.outstanding(flight.session.outbound.entries)
    return [flight.reference.part(offset, offset + len(ids)) for offset, ids in outstanding]
