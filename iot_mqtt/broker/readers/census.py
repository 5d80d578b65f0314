"""Counts what readers of the log are owed, where nobody could keep count: after a start, and before retention.

While a node runs, every cursor counts what it falls behind by. After a start these counts are gone, and counting
anew means reading the log once, for all cursors together, a little in each turn. The same walk tells who loses how
much when a generation is dropped. A cursor that is being read is left alone: it finds out at the end of the log.

What groups are owed of the log of a node that is dead is counted in the same way, by the node that gives it out.

What sessions are owed of another node's log is counted by ``elsewhere_count``, which may be behind, and who reads it
finds nothing out at the end. So its readers are cut off from a generation before they are counted: from where each of
them was then, all that it wanted of it is lost.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from iot_mqtt.broker.driving import RETRY_SECONDS, breath, drive
from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.log_cursor import LogCursor
from iot_mqtt.broker.readers.cursors import SessionCursor
from iot_mqtt.broker.readers.reading import Reading
from iot_mqtt.broker.readers.replay import ReplayCursor
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.shared_groups import GroupCursor, SharedGroups
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.log import Followed, Log, LogReader, LogRun
from iot_mqtt.topics import Routes, SharedGroup

logger = logging.getLogger(__name__)

#: Runs looked at before others get their turn.
RUNS_A_TURN = 100


class Census:
    """One walk at a time."""

    __slots__ = ("_node", "_log", "_routes", "_sessions", "_groups", "_walking")

    def __init__(
        self, node: Reading, log: Log, routes: Routes[Session], sessions: Iterable[Session], groups: SharedGroups
    ) -> None:
        self._node = node
        self._log = log
        self._routes = routes
        self._sessions = sessions
        self._groups = groups
        self._walking = False

    def begin(self) -> None:
        """Count what is uncounted, in the background."""
        if not self._walking and self._uncounted():
            self._walking = True
            drive(self._count(), self._ended, self._failed)

    def _ended(self, _: None) -> None:
        self._walking = False
        # Some may have been read meanwhile and be left again.
        self.begin()

    def _failed(self, error: BaseException) -> None:
        self._walking = False
        logger.error("what sessions are owed could not be counted; trying again: %s", error)
        self._node.clock.call_later(RETRY_SECONDS, self.begin)

    def _uncounted(self) -> list[LogCursor]:
        adopted = (one for one in self._groups.parts() if not one.is_own)
        return [one for one in chain(self._cursors(), adopted) if one.backlog is None and not one.live and one.idle]

    def _cursors(self) -> Iterable[LogCursor]:
        for session in self._sessions:
            if isinstance(session, KeptSession) and session.cursor is not None:
                yield session.cursor
            yield from (session.replays or {}).values()
        yield from self._groups

    async def _count(self) -> None:
        for log in dict.fromkeys(one.log for one in self._uncounted()):
            await self._count_in(log)

    async def _count_in(self, log: LogReader) -> None:
        end = log.end
        started = {one: (one.position, _known_in_log(one)) for one in self._uncounted() if one.log is log}
        positions = {cursor: position for cursor, (position, _) in started.items()}
        tally = await self._tally(log, None, positions, end)
        if log is not self._log and log.end != end:
            # What came meanwhile nobody has counted.
            return
        for cursor, (position, known) in started.items():
            # One that has moved meanwhile is being read: it is counted when it stops, or needs no counting. Where a
            # session is gone, all is accounted for.
            if cursor.backlog is None and cursor.position == position and not (cursor.live or cursor.closed):
                found = max(0, tally[cursor] - known)
                cursor.found(found)
                cursor.backlog = cursor.uncounted + found

    async def write_off(self, generation: int) -> None:
        """The generation will be dropped: count what is lost by it, and to whom. What anybody has read ahead may be of
        it, and is read anew.
        """
        behind = [one for one in self._cursors() if not one.live]
        started = {one: one.position for one in behind if one.backlog is not None}
        self._node.counters.readers_uncounted += len(behind) - len(started)
        for cursor, count in (await self._tally(self._log, generation, started, self._log.end)).items():
            if not (cursor.live or cursor.closed or cursor.reading) and cursor.position == started[cursor]:
                cursor.lose(count)
        for cursor in behind:
            cursor.version += 1

    async def write_off_elsewhere(self, log: Followed, generation: int) -> None:
        """The same, where another node's log will lose the generation."""
        whole = await log.give_up(generation)
        if whole is None:
            return
        started = {one: one.position for one in self._behind_in(log)}
        for cursor in started:
            cursor.version += 1
        try:
            lost = await self._tally(whole, generation, started, whole.end)
        except Unavailable:
            self._node.counters.readers_uncounted += len(started)
            raise
        for cursor, count in lost.items():
            if cursor.closed:
                self._node.counters.readers_uncounted += 1
            else:
                cursor.lose(count)

    def _behind_in(self, log: Followed) -> Iterable[LogCursor]:
        for session in self._sessions:
            cursor = session.cursor_for(log.writer) if isinstance(session, KeptSession) else None
            if cursor is not None and not cursor.live:
                yield cursor
        yield from (one for one in self._groups.parts() if one.log is log)

    async def _tally(
        self, log: LogReader, generation: int | None, started: Mapping[LogCursor, int], end: int
    ) -> Counter[LogCursor]:
        """What each of these wants of a log from where it was."""
        tally: Counter[LogCursor] = Counter()
        if not started:
            return tally
        wanted = started.keys()
        # Only these may want what no present subscription matches.
        with_past = [cursor for cursor in started if isinstance(cursor, SessionCursor) and cursor.past]
        groups = {cursor.group: cursor for cursor in started if isinstance(cursor, GroupCursor)}
        seen = 0
        async for run in log.scan(generation, min(started.values())):
            if run.position < end and not run.origin.only_up:
                for cursor in self._readers(run, with_past, groups) & wanted:
                    count = run.end - max(run.position, started[cursor])
                    if count > 0 and _wants(cursor, run):
                        tally[cursor] += count
            seen += 1
            if seen % RUNS_A_TURN == 0:
                await breath(self._node.call_soon)
        return tally

    def _readers(
        self, run: LogRun, with_past: list[SessionCursor], groups: Mapping[SharedGroup[Any], GroupCursor]
    ) -> set[LogCursor]:
        match = self._routes.match(run.topic)
        readers: set[LogCursor] = set(with_past)
        for route in match.plain:
            receiver: Session | ReplayCursor = route.receiver
            if isinstance(receiver, ReplayCursor):
                readers.add(receiver)
            elif isinstance(receiver, KeptSession):
                readers.update(receiver.plain_cursors())
        for shared in match.shared:
            cursor = groups.get(shared.group)
            if cursor is not None:
                readers.add(cursor)
        return readers


def _known_in_log(cursor: LogCursor) -> int:
    """Messages in the log, and not returned to it, that are counted although the backlog is not."""
    returned = sum(part.length for part in cursor.returned) if isinstance(cursor, GroupCursor) else 0
    return cursor.uncounted - returned


def _wants(cursor: LogCursor, run: LogRun) -> bool:
    if isinstance(cursor, ReplayCursor):
        return run.position >= cursor.began and not cursor.is_own(run)
    if not isinstance(cursor, SessionCursor):
        return run.run.qos > 0
    route = cursor.wanted(run)
    return route is not None and min(route.qos, run.run.qos) > 0
