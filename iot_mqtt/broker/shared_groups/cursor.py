"""One durable shared group as a reader of the log: its position, what was returned to it, and whom it gives it to.

Policies that keep an order let everything wait for the member that is next; the others go on without one that is full.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import ClassVar, Final, NamedTuple, Protocol

from iot_mqtt.broker.driving import RETRY_SECONDS, done, drive
from iot_mqtt.broker.log_cursor import LogCursor, ReadingNode
from iot_mqtt.broker.publication import Publication, logged_publication
from iot_mqtt.broker.shared_groups.dispatch import Dispatch
from iot_mqtt.broker.shared_groups.members import GroupKeeper, RemoteMember
from iot_mqtt.broker.shared_groups.names import part_name
from iot_mqtt.broker.shared_groups.node import Group, Logs, Member
from iot_mqtt.broker.shared_groups.references import by_position, count_of, positions_of
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import LogReader, LogRun, Reference
from iot_mqtt.session import Flight, Segment

log = logging.getLogger(__name__)

#: Stands for clients of which nothing is known; none has this id.
ANYBODY: Final = "\0"
_NOBODY: Final[frozenset[str]] = frozenset()
#: Returned references that are fetched in one go.
FETCH = 64


class Lease:
    """Messages that a client on another node has; kept like a flight of one that is here."""

    __slots__ = ("client_id", "peer", "qos", "left", "after", "origin", "shared_segment")

    def __init__(self, origin: GroupCursor, client_id: str, peer: int | None, qos: int, left: list[Reference]) -> None:
        self.origin = origin
        self.client_id = client_id
        #: Where it was sent; None: nobody knows where the client's session is now.
        self.peer = peer
        self.qos = qos
        #: What is not over.
        self.left = left
        #: The last question that was asked before.
        self.after = 0
        self.shared_segment: Segment | None = None

    def was_asked(self, question: int) -> bool:
        """Whether an answer to this question is about it; 0: what is said unasked, or by an earlier release."""
        return not question or question > self.after


class Journal(Protocol):
    """Where it is written down how far groups are, and who has what."""

    def moved(self, cursor: GroupCursor) -> None:
        """Its position or what was returned to it has changed."""
        ...

    def numbered(self, cursor: GroupCursor, flight: Flight | Lease) -> None:
        """A member has messages of the group under way."""
        ...


class Means(NamedTuple):
    """What all groups of a node give messages out by."""

    node: ReadingNode
    logs: Logs
    dispatch: Dispatch
    #: How members on other nodes get messages: as many as they may have; how many that is.
    lend: Callable[[GroupCursor, RemoteMember, Publication, Reference], int]
    journal: Journal


class GroupCursor(LogCursor):
    """The position of one group in one log, and what was returned to it.

    In the log of another node, which is dead or just back, it is never live: it reads what there is.
    """

    __slots__ = (
        "group",
        "filter",
        "returned",
        "had",
        "segments",
        "number",
        "shares",
        "kept",
        "leases",
        "leased",
        "restoring",
        "_means",
    )

    is_shared: ClassVar[bool] = True

    def __init__(self, means: Means, group: Group, position: int, *, live: bool, log: LogReader | None = None) -> None:
        super().__init__(means.node, log or means.logs.own, position, live=live)
        self._means = means
        self.group = group
        self.filter = group.full_filter
        self.name = part_name(self.log.writer, self.filter)
        #: To be given to other members first, in the order of their positions.
        self.returned: deque[Reference] = deque()
        #: By position, of what was returned: the clients that may have been sent it (``ANYBODY``: nobody knows which).
        self.had: dict[int, frozenset[str]] = {}
        #: What members have under way; of QoS 2 on a node of a cluster, who has it.
        self.segments: dict[Segment, str] = {}
        #: What clients on other nodes have, and how many messages that is.
        self.leases: dict[str, list[Lease]] = {}
        self.leased: dict[str, int] = {}
        self.number = 0
        #: It is read from its records, piece by piece: until it is whole, nobody gets anything of it.
        self.restoring = False
        #: Meanwhile: what members had under way, and the positions that they go on with.
        self.shares: list[Reference] = []
        self.kept: set[int] = set()

    @property
    def is_own(self) -> bool:
        """Whether it reads this node's log."""
        return self.log is self._means.logs.own

    def filters(self) -> list[str]:
        return [self.group.filter]

    def room(self) -> int:
        return sum(self._room_of(member) for member in self.group.members)

    @property
    def idle(self) -> bool:
        return not any(_connected(member) for member in self.group.members)

    def lose(self, count: int) -> None:
        self.over(count)
        self.node.counters.dropped[Drop.RETENTION] += count

    def may_rest(self) -> bool:
        return not self.returned

    def is_offered(self) -> bool:
        return self.is_own

    def nothing_there(self) -> None:
        if self.owed:
            # It was counted, and is not in the log any more.
            self.lose(self.owed)
        self.backlog = 0

    def grew(self) -> None:
        """There may be more in the log of another node: nobody has counted it."""
        if self.backlog is not None:
            self.uncounted, self.backlog = self.backlog, None
        self.read_on()

    # Members.

    def _room_of(self, member: Member | GroupKeeper) -> int:
        if isinstance(member, GroupKeeper):
            return member.room(self.leased.get(member.client_id, 0))
        connection = member.connection
        return max(0, member.outbound.room) if connection is not None and connection.writable else 0

    def _has_room(self, member: Member | GroupKeeper) -> bool:
        return self._room_of(member) > 0

    # Messages.

    def offer(self, publication: Publication, logged: LogRun) -> None:
        """A message of the group was published."""
        if not self.live:
            self.owe(publication.count)
            return
        taken = self._assign(publication, logged.reference)
        if taken < publication.count:
            self.fall_behind(logged.position + taken, publication.count - taken)

    def take(self, run: LogRun) -> int:
        length = run.reference.length
        if not run.run.qos:
            return length
        publication = logged_publication(run, self.node.clock.wall())
        taken = length if self._means.dispatch.expired(publication) else self._assign(publication, run.reference)
        self.over(taken)
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

    def _give(self, member: Member | RemoteMember, part: Publication, reference: Reference) -> int:
        means = self._means
        if self.had:
            had = self.had.get(reference.position, _NOBODY)
            part.again = member.client_id in had or ANYBODY in had
        if isinstance(member, RemoteMember):
            return means.lend(self, member, part, reference)
        taken, confirmed = means.dispatch.give(member, self.group.route(member), part, reference, self)
        if taken and not confirmed:
            # Nothing will be acknowledged; a restart goes on behind it.
            means.journal.moved(self)
        return taken

    def under_way(self, flight: Flight) -> None:
        self._means.journal.numbered(self, flight)

    # What comes back.

    def give_back(self, references: list[Reference], client_id: str | None) -> None:
        """A member is gone; what it had goes to others, before anything that was published later. ``client_id`` is who
        may have been sent it.
        """
        if not references:
            return
        if self.live:
            self.fall_behind(self.log.end, 0)
        self.owe(count_of(references))
        # What a read brings that has begun is newer.
        self.version += 1
        self.take_back(references, client_id)
        self._forget_had()
        self._means.journal.moved(self)
        self.go_on_soon()

    def take_back(self, references: Sequence[Reference], client_id: str | None) -> None:
        """They wait for members again, in the order of their positions."""
        self.returned = deque(sorted([*self.returned, *references], key=by_position))
        if client_id is not None:
            for place in positions_of(references):
                self.had[place] = self.had.get(place, _NOBODY) | {client_id}

    def _forget_had(self) -> None:
        """Of messages that are over."""
        if self.had:
            left = positions_of(self.returned)
            for segment in self.segments:
                for one in segment.flights:
                    left |= positions_of(one.left if isinstance(one, Lease) else (one.reference,))
            self.had = {place: had for place, had in self.had.items() if place in left}

    def go_on_soon(self) -> None:
        """Read on in a while of this turn, if there is something to read and somebody to take it."""
        self.node.call_soon(self.read_on)

    def read_on(self) -> None:
        if self.restoring:
            return
        if not self.returned:
            super().read_on()
        elif not self.reading and not self.closed and self.room() > 0:
            self.reading = True
            drive(self._redeliver(), done, self._redelivery_failed)

    async def _redeliver(self) -> None:
        wanted = list(islice(self.returned, FETCH))
        runs = await self._means.logs.fetch(wanted)
        self.reading = False
        if self.closed:
            return
        for reference, run in zip(wanted, runs, strict=True):
            if not self.returned or self.returned[0] is not reference:
                break
            taken = self._redelivered(reference, run)
            self.over(taken)
            if taken:
                self._means.journal.moved(self)
            if taken < reference.length:
                self.returned[0] = reference.part(taken, reference.length)
                return
            self.returned.popleft()
        self.go_on_soon()

    def _redelivered(self, reference: Reference, run: LogRun | None) -> int:
        """How many messages that were returned are dealt with."""
        if run is None:
            self.node.counters.dropped[Drop.RETENTION] += reference.length
            return reference.length
        publication = logged_publication(run, self.node.clock.wall())
        return reference.length if self._means.dispatch.expired(publication) else self._assign(publication, reference)

    def _redelivery_failed(self, error: BaseException) -> None:
        self.reading = False
        log.error("reading the log failed; trying again: %s", error)
        self.node.clock.call_later(RETRY_SECONDS, self.read_on)


def _connected(member: Member | GroupKeeper) -> bool:
    return member.reachable if isinstance(member, GroupKeeper) else member.connection is not None
