"""What waits for one session, in messages and bytes, for people; ``tally`` has the sums over a node.

How many messages wait is counted as they come. Their bytes are not: who asks for them has the log read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from iot_mqtt.broker.facade import BacklogInfo, ClaimInfo
from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.log_cursor import READ_BYTES, LogCursor
from iot_mqtt.broker.readers.cursors import SessionCursor
from iot_mqtt.broker.readers.elsewhere import ElsewhereCursor
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.broker.views.tally import Tally
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.log import Breath, Log, LogRun

#: Bytes of the log that are looked at for one answer, and how often a message is compared with a filter.
LOOK_BYTES = 64 * 1024 * 1024
LOOK_COMPARISONS = 1_000_000
#: The same for a list of sessions, all of them together.
LIST_BYTES = 8 * 1024 * 1024
LIST_COMPARISONS = 200_000
#: Comparisons between two turns of others.
STEP = 5000


def lag_of(session: Session) -> int:
    """Batches between a session and the end of the log it is furthest behind in, if anything waits for it there."""
    found = Tally()
    for cursor in session.cursors():
        if not cursor.live:
            found.add(cursor)
    return found.furthest


def here_of(session: Session) -> int:
    """Messages that wait for a session in this node's log, as far as they are counted."""
    return sum(cursor.backlog or 0 for cursor in session.cursors() if not isinstance(cursor, ElsewhereCursor))


async def waiting_elsewhere(session: Session, look: Look) -> int | None:
    """Messages that wait for a session in the logs of other nodes, which do not tell about those of a session that is
    away. None: it reads none, or is where they are.
    """
    behind = [cursor for cursor in session.cursors() if isinstance(cursor, ElsewhereCursor) and not cursor.live]
    before = look.messages
    for cursor in behind:
        try:
            await look.at(cursor)
        except Unavailable:
            look.complete = False
    return look.messages - before if behind else None


class Look:
    """Adds up what readers will take, in the order of the log, until it has seen enough."""

    def __init__(self, breathe: Breath, comparisons: int, size: int) -> None:
        self._breathe = breathe
        self._comparisons = comparisons
        self._read = size
        self.messages = self.bytes = 0
        #: Messages by filter; what two filters match counts for both.
        self.found: Counter[str] = Counter()
        self.complete = True

    async def at(self, cursor: LogCursor) -> None:
        log, position, end = cursor.log, cursor.position, cursor.log.end
        at_end = cursor.live or not cursor.filters()
        while not at_end and position < end:
            if self._comparisons <= 0 or self._read <= 0:
                self.complete = False
                return
            filters = cursor.filters()
            reading = await log.read(filters, position, max(1, STEP // max(1, len(filters))), READ_BYTES)
            for run in reading.runs:
                self._comparisons -= max(len(filters), run.reference.length)
                self._read -= len(run.run.wire)
                self._add(cursor, run)
            position, at_end = reading.position, reading.at_end
            await self._breathe()

    def _add(self, cursor: LogCursor, run: LogRun) -> None:
        if isinstance(cursor, SessionCursor):
            route = cursor.wanted(run)
            if route is None or not min(route.qos, run.run.qos):
                return
            names = [part.filter for part in route.parts or (route.subscription,)]
        else:
            names = [cursor.name]
        self.messages += run.reference.length
        for name in names:
            self.found[name] += run.reference.length
        self.bytes += len(run.topic) * run.reference.length + sum(map(len, run.run.payloads()))


class Backlogs:
    """Of the sessions of one node, each by itself."""

    def __init__(self, groups: SharedGroups, log: Log, breathe: Breath) -> None:
        self._groups = groups
        self._log = log
        self._breathe = breathe

    def position(self, session: Session) -> int | None:
        """How far a session has read this node's log."""
        cursor = session.cursor if isinstance(session, KeptSession) else None
        return None if cursor is None else cursor.place(self._log.end)

    def look(self) -> Look:
        """For a list of sessions."""
        return Look(self._breathe, LIST_COMPARISONS, LIST_BYTES)

    async def of(self, session: Session) -> BacklogInfo:
        """What waits for a session, the log read for it as far as is reasonable."""
        counted = session.backlog
        look = Look(self._breathe, LOOK_COMPARISONS, LOOK_BYTES)
        elsewhere = await waiting_elsewhere(session, look)
        if counted is not None and elsewhere is not None:
            counted = max(counted, here_of(session) + elsewhere)
        for cursor in list(session.cursors()):
            if not isinstance(cursor, ElsewhereCursor) or cursor.live:
                await look.at(cursor)
        return BacklogInfo(
            client_id=session.client_id,
            messages=None if counted is None else counted + len(session.queue),
            bytes=look.bytes + session.queue.bytes,
            complete=look.complete,
            claims=list(self._claims(session, look.found)),
        )

    def _claims(self, session: Session, found: Counter[str]) -> Iterator[ClaimInfo]:
        cursor = session.cursor if isinstance(session, KeptSession) else None
        if cursor is not None:
            for filter, since in cursor.since.items():
                yield self._claim(cursor, filter, "subscription", found[filter], since)
            for past in cursor.past or ():
                filter = past.subscription.filter
                yield self._claim(cursor, filter, "ended", found[filter], past.since, past.until)
        for group in self._groups.of_member(session):
            yield self._claim(group, group.filter, "shared", group.backlog)
        for filter, replay in (session.replays or {}).items():
            yield self._claim(replay, filter, "replay", found[filter])

    def _claim(
        self,
        cursor: LogCursor,
        filter: str,
        kind: str,
        messages: int | None,
        since: int | None = None,
        until: int | None = None,
    ) -> ClaimInfo:
        return ClaimInfo(
            filter=filter,
            kind=kind,
            since=since,
            until=until,
            position=cursor.place(self._log.end),
            live=cursor.live,
            messages=messages,
        )
