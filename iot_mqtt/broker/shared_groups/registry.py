"""Which durable groups are given out on this node, and who of it is a member."""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.broker.shared_groups.cursor import GroupCursor
from iot_mqtt.broker.shared_groups.members import GroupKeeper
from iot_mqtt.broker.shared_groups.node import Group, GroupsOf, Member
from iot_mqtt.topics import parse_shared


class Registry:
    """The parts of groups by name, by filter and by member."""

    def __init__(self, groups_of: GroupsOf) -> None:
        self._groups_of = groups_of
        self._own: dict[Group, GroupCursor] = {}
        #: All of them by name: those of this node's log, and those of other nodes' logs.
        self._parts: dict[str, GroupCursor] = {}
        self._by_filter: dict[str, list[GroupCursor]] = {}
        self._by_member: dict[Member, list[GroupCursor]] = {}
        #: The logs whose parts are given out here.
        self.writers: set[int] = set()

    def own(self) -> list[GroupCursor]:
        """Those of this node's log."""
        return list(self._own.values())

    def parts(self) -> list[GroupCursor]:
        """All that are given out here."""
        return list(self._parts.values())

    def part(self, name: str) -> GroupCursor | None:
        """One of them."""
        return self._parts.get(name)

    def of(self, group: Group) -> GroupCursor | None:
        """The cursor of a group in this node's log, if the group is durable."""
        return self._own.get(group)

    def of_filter(self, filter: str) -> list[GroupCursor]:
        """The parts of the group that is subscribed to like this."""
        return list(self._by_filter.get(filter, ()))

    def of_log(self, writer: int) -> list[GroupCursor]:
        """Those of one log."""
        return [one for one in self._parts.values() if one.log.writer == writer]

    def of_member(self, member: Member) -> Sequence[GroupCursor]:
        """Those that a session is a member of."""
        return self._by_member.get(member, ())

    def leased(self, filter: str, client_id: str) -> int:
        """How many messages a member on another node has, as far as is known here."""
        return sum(cursor.leased.get(client_id, 0) for cursor in self._by_filter.get(filter, ()))

    def find(self, filter: str) -> Group | None:
        """The group of a ``$share/…`` filter, if it has members, durable or not."""
        shared = parse_shared(filter)
        if shared is None:
            return None
        return next((group for group in self._groups_of(shared[1]) if group.name == shared[0]), None)

    def add(self, cursor: GroupCursor) -> None:
        """It is given out here from now on."""
        self._parts[cursor.name] = cursor
        self._by_filter.setdefault(cursor.filter, []).append(cursor)
        if cursor.is_own:
            self._own[cursor.group] = cursor
        for member in cursor.group.members:
            if not isinstance(member, GroupKeeper):
                self.enter(member, cursor)

    def remove(self, cursor: GroupCursor) -> None:
        """Not any more."""
        cursor.closed = True
        if self._parts.pop(cursor.name, None) is not None:
            same = self._by_filter[cursor.filter]
            same.remove(cursor)
            if not same:
                del self._by_filter[cursor.filter]
        if cursor.is_own:
            self._own.pop(cursor.group, None)

    def enter(self, member: Member, cursor: GroupCursor) -> None:
        """A session is a member."""
        cursors = self._by_member.setdefault(member, [])
        if cursor not in cursors:
            cursors.append(cursor)

    def leave(self, member: Member, *cursors: GroupCursor) -> None:
        """It is none of these any more."""
        rest = [one for one in self._by_member.get(member, ()) if one not in cursors]
        if rest:
            self._by_member[member] = rest
        else:
            self._by_member.pop(member, None)

    def forget(self, member: Member) -> None:
        """Nothing is left of a session."""
        self._by_member.pop(member, None)
