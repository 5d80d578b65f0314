"""Counts what sessions that are away are owed of other nodes' logs, some seconds after it was recorded there.

::

    what its sessions are owed of      is known by
    this node's log                    appending it
    another node's log                 the link, while some client here that is there wants it
                                       this count, while all that want it are away: nobody forwards it

Each log is read from where it was counted last, for all sessions together: as far as the filters of those that are away
select it, in reads that let others have their turn, and for a part of the time only (``SHARE``). What could not be
counted in time is said (``uncounted``). Where all clients are there, nothing is read.

What the link brought meanwhile is counted already, and is met here once more: a cursor knows how much that is.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from iot_mqtt.broker.driving import breath, drive
from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.readers.elsewhere import ElsewhereCursor
from iot_mqtt.broker.readers.logs import Logs
from iot_mqtt.broker.readers.reading import Reading
from iot_mqtt.broker.session import Session
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.log import Followed, LogRun
from iot_mqtt.topics import Routes

logger = logging.getLogger(__name__)

#: Between two looks at how far the logs are.
LOOK_SECONDS = 2.0
#: After a count others have the reactor for so many times as long as it took.
SHARE = 9.0
#: What one read brings at most, and how many reads there are before what they found counts.
READ_MESSAGES = 1000
READ_BYTES = 256 * 1024
READS = 64
#: Sessions, and sessions to which messages are counted, before others get their turn.
SESSIONS_A_TURN = 1000
#: With more filters than these it reads everything: looking for so many costs more.
FILTERS = 1000
#: No position: nothing of the log is counted for everybody.
_NOTHING = -1


class _Extent:
    """How far one log is counted."""

    __slots__ = ("counted", "anew", "seen", "due", "readers")

    def __init__(self) -> None:
        #: For all readers of sessions that are away.
        self.counted = _NOTHING
        #: But for some that have come.
        self.anew = True
        #: Its end at the last look, and at the one before: that should be counted by now.
        self.seen = self.due = _NOTHING
        #: How many of these readers there were at the last count.
        self.readers = 0


class _Start:
    """What a reader was like when a count began: of one that has moved since, the count is worth nothing."""

    __slots__ = ("position", "version", "begin")

    def __init__(self, cursor: ElsewhereCursor) -> None:
        self.position = cursor.position
        self.version = cursor.version
        self.begin = cursor.count_from()

    def holds(self, cursor: ElsewhereCursor) -> bool:
        return (cursor.position, cursor.version, cursor.count_from()) == (self.position, self.version, self.begin)


class ElsewhereCount:
    """One walk at a time."""

    __slots__ = ("_node", "_logs", "_routes", "_sessions", "_extents", "_counting", "_began", "_rests_until", "_steps")

    def __init__(self, node: Reading, logs: Logs, routes: Routes[Session], sessions: Iterable[Session]) -> None:
        self._node = node
        self._logs = logs
        self._routes = routes
        self._sessions = sessions
        self._extents: dict[int, _Extent] = {}
        self._counting = False
        self._began = self._rests_until = 0.0
        self._steps = 0

    @property
    def uncounted(self) -> int:
        """Readers for which there may be more than is counted, since before the last look."""
        return sum(extent.readers for extent in self._extents.values() if extent.counted < extent.due)

    def again(self) -> None:
        """There are readers of which nobody knows how far they are counted."""
        for extent in self._extents.values():
            extent.anew = True

    def look(self) -> None:
        """Count what has come, in the background. Called every few seconds."""
        for writer, log in self._logs.others.items():
            extent = self._extents.setdefault(writer, _Extent())
            extent.due, extent.seen = extent.seen, log.end
        now = self._node.clock.monotonic()
        if not self._counting and now >= self._rests_until:
            self._counting, self._began = True, now
            drive(self._count(), self._over, self._failed)

    def _over(self, _: None) -> None:
        now = self._node.clock.monotonic()
        self._counting, self._rests_until = False, now + SHARE * (now - self._began)

    def _failed(self, error: BaseException) -> None:
        self._over(None)
        logger.error("what waits in other nodes' logs could not be counted; trying again: %s", error)

    async def _count(self) -> None:
        for writer, log in list(self._logs.others.items()):
            extent = self._extents.get(writer)
            try:
                if extent is not None and (extent.anew or extent.counted < log.end):
                    await self._count_log(log, extent)
            except Unavailable as error:
                logger.warning(
                    "the log of node %d cannot be read, what waits there is counted later: %s", writer, error
                )

    async def _count_log(self, log: Followed, extent: _Extent) -> None:
        if extent.anew:
            extent.anew, extent.counted = False, _NOTHING
        # Whoever falls behind from now on does so behind this, and is counted next time.
        end = log.end
        behind = await self._behind(log.writer, end)
        extent.readers = len(behind)
        extent.counted = min(end, await self._walk(log, behind, end)) if behind else end

    async def _behind(self, writer: int, end: int) -> dict[ElsewhereCursor, _Start]:
        """Those that have something before ``end`` to be counted, with where it begins."""
        found: dict[ElsewhereCursor, _Start] = {}
        for session in list(self._sessions):
            if isinstance(session, KeptSession) and session.connection is None and session.elsewhere:
                cursor = session.elsewhere.get(writer)
                if isinstance(cursor, ElsewhereCursor) and _is_away(cursor) and cursor.count_from() < end:
                    found[cursor] = _Start(cursor)
            await self._step()
        return found

    async def _walk(self, log: Followed, behind: dict[ElsewhereCursor, _Start], end: int) -> int:
        """Returns how far it was counted for all of them."""
        filters = _filters_of(behind)
        with_past = [cursor for cursor in behind if cursor.past]
        found: Counter[ElsewhereCursor] = Counter()
        position = min(start.begin for start in behind.values())
        for _ in range(READS):
            reading = await log.read(filters, position, READ_MESSAGES, READ_BYTES)
            for runs in _alike(reading.runs):
                total = sum(run.reference.length for run in runs)
                for cursor in self._readers(runs[0].topic, log.writer, with_past):
                    start = behind.get(cursor)
                    if start is not None:
                        found[cursor] += cursor.claimed(runs, start.begin, total)
                    await self._step()
            position = reading.position
            if reading.at_end or position >= end:
                break
        counted = position
        for cursor, start in behind.items():
            if not _is_away(cursor):
                continue
            if not start.holds(cursor):
                counted = _NOTHING
            elif start.begin < position:
                cursor.count_to(position, found[cursor])
            await self._step()
        return counted

    def _readers(self, topic: bytes, writer: int, with_past: list[ElsewhereCursor]) -> list[ElsewhereCursor]:
        found = dict.fromkeys(with_past)
        for route in self._routes.match(topic).plain:
            elsewhere = route.receiver.elsewhere if isinstance(route.receiver, KeptSession) else None
            cursor = elsewhere.get(writer) if elsewhere else None
            if isinstance(cursor, ElsewhereCursor):
                found[cursor] = None
        return list(found)

    async def _step(self) -> None:
        self._steps += 1
        if self._steps % SESSIONS_A_TURN == 0:
            await breath(self._node.call_soon)


def _is_away(cursor: ElsewhereCursor) -> bool:
    """Whether nobody reads with it. Who is there finds out by reading."""
    return cursor.idle and not (cursor.live or cursor.closed)


def _filters_of(cursors: Iterable[ElsewhereCursor]) -> list[str]:
    """Filters that select all that is wanted by any of them."""
    filters = sorted({filter for cursor in cursors for filter in cursor.filters()})
    if len(filters) <= FILTERS:
        return filters
    # [MQTT-4.7.2-1]
    return ["#", *(filter for filter in filters if filter.startswith("$"))]


def _alike(runs: Sequence[LogRun]) -> Iterator[list[LogRun]]:
    """Runs of one topic and publisher together, in their order; those of QoS 0 wait for nobody."""
    found: dict[tuple[bytes, str], list[LogRun]] = {}
    for run in runs:
        if run.run.qos:
            found.setdefault((run.topic, run.publisher), []).append(run)
    return iter(found.values())
