"""One durable shared group as a reader of the log: its position, what was returned to it, and whom it gives it to.

Policies that keep an order let everything wait for the member that is next; the others go on without one that is full.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, cast

from iot_mqtt.broker.cursors import Cursor
from iot_mqtt.broker.driving import RETRY_SECONDS, done, drive
from iot_mqtt.broker.publication import Publication, logged_publication
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.shared_groups.names import part_name
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import Reference
from iot_mqtt.session import Segment
from iot_mqtt.topics import SharedGroup

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.peers import RemoteMember
    from iot_mqtt.broker.shared_groups.leases import Loan
    from iot_mqtt.ports.log import LogReader, LogRun

log = logging.getLogger(__name__)

#: Returned references that are fetched in one go.
FETCH = 64


class GroupCursor(Cursor):
    """The position of one group in one log, and what was returned to it.

    In the log of another node, which is dead or just back, it is never live: it reads what there is.
    """

    __slots__ = ("group", "filter", "returned", "segments", "number", "shares", "kept", "loans", "lent", "_broker")

    def __init__(
        self, broker: Broker, group: SharedGroup[Session], position: int, *, live: bool, log: LogReader | None = None
    ) -> None:
        super().__init__(log or broker.log, position, live=live)
        self._broker = broker
        self.group = group
        self.filter = group.full_filter
        self.name = part_name(self.log.writer, self.filter)
        if not self.is_own:
            # How much there is nobody counts.
            self.backlog = 0
        #: To be given to other members first, in the order of their positions.
        self.returned: deque[Reference] = deque()
        #: What members have under way; of QoS 2 on a node of a cluster, who has it.
        self.segments: dict[Segment, str] = {}
        #: What clients on other nodes have, and how many messages that is.
        self.loans: dict[str, list[Loan]] = {}
        self.lent: dict[str, int] = {}
        self.number = 0
        #: While a start restores it: what members had under way, and the positions that they go on with.
        self.shares: list[Reference] = []
        self.kept: set[int] = set()

    @property
    def is_own(self) -> bool:
        """Whether it reads this node's log."""
        return self.log is self._broker.log

    def filters(self) -> list[str]:
        return [self.group.filter]

    def room(self) -> int:
        return sum(self._room_of(member) for member in self.group.members)

    @property
    def idle(self) -> bool:
        return not any(_connected(member) for member in self.group.members)

    def lose(self, broker: Broker, count: int) -> None:
        self.over(broker, count)
        broker.counters.dropped[Drop.RETENTION] += count

    def may_rest(self) -> bool:
        return not self.returned

    def is_offered(self, broker: Broker) -> bool:
        return self.is_own

    # Members.

    def _room_of(self, member: Session) -> int:
        if member.__class__ is not Session:
            return self._broker.loans.room(self, cast("RemoteMember", member))
        connection = member.connection
        return max(0, member.outbound.room) if connection is not None and connection.writable else 0

    def _has_room(self, member: Session) -> bool:
        return self._room_of(member) > 0

    # Messages.

    def offer(self, broker: Broker, publication: Publication, logged: LogRun) -> None:
        """A message of the group was published."""
        if not self.live:
            self.owe(publication.count)
            return
        taken = self._assign(publication, logged.reference)
        if taken < publication.count:
            self.fall_behind(logged.position + taken, publication.count - taken)

    def take(self, broker: Broker, run: LogRun) -> int:
        length = run.reference.length
        if not run.run.qos:
            return length
        publication = logged_publication(run)
        if publication.expired(broker.clock.wall()):  # [MQTT-3.3.2-5]
            self.over(broker, length)
            broker.counters.dropped[Drop.EXPIRED] += length
            return length
        taken = self._assign(publication, run.reference)
        self.over(broker, taken)
        return taken

    def _assign(self, publication: Publication, reference: Reference) -> int:
        """Give messages to members, as the policy says and as far as they have room."""
        position, count = 0, publication.count
        group = self.group
        available = _connected if group.keeps_order else self._has_room
        while position < count:
            before = position
            for member, share in group.pick_many(count - position, publication.publisher, publication.topic, available):
                part = publication.part(position, position + share)
                taken = self._give(member, part, reference.part(position, position + share))
                position += taken
                if taken < share:
                    break
            if position == before:
                break
        return position

    def _give(self, member: Session, part: Publication, reference: Reference) -> int:
        broker, route = self._broker, self.group.route(member)
        if member.__class__ is not Session:
            return broker.loans.lend(self, cast("RemoteMember", member), part, reference)
        qos = min(route.qos, part.qos)
        retain = part.run.retain and route.retain_as_published
        if qos:
            return broker.outflow.take(member, part, reference, qos, retain, route.identifiers, self)
        if member.connection is None or not member.connection.writable:
            return 0
        member.connection.send_qos0(part, retain, route.identifiers)
        # Nothing will be acknowledged; a restart goes on behind it.
        broker.groups.records.moved(self)
        return part.count

    # What comes back.

    def give_back(self, references: list[Reference]) -> None:
        """A member is gone; what it had goes to others, before anything that was published later."""
        if not references:
            return
        if self.live:
            self.fall_behind(self._broker.log.end, 0)
        self.owe(sum(reference.length for reference in references))
        # What a read brings that has begun is newer.
        self.version += 1
        self.returned = deque(sorted([*self.returned, *references], key=by_position))
        self._broker.groups.records.moved(self)
        self._broker.call_soon(partial(self.read_on, self._broker))

    def read_on(self, broker: Broker) -> None:
        if not self.returned:
            super().read_on(broker)
        elif not self.reading and not self.closed and self.room() > 0:
            self.reading = True
            drive(self._redeliver(broker), done, partial(self._redelivery_failed, broker))

    async def _redeliver(self, broker: Broker) -> None:
        wanted = list(islice(self.returned, FETCH))
        runs = await broker.logs.fetch(wanted)
        self.reading = False
        if self.closed:
            return
        for reference, run in zip(wanted, runs, strict=True):
            if not self.returned or self.returned[0] is not reference:
                break
            if run is None:
                taken = reference.length
                broker.counters.dropped[Drop.RETENTION] += taken
            else:
                publication = logged_publication(run)
                if publication.expired(broker.clock.wall()):  # [MQTT-3.3.2-5]
                    taken = reference.length
                    broker.counters.dropped[Drop.EXPIRED] += taken
                else:
                    taken = self._assign(publication, reference)
            self.over(broker, taken)
            if taken:
                broker.groups.records.moved(self)
            if taken < reference.length:
                self.returned[0] = reference.part(taken, reference.length)
                return
            self.returned.popleft()
        broker.call_soon(partial(self.read_on, broker))

    def _redelivery_failed(self, broker: Broker, error: BaseException) -> None:
        self.reading = False
        log.error("reading the log failed; trying again: %s", error)
        broker.clock.call_later(RETRY_SECONDS, partial(self.read_on, broker))


def _connected(member: Session) -> bool:
    if member.__class__ is not Session:
        return cast("RemoteMember", member).reachable
    return member.connection is not None


def by_position(reference: Reference) -> int:
    """The order in which messages came."""
    return reference.position
