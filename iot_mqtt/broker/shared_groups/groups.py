"""Durable groups come and go with their members.

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

from collections.abc import Callable, Iterable
from typing import Final

from iot_mqtt.broker.shared_groups.cursor import GroupCursor, Means
from iot_mqtt.broker.shared_groups.flights import MemberFlights
from iot_mqtt.broker.shared_groups.node import Group, Member
from iot_mqtt.broker.shared_groups.records import GroupRecords
from iot_mqtt.broker.shared_groups.registry import Registry
from iot_mqtt.broker.shared_groups.waiting import WaitingGroups
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import LogReader

#: Groups that have ended while there was a doubt: so many are remembered.
MOST_ENDED: Final = 10_000


class Groups:
    """Those that this node gives out."""

    def __init__(
        self,
        means: Means,
        registry: Registry,
        records: GroupRecords,
        flights: MemberFlights,
        waiting: WaitingGroups,
        count: Callable[[], None],
    ) -> None:
        """``count`` is called when nobody knows how much a group is owed."""
        self._means = means
        self._registry = registry
        self._records = records
        self._flights = flights
        self._waiting = waiting
        self._count = count
        self._loaded = False
        #: While it is not known what some node wants: where the log ended when that began, and groups that have ended
        #: since, and where.
        self._doubted_from: int | None = None
        self._ended_at: dict[str, int] = {}

    def doubt(self, some: bool) -> None:
        """See ``ports.cluster.Node``. A group that is heard of only now may have been owed what was recorded since."""
        self._doubted_from = self._means.logs.own.end if some else None
        self._ended_at.clear()

    def joined(self, session: Member, filter: str) -> None:
        """A session has subscribed to a shared filter; its first durable member makes a group durable."""
        group = self._registry.find(filter)
        assert group is not None
        if session.durable:
            self._keep(group, self._means.logs.own.end)
        for cursor in self._registry.of_filter(filter):
            self._registry.enter(session, cursor)
            cursor.read_on()

    def kept(self, filters: Iterable[str]) -> None:
        """Somebody keeps these, here or on another node."""
        for filter in filters:
            group = self._registry.find(filter)
            if group is not None:
                self._keep(group, self._owed_from(filter))

    def _owed_from(self, filter: str) -> int:
        """Where a group begins that others have known of for a while, maybe."""
        if self._doubted_from is None:
            return self._means.logs.own.end
        return self._ended_at.get(filter, self._doubted_from)

    def loaded(self) -> None:
        """All of this node's own are in memory."""
        self._loaded = True

    def _keep(self, group: Group, position: int) -> None:
        if not self._loaded or self._registry.of(group) is not None or group in self._waiting:
            # What is durable from the start is looked at when everything is loaded.
            return
        log = self._means.logs.own
        if log.writer not in self._registry.writers:
            self._waiting.add(group, position)
            return
        live = position == log.end
        cursor = self.add(group, position, live=live)
        self._records.moved(cursor)
        if not live:
            self._count()
            cursor.read_on()

    def add(self, group: Group, position: int, *, live: bool, log: LogReader | None = None) -> GroupCursor:
        """Make a group durable."""
        cursor = GroupCursor(self._means, group, position, live=live, log=log)
        self._registry.add(cursor)
        return cursor

    def left(self, session: Member, filter: str) -> None:
        """A session has unsubscribed, or ended; without members there is no group."""
        self._registry.leave(session, *[one for one in self._registry.of_member(session) if one.filter == filter])
        self.emptied(filter)

    def emptied(self, filter: str) -> None:
        """Somebody has left: without members, and without anybody who keeps it, there is no group."""
        for cursor in self._registry.of_filter(filter):
            if not len(cursor.group):
                self._flights.keep(cursor)
                self.close(cursor)
                self._records.remove(cursor)
                self._means.node.counters.dropped[Drop.NO_SHARED_MEMBER] += cursor.owed
        self._waiting.drop_empty()
        self.count_unread()

    def count_unread(self) -> None:
        """Have counted what nobody has counted, and nobody may be left who reads it."""
        if any(cursor.backlog is None for cursor in self._registry.parts()):
            self._count()

    def open_waiting(self, log: LogReader) -> None:
        """This log is given out here now; it may be that of this node, which groups wait for."""
        if log is self._means.logs.own:
            for group, position in self._waiting.take().items():
                if self._registry.of(group) is None:
                    self._records.moved(self.add(group, position, live=False))

    def moved(self, session: Member) -> None:
        """A session goes on at another node; of a group that has no member here any more all records stay."""
        for cursor in self._registry.of_member(session):
            if not len(cursor.group):
                self._hand_over(cursor)

    def give_up(self, cursor: GroupCursor) -> None:
        """Another node gives it out from now on."""
        self._records.write_down(cursor)
        self._flights.give_up(cursor)
        for member in cursor.group.members:
            self._registry.leave(member, cursor)
        self._hand_over(cursor)

    def _hand_over(self, cursor: GroupCursor) -> None:
        self._means.node.counters.messages_handed_over += cursor.owed
        self.close(cursor)

    def close(self, cursor: GroupCursor) -> None:
        """It is not given out here any more, and its records are left alone."""
        self._registry.remove(cursor)
        self._records.forget(cursor)
        cursor.leases.clear()
        if cursor.is_own and self._doubted_from is not None:
            self._ended_at[cursor.filter] = cursor.log.end
            if len(self._ended_at) > MOST_ENDED:
                del self._ended_at[next(iter(self._ended_at))]

    def member_gone(self, session: Member, *, ended: bool) -> None:
        """A member lost its connection: what it has not confirmed is for the others."""
        cursors = self._registry.of_member(session)
        if not cursors and not session.outbound.entries:
            return
        self._flights.member_gone(session, ended=ended)
        for cursor in cursors:
            if not ended:
                cursor.read_on()
            if cursor.backlog is None:
                self._count()
