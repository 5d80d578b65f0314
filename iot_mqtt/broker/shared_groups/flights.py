"""What members on this node have under way of groups, when they go or when their group does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from iot_mqtt.broker.shared_groups.cursor import GroupCursor, Lease
from iot_mqtt.broker.shared_groups.lease_book import LeaseBook
from iot_mqtt.broker.shared_groups.member_side import Leader, MemberSide, unbegun
from iot_mqtt.broker.shared_groups.node import Member, Progress
from iot_mqtt.broker.shared_groups.packet_ids import PacketIds
from iot_mqtt.broker.shared_groups.records import left_of
from iot_mqtt.ports.log import Reference
from iot_mqtt.session import Flight


class MemberFlights:
    """Says who has them from then on: others, the session itself, or a node that it goes to."""

    def __init__(
        self,
        progress: Progress,
        book: LeaseBook,
        member_side: MemberSide,
        ids: PacketIds,
        reserve: Callable[[], int],
    ) -> None:
        self._progress = progress
        self._book = book
        self._member_side = member_side
        self._ids = ids
        self._reserve = reserve

    def member_gone(self, session: Member, *, ended: bool) -> None:
        """It lost its connection: what it has not confirmed is for the others."""
        returned: dict[GroupCursor, tuple[list[Reference], list[Reference]]] = {}
        for flight in _flights(session):
            cursor = flight.origin
            if isinstance(cursor, Leader | GroupCursor) and not ended:
                self._ids.remember(session, flight)
            if isinstance(cursor, Leader):
                self._member_side.member_gone(session, flight, ended=ended)
            if not isinstance(cursor, GroupCursor) or cursor.closed:
                continue
            for back, _ in unbegun(session, flight):
                left = min(max(flight.sent - (back.position - flight.reference.position), 0), back.length)
                sent, unsent = returned.setdefault(cursor, ([], []))
                if left:
                    sent.append(back.part(0, left))
                if left < back.length:
                    unsent.append(back.part(left, back.length))
            self._progress.finished(session, flight)
        for cursor, (sent, unsent) in returned.items():
            cursor.give_back(sent, session.client_id)
            cursor.give_back(unsent, None)

    def moves(self, session: Member) -> None:
        """It goes on at another node with what it has begun: for the groups that are given out here, that is leased."""
        for flight in _flights(session):
            cursor, segment = flight.origin, flight.shared_segment
            if not isinstance(cursor, GroupCursor) or cursor.closed or segment is None:
                continue
            lease = Lease(cursor, session.client_id, None, flight.qos, left_of(flight))
            segment.flights[segment.flights.index(flight)] = lease
            lease.shared_segment, flight.shared_segment = segment, None
            self._book.add(lease)
        self._member_side.forget(session)

    def keep(self, cursor: GroupCursor) -> None:
        """The group is no more: what sessions have under way is theirs, and is kept with them [MQTT-3.10.4-3]."""
        for segment in cursor.segments:
            for flight in segment.flights:
                if isinstance(flight, Lease) or not left_of(flight):
                    continue
                session: Member = flight.session
                flight.origin = flight.shared_segment = None
                if session.durable:
                    self._reserve()
                    if flight.segment is None:
                        self._progress.numbered(session, (flight,))
                    else:
                        self._progress.finished(session, flight)

    def give_up(self, cursor: GroupCursor) -> None:
        """Another node gives the group out from now on. Members here go on with what they have, as it lets them."""
        leader = self._member_side.leader(cursor.name)
        for segment in cursor.segments:
            for flight in segment.flights:
                if isinstance(flight, Flight):
                    flight.origin, flight.shared_segment = leader, None
                    if left_of(flight):
                        leader.under_way(flight)


def _flights(session: Member) -> Iterator[Flight]:
    """Each once."""
    entries = session.outbound.entries
    return iter({entry: None for entry in entries.values() if isinstance(entry, Flight)})
