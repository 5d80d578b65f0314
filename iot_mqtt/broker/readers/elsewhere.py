"""What durable sessions of this node are owed of other nodes' logs.

::

    link ─▶ fan_out ─▶ offer ─▶ LIVE: sent now                  link broken, no room ─▶ BEHIND ─▶ read that node's log

A session has one cursor for each node's log. One that is live relies on the link with that node: on being offered
everything, in order. What the link loses is in the log, so a broken link makes its cursors fall behind, no more.

**What a session claims of a log.** A subscription claims what is appended from its ``since`` on. It notes that for
every log that there is when it is made: their ends, as the grid has them (``beginnings``). A log it does not name began
after it, and is claimed from its beginning; the same goes for a place that is not there. So a node may join at any
time, and what it records before anybody here has heard of it is read later. A place in a log that nobody here reads
(yet) is kept as it is.

**Where a cursor may rest.** A claim may begin behind the end that was announced: the link has not brought yet what is
before it. What it brings then must not be taken for that claim, so the cursor reads the log up to there, and is live
again behind it.

Positions are exact on both sides: nothing that was offered is read again, and what was read before the link brought it
is not taken a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import cast

from iot_mqtt.broker.claims import ClaimCursor, Doubt, Unfollowed
from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.readers.cursors import SessionCursor, is_plain
from iot_mqtt.broker.readers.logs import Logs
from iot_mqtt.broker.readers.reading import Reading
from iot_mqtt.broker.session import Session
from iot_mqtt.ports.log import Followed, LogRun
from iot_mqtt.ports.store import StoredCount, StoredPlace


class ElsewhereCursor(SessionCursor):
    """One session's reader of another node's log.

    Its ``position`` means something while it is live too: nothing before it is taken again, however it comes. Its
    ``backlog`` is what it was offered and could not take, and what is found besides (``elsewhere_count``).
    """

    __slots__ = ("counted", "offered")

    def __init__(self, node: Reading, session: KeptSession, log: Followed, position: int) -> None:
        super().__init__(node, session, log, position, live=False)
        self.backlog = 0
        #: While it is behind: all that it is owed before here is in the backlog, if this is behind its position.
        self.counted = 0
        #: Messages in the backlog that the count has still to meet in the log.
        self.offered = 0

    @property
    def _is_held(self) -> bool:
        return bool(self.session.beginning) or self.log.end < self.until

    @property
    def front(self) -> int:
        # Not the log's end: that is further where somebody has looked for it, and what is before that may be to come.
        return max(cast(Followed, self.log).announced, self.position)

    def place(self, end: int) -> int:
        return max(end, self.position) if self.live else self.position

    def fall_behind(self, position: int, owed: int) -> None:
        super().fall_behind(max(position, self.position), owed)

    def owe(self, count: int) -> None:
        super().owe(count)
        self.offered += count

    def lose(self, count: int) -> None:
        super().lose(count)
        # Some of it may have been counted, and some not.
        self.counted = 0

    def count_from(self) -> int:
        """From where on something may be in the log that it is owed and that nobody has counted."""
        if self.counted <= self.position:
            self.counted, self.offered = self.position, self.owed
        return self.counted

    def claimed(self, runs: Sequence[LogRun], start: int, total: int) -> int:
        """How many messages it is owed of these runs, from a position on. They are of one topic and one publisher, and
        above QoS 0: ``total`` messages.
        """
        first, last = runs[0].position, runs[-1].position
        claims = self._claims_on(runs[0].topic)
        if start <= first and all(since <= first and (until is None or last < until) for _, since, until in claims):
            return total if self._is_owed(runs[0]) else 0
        return sum(run.end - max(run.position, start) for run in runs if start < run.end and self._is_owed(run))

    def _is_owed(self, run: LogRun) -> bool:
        route = self.wanted(run)
        return route is not None and route.qos > 0

    def count_to(self, end: int, count: int) -> None:
        """So many messages that it is owed are in the log between ``count_from`` and ``end``."""
        new = max(0, count - self.offered)
        self.offered = max(0, self.offered - count)
        self.counted = end
        # What the link has still to bring from before that is not counted a second time.
        self.until = max(self.until, end)
        self.found(new)
        super().owe(new)
        self.forget_claims()

    def is_offered(self) -> bool:
        if self._is_held:
            self._here.links.wants_more(self)
            return False
        return self._here.links.rests(self, self.log.writer)

    def nothing_there(self) -> None:
        if not self._here.links.is_ending(self.log.writer):
            super().nothing_there()

    def offer(
        self,
        publication: Publication,
        logged: LogRun,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
    ) -> None:
        known = self.position - logged.position
        if known > 0:
            # It was read before the link brought it, and counted then.
            known = min(known, publication.count)
            self._here.counters.messages_matched -= known
            if known == publication.count:
                return
            if self.live:
                self.fall_behind(self.position, 0)
                self._here.call_soon(self.read_on)
            self.owe(publication.count - known)
            return
        if not self.live and (self._is_held or logged.position < self.until):
            # Whether it is owed is known when it is read, and it is counted then.
            self._here.counters.messages_matched -= publication.count
            self.learns_of(logged)
            return
        super().offer(publication, logged, qos, retain, identifiers)
        if self.live:
            self.position = logged.end

    def dealt_with(self, count: int) -> None:
        # What it was never offered is counted now.
        self.over(count)


def follow(node: Reading, session: KeptSession, reader: Followed, position: int | None = None) -> ElsewhereCursor:
    """Give a durable session a cursor for another node's log.

    It goes on where it was kept, or begins at ``position``, or with the log, where the session has a claim on that.
    """
    unfollowed = session.unfollowed.pop(reader.writer, None) if session.unfollowed else None
    in_doubt = session.in_doubt and unfollowed is not None
    unfollowed = unfollowed or Unfollowed(position or 0)
    cursor = ElsewhereCursor(node, session, reader, unfollowed.position)
    if in_doubt:
        cursor.doubt = Doubt(reader.end)
    beginning: Collection[str] = session.beginning or ()
    cursor.since = {
        filter: unfollowed.since.get(filter, position or 0)
        for filter in session.subscriptions
        if is_plain(filter) and filter not in beginning
    }
    cursor.past = list(unfollowed.past) or None
    claims = [*cursor.since.values(), *(past.since for past in unfollowed.past)]
    cursor.until = max(claims, default=0)
    # What is before its first claim need not be looked at.
    cursor.position = max(cursor.position, min(claims)) if claims else max(cursor.position, reader.end)
    if session.counted is not None:
        cursor.take_over(session.counted.pop(reader.writer, None))
    if session.elsewhere is None:
        session.elsewhere = {}
    session.elsewhere[reader.writer] = cursor
    return cursor


def follow_all(node: Reading, session: KeptSession, readers: Iterable[Followed]) -> None:
    """Cursors for all logs that are read here and that the session has none for."""
    for reader in readers:
        if session.elsewhere is None or reader.writer not in session.elsewhere:
            follow(node, session, reader)


def places(session: KeptSession) -> Iterator[StoredPlace]:
    """What is kept of the session's way through other nodes' logs."""
    for writer, cursor in (session.elsewhere or {}).items():
        yield StoredPlace(writer, cursor.place(cursor.front), tuple(cursor.past or ()))
    for writer, unfollowed in (session.unfollowed or {}).items():
        yield StoredPlace(writer, unfollowed.position, unfollowed.past)


def counted(session: KeptSession) -> Iterator[StoredCount]:
    """By log: what is counted of what the session is owed, and whether that is all that any node has counted."""
    for cursor in session.plain_cursors():
        end = max(cursor.front, cursor.until)
        yield StoredCount(cursor.log.writer, cursor.owed, cursor.told, end)
    yield from (session.counted or {}).values()


class Elsewhere:
    """The readers of other nodes' logs, of all sessions here, where one node is concerned."""

    __slots__ = ("_sessions", "_logs", "_call_soon")

    def __init__(
        self, sessions: Iterable[Session], logs: Logs, call_soon: Callable[[Callable[[], None]], None]
    ) -> None:
        self._sessions = sessions
        self._logs = logs
        self._call_soon = call_soon

    def _cursors(self, writer: int) -> Iterator[ClaimCursor]:
        for session in self._sessions:
            elsewhere = session.elsewhere if isinstance(session, KeptSession) else None
            if elsewhere and writer in elsewhere:
                yield elsewhere[writer]

    def stream_broken(self, writer: int) -> None:
        """What a node forwarded is lost in part, or it has begun a new life: all cursors of its log read it from here.

        To be called before anything that comes behind the hole is announced or offered. They are live again at the end
        that is known then, provided that the node acts on what is wanted here (``Links.rests``).
        """
        reader = self._logs.of(writer)
        if reader is None:
            return
        for cursor in self._cursors(writer):
            if cursor.live:
                cursor.fall_behind(cursor.front, 0)
            else:
                cursor.may_have_more()
        self._call_soon(partial(self.read_on, writer))

    def grew(self, writer: int) -> None:
        """The end of a node's log was found to be further than what the link brought: by ``refresh``."""
        for cursor in self._cursors(writer):
            if cursor.live:
                # Nothing that it wants is between what it took last and what was offered last.
                cursor.fall_behind(cursor.position, 0)
            else:
                cursor.may_have_more()
        self._call_soon(partial(self.read_on, writer))

    def read_on(self, writer: int) -> None:
        """Those that are behind and have room."""
        for cursor in list(self._cursors(writer)):
            cursor.read_on()
