"""Shared groups with a durable member: one position for the group, and members that pull from it.

The group reads the log, not its members: a message is taken for a member when that can have it under way, so an
offline or slow member hoards nothing. What a member had not confirmed when it went away returns to the group and
goes to the others before anything newer; only a QoS 2 exchange that has begun waits for its member
[MQTT-4.8.2-4] [MQTT-4.8.2-5]. Everything under way is kept under the group's name, because the member that has it
may not be kept at all. After a restart, what such a member had is the group's again, exchanges that had begun
included: nobody is left who could go on with them, and what was acknowledged to its publisher is not lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from iot_mqtt.broker.group_cursor import GroupCursor, by_position
from iot_mqtt.broker.session import Session
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import Reference
from iot_mqtt.ports.store import StoredGroup
from iot_mqtt.session import Flight, Segment
from iot_mqtt.topics import SharedGroup, parse_shared

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.ports.grid import WriteBatch


class Groups:
    """The durable groups of this node; a ``ports.store.Stager``."""

    __slots__ = ("_broker", "_cursors", "_changed", "_moved", "_open")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._cursors: dict[SharedGroup[Session], GroupCursor] = {}
        self._changed: dict[Segment, GroupCursor] = {}
        self._moved: dict[GroupCursor, None] = {}
        self._open: dict[GroupCursor, Segment] = {}

    def __iter__(self) -> Iterator[GroupCursor]:
        return iter(self._cursors.values())

    def of(self, group: SharedGroup[Session]) -> GroupCursor | None:
        """The cursor of a group, if the group is durable."""
        return self._cursors.get(group)

    # Members come and go.

    def find(self, filter: str) -> SharedGroup[Session] | None:
        """The group of a ``$share/…`` filter, if it has members."""
        shared = parse_shared(filter)
        if shared is None:
            return None
        for group in self._broker.routes.groups(shared[1]):
            if group.name == shared[0]:
                return group
        return None

    def joined(self, session: Session, filter: str) -> None:
        """A session has subscribed to a shared filter; its first durable member makes a group durable."""
        group = self.find(filter)
        assert group is not None
        cursor = self._cursors.get(group)
        if cursor is None:
            if not session.durable:
                return
            cursor = self.add(group, self._broker.log.end, live=True)
            self.moved(cursor)
        _enter(session, cursor)
        cursor.read_on(self._broker)

    def add(self, group: SharedGroup[Session], position: int, *, live: bool) -> GroupCursor:
        """Make a group durable."""
        cursor = self._cursors[group] = GroupCursor(self._broker, group, position, live=live)
        for member in group.members:
            _enter(member, cursor)
        return cursor

    def left(self, session: Session, filter: str) -> None:
        """A session has unsubscribed, or ended; without members there is no group."""
        for cursor in list(session.groups or ()):
            if cursor.name == filter:
                assert session.groups is not None
                session.groups.remove(cursor)
                if not len(cursor.group):
                    self._remove(cursor)

    def let_go(self, session: Session) -> None:
        """A session goes on at another node; of a group that has no member here any more all records stay."""
        for cursor in session.groups or ():
            if not len(cursor.group):
                cursor.closed = True
                del self._cursors[cursor.group]

    def _remove(self, cursor: GroupCursor) -> None:
        self._hand_over(cursor)
        cursor.closed = True
        del self._cursors[cursor.group]
        store = self._broker.store
        store.remove_group(cursor.name)
        for segment in cursor.segments:
            if segment.stored:
                store.remove_group_segment(cursor.name, segment.number)
            self._changed.pop(segment, None)
        self._moved.pop(cursor, None)
        self._open.pop(cursor, None)
        self._broker.counters.dropped[Drop.NO_SHARED_MEMBER] += cursor.backlog or 0

    def _hand_over(self, cursor: GroupCursor) -> None:
        """What sessions have under way is theirs from now on, and is kept with them [MQTT-3.10.4-3]."""
        for segment in cursor.segments:
            for flight in segment.flights:
                session: Session = flight.session
                if next(flight.outstanding(session.outbound.entries), None) is None:
                    continue
                flight.origin = flight.shared_segment = None
                if session.durable:
                    self._broker.reserve()
                    if flight.segment is None:
                        self._broker.progress.numbered(session, flight)
                    else:
                        self._broker.progress.finished(session, flight)

    def member_gone(self, session: Session, *, ended: bool) -> None:
        """A member lost its connection: what it has not confirmed is for the others."""
        entries = session.outbound.entries
        if not session.groups and not entries:
            return
        returned: dict[GroupCursor, list[Reference]] = {}
        flights = {entry: None for entry in entries.values() if isinstance(entry, Flight)}
        for flight in flights:
            cursor = flight.origin
            if not isinstance(cursor, GroupCursor) or cursor.closed:
                continue
            for offset, ids in list(flight.outstanding(entries)):
                # [MQTT-4.8.2-4] a QoS 2 message that has left waits for its member, [MQTT-4.8.2-5] for ever if need be.
                kept = min(max(flight.sent - offset, 0), len(ids)) if flight.qos == 2 else 0
                if kept == len(ids):
                    continue
                for packet_id in ids[kept:]:
                    del entries[packet_id]
                returned.setdefault(cursor, []).append(flight.reference.part(offset + kept, offset + len(ids)))
            self._broker.progress.finished(session, flight)
        for cursor, references in returned.items():
            cursor.give_back(references)
        for cursor in session.groups or ():
            if not ended:
                cursor.read_on(self._broker)
            if cursor.backlog is None:
                self._broker.census.begin()

    # Back after a restart.

    def restore(self, filter: str, stored: StoredGroup) -> bool:
        """Make a group durable again; False if nobody is a member any more."""
        group = self.find(filter)
        if group is None:
            return False
        cursor = self.add(group, stored.position, live=False)
        cursor.returned = deque(stored.returned)
        return True

    def restore_share(self, filter: str, number: int, references: list[Reference]) -> bool:
        """What a member had under way is the group's again. False if there is no such group."""
        group = self.find(filter)
        cursor = self._cursors.get(group) if group is not None else None
        if cursor is None:
            return False
        cursor.number = max(cursor.number, number)
        cursor.shares.extend(references)
        segment = Segment(number)
        segment.stored = True
        # Without flights it will be removed, in the batch that has what was returned.
        cursor.segments[segment] = None
        self._changed[segment] = cursor
        return True

    def restore_flight(self, filter: str, flight: Flight) -> None:
        """A QoS 2 exchange that a durable member goes on with: not for others."""
        group = self.find(filter)
        cursor = self._cursors.get(group) if group is not None else None
        if cursor is not None:
            flight.origin = cursor
            self.numbered(cursor, flight)
            first = flight.reference.position
            cursor.kept.update(range(first, first + flight.reference.length))

    def settle(self) -> None:
        """Everything is restored: what nobody goes on with returns to the groups."""
        for cursor in self._cursors.values():
            shares, kept = cursor.shares, cursor.kept
            cursor.shares, cursor.kept = [], set()
            returned = [part for share in shares for part in _without(share, kept)]
            cursor.returned = deque(sorted([*cursor.returned, *returned], key=by_position))
            self.moved(cursor)

    # What is kept.

    def numbered(self, cursor: GroupCursor, flight: Flight) -> None:
        """A member has messages of the group under way."""
        segment = self._open.get(cursor)
        if segment is None:
            cursor.number += 1
            segment = self._open[cursor] = Segment(cursor.number)
            cursor.segments[segment] = None
            self._changed[segment] = cursor
            self._moved[cursor] = None
        segment.flights.append(flight)
        flight.shared_segment = segment

    def finished(self, flight: Flight) -> None:
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

    def _store(self, segment: Segment, cursor: GroupCursor) -> None:
        if cursor.closed:
            return
        references = [
            flight.reference.part(offset, offset + len(ids))
            for flight in segment.flights
            for offset, ids in flight.outstanding(flight.session.outbound.entries)
        ]
        store = self._broker.store
        if references:
            store.save_group_segment(cursor.name, segment.number, references)
            segment.stored = True
            return
        cursor.segments.pop(segment, None)
        if segment.stored:
            store.remove_group_segment(cursor.name, segment.number)
            segment.stored = False

    def committed(self, ticket: int) -> None:
        """Nothing here waits."""


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


def _enter(session: Session, cursor: GroupCursor) -> None:
    if session.groups is None:
        session.groups = []
    if cursor not in session.groups:
        session.groups.append(cursor)
