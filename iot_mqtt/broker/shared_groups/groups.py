"""Shared groups with a durable member: one position for the group, and members that pull from it.

On a node of a cluster: one position in this node's log, and one in that of a dead node that it has adopted
(``leadership``). A group is durable while anybody anywhere keeps it, and a member may be a session of another node: it
gets its messages as ``leases``.

The group reads the log, not its members: a message is taken for a member when that can have it under way, so an
offline or slow member hoards nothing. What a member had not confirmed when it went away returns to the group and
goes to the others before anything newer; only a QoS 2 exchange that has begun waits for its member
[MQTT-4.8.2-4] [MQTT-4.8.2-5]. Everything under way is kept under the group's name, because the member that has it
may not be kept at all. After a restart, what such a member had is the group's again, exchanges that had begun
included: nobody is left who could go on with them, and what was acknowledged to its publisher is not lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.session import Session
from iot_mqtt.broker.shared_groups.cursor import GroupCursor
from iot_mqtt.broker.shared_groups.leases import Loan
from iot_mqtt.broker.shared_groups.member_side import Lender
from iot_mqtt.broker.shared_groups.records import GroupRecords, left_of
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import Reference
from iot_mqtt.session import Flight
from iot_mqtt.topics import SharedGroup, parse_shared

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.shared_groups.leadership import Records
    from iot_mqtt.ports.log import LogReader

#: Seconds that subscribers wait at most until a group has its place in the log.
OPEN_WITHIN = 5.0


class Groups:
    """The durable groups of this node."""

    __slots__ = (
        "_broker",
        "_cursors",
        "_parts",
        "_by_filter",
        "records",
        "_loaded",
        "writers",
        "_waiting",
        "_when_open",
    )

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._cursors: dict[SharedGroup[Session], GroupCursor] = {}
        self.records = GroupRecords(broker)
        #: All of them by name: those of this node's log, and those of other nodes' logs.
        self._parts: dict[str, GroupCursor] = {}
        self._by_filter: dict[str, list[GroupCursor]] = {}
        self._loaded = False
        #: The logs whose parts are given out here.
        self.writers: set[int] = set()
        #: Durable groups while this node has not got the part of its own log, and from where on it is owed to them.
        self._waiting: dict[SharedGroup[Session], int] = {}
        # Who is to hear that none waits any more.
        self._when_open: deque[Callable[[], None]] = deque()

    def __iter__(self) -> Iterator[GroupCursor]:
        """Those of this node's log."""
        return iter(self._cursors.values())

    def parts(self) -> list[GroupCursor]:
        """All that are given out here."""
        return list(self._parts.values())

    def part(self, name: str) -> GroupCursor | None:
        """One of them."""
        return self._parts.get(name)

    def of(self, group: SharedGroup[Session]) -> GroupCursor | None:
        """The cursor of a group in this node's log, if the group is durable."""
        return self._cursors.get(group)

    def keeps(self, group: SharedGroup[Session]) -> bool:
        """Whether the group is durable: what is for it is recorded."""
        return group in self._cursors or group in self._waiting

    def has_part(self, writer: int) -> bool:
        """Whether the groups of a log are given out here."""
        return writer in self.writers

    def lent(self, filter: str, client_id: str) -> int:
        """How many messages a member on another node has, as far as is known here."""
        return sum(cursor.lent.get(client_id, 0) for cursor in self._by_filter.get(filter, ()))

    def _parts_of(self, filter: str) -> list[GroupCursor]:
        return list(self._by_filter.get(filter, ()))

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
        if session.durable:
            self._keep(group)
        for cursor in self._parts_of(filter):
            _enter(session, cursor)
            cursor.read_on(self._broker)

    def kept_elsewhere(self, filter: str) -> None:
        """A session of another node makes it durable."""
        group = self.find(filter)
        if group is not None:
            self._keep(group)

    def entered(self, filter: str | None = None) -> None:
        """A member on another node can be reached, or all that a peer has."""
        for cursor in self.parts() if filter is None else self._parts_of(filter):
            self._broker.call_soon(partial(cursor.read_on, self._broker))

    def _keep(self, group: SharedGroup[Session]) -> None:
        if not self._loaded or self.keeps(group):
            # What is durable from the start is looked at when everything is loaded.
            return
        if self._broker.log.writer in self.writers:
            self.records.moved(self.add(group, self._broker.log.end, live=True))
        else:
            self._wait(group)

    def _wait(self, group: SharedGroup[Session]) -> None:
        self._waiting[group] = self._broker.log.end
        if self._broker.clustering is not None:
            self._broker.clustering.group_homes.want()

    def when_open(self, call: Callable[[], None]) -> None:
        """``call`` once every durable group has a place of its own in this node's log, which is staged then, or after a
        bounded time: what was published for one that is only in memory is lost to it if this node dies.
        """
        if not self._waiting:
            call()
            return
        if not self._when_open:
            self._broker.clock.call_later(OPEN_WITHIN, self._open_or_not)
        self._when_open.append(call)

    def _open_or_not(self) -> None:
        calls, self._when_open = self._when_open, deque()
        for call in calls:
            call()

    def add(
        self, group: SharedGroup[Session], position: int, *, live: bool, log: LogReader | None = None
    ) -> GroupCursor:
        """Make a group durable."""
        cursor = GroupCursor(self._broker, group, position, live=live, log=log)
        self._parts[cursor.name] = cursor
        self._by_filter.setdefault(cursor.filter, []).append(cursor)
        if cursor.is_own:
            self._cursors[group] = cursor
        for member in group.members:
            if member.__class__ is Session:
                _enter(member, cursor)
        return cursor

    def left(self, session: Session, filter: str) -> None:
        """A session has unsubscribed, or ended; without members there is no group."""
        for cursor in list(session.groups or ()):
            if cursor.filter == filter:
                assert session.groups is not None
                session.groups.remove(cursor)
        self.emptied(filter)

    def emptied(self, filter: str) -> None:
        """Somebody has left: without members, and without anybody who keeps it, there is no group."""
        for cursor in self._parts_of(filter):
            if not len(cursor.group):
                self._remove(cursor)
        for group in [group for group in self._waiting if not len(group)]:
            del self._waiting[group]
        if not self._waiting:
            self._open_or_not()

    def let_go(self, session: Session) -> None:
        """A session goes on at another node; of a group that has no member here any more all records stay."""
        if self._broker.clustering is not None:
            self._lend_flights(session)
            self._broker.borrowing.forget(session)
        for cursor in session.groups or ():
            if not len(cursor.group):
                self._close(cursor)

    def _lend_flights(self, session: Session) -> None:
        """What it has begun it goes on with elsewhere."""
        entries = session.outbound.entries
        for flight in {entry: None for entry in entries.values() if isinstance(entry, Flight)}:
            cursor, segment = flight.origin, flight.shared_segment
            if not isinstance(cursor, GroupCursor) or cursor.closed or segment is None:
                continue
            loan = Loan(cursor, session.client_id, None, flight.qos, left_of(flight))
            segment.flights[segment.flights.index(flight)] = loan
            loan.shared_segment, flight.shared_segment = segment, None
            self._broker.loans.add(loan)

    def _close(self, cursor: GroupCursor) -> None:
        cursor.closed = True
        if self._parts.pop(cursor.name, None) is not None:
            same = self._by_filter[cursor.filter]
            same.remove(cursor)
            if not same:
                del self._by_filter[cursor.filter]
        if cursor.is_own:
            self._cursors.pop(cursor.group, None)
        self.records.forget(cursor)

    def _remove(self, cursor: GroupCursor) -> None:
        self._hand_over(cursor)
        self._close(cursor)
        self.records.remove(cursor)
        self._broker.counters.dropped[Drop.NO_SHARED_MEMBER] += cursor.backlog or 0

    def _hand_over(self, cursor: GroupCursor) -> None:
        """What sessions have under way is theirs from now on, and is kept with them [MQTT-3.10.4-3]."""
        for segment in cursor.segments:
            for flight in segment.flights:
                if isinstance(flight, Loan):
                    continue
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
            if isinstance(cursor, Lender):
                self._broker.borrowing.member_gone(session, flight, ended=ended)
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

    def open_part(self, writer: int, log: LogReader, records: Records) -> None:
        """Give out what groups are owed of a log, from where they were; records of groups that are no more go."""
        store = self._broker.store
        groups, shares = records
        self.writers.add(writer)
        for name, stored in groups:
            if not self.records.restore(name, stored, log):
                store.remove_group(name)
        for name, number, references in shares:
            if not self.records.restore_share(name, number, references):
                store.remove_group_segment(name, number)
        if log is self._broker.log:
            waiting, self._waiting = self._waiting, {}
            for group, position in waiting.items():
                if group not in self._cursors:
                    self.records.moved(self.add(group, position, live=False))
        opened = [cursor for cursor in self._parts.values() if cursor.log is log]
        self.records.settle(opened)
        if not self._waiting:
            self._open_or_not()
        for cursor in opened:
            if cursor.backlog is None:
                cursor.backlog = cursor.owed
            cursor.read_on(self._broker)
        self._broker.plan_turn()

    def close_part(self, writer: int) -> None:
        """The node that writes this log gives it out by itself again. Our members go on with what they have."""
        self.writers.discard(writer)
        for cursor in [one for one in self._parts.values() if one.log.writer == writer]:
            self.records.write_down(cursor)
            lender = self._broker.borrowing.lender(cursor.name)
            for segment in cursor.segments:
                for flight in segment.flights:
                    if isinstance(flight, Flight):
                        flight.origin, flight.shared_segment = lender, None
                        if left_of(flight):
                            lender.taken(flight)
            for member in cursor.group.members:
                if member.__class__ is Session and member.groups and cursor in member.groups:
                    member.groups.remove(cursor)
            self._close(cursor)

    def grew(self, writer: int) -> None:
        """There may be more in another node's log."""
        if writer in self.writers:
            for cursor in [one for one in self._parts.values() if one.log.writer == writer]:
                cursor.read_on(self._broker)

    def settle(self, *, owned: bool = True) -> None:
        """Everything is restored: what nobody goes on with returns to the groups. ``owned``: this node's log is given
        out by itself.
        """
        self._loaded = True
        if owned:
            self.writers.add(self._broker.log.writer)
        self.records.settle(self._cursors.values())
        for filter in self._kept_filters():
            group = self.find(filter)
            if group is not None:
                self._keep(group)
        if owned and self._broker.clustering is not None:
            self._broker.clustering.group_homes.begun(self._broker.log.writer)
            self.entered()
        self._broker.talk.begin()

    def _kept_filters(self) -> Collection[str]:
        clustering = self._broker.clustering
        if clustering is None:
            return ()
        found = dict.fromkeys(clustering.routes.kept_groups())
        for session in self._broker.sessions:
            if session.durable:
                found.update(dict.fromkeys(name for name in session.subscriptions if parse_shared(name) is not None))
        return found


def _enter(session: Session, cursor: GroupCursor) -> None:
    if session.groups is None:
        session.groups = []
    if cursor not in session.groups:
        session.groups.append(cursor)
