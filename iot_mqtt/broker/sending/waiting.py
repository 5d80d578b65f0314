"""Who waits for a commit, or for a turn's end, before more is sent; and how much is read until then."""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.broker.log_cursor import LogCursor
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.turn import Turn
from iot_mqtt.ports.store import Store

#: Messages that are put under way, over all sessions, before nobody reads more of the log: they are in memory until
#: they are sent.
READ_AHEAD = 4_000


class Waiting:
    """Of one node. ``pump`` lets a session go on."""

    __slots__ = ("_store", "_turn", "_pump", "_sessions", "_readers", "_behind_commit", "_behind_turn")

    def __init__(self, store: Store, turn: Turn, pump: Callable[[Session], None]) -> None:
        self._store = store
        self._turn = turn
        self._pump = pump
        #: Sessions whose next delivery waits for a commit.
        self._sessions: dict[Session, None] = {}
        #: Who is to read only when some of these are sent.
        self._readers: dict[LogCursor, None] = {}
        #: Messages that were put under way since the last commit, and wait for the next.
        self._behind_commit = 0
        #: Of this turn those that wait for nothing but its end.
        self._behind_turn = 0

    def __contains__(self, session: Session) -> bool:
        return session in self._sessions

    def add(self, session: Session) -> None:
        """It goes on after the next commit."""
        self._sessions[session] = None

    def under_way(self, session: Session, count: int, ticket: int) -> None:
        """So many messages of it are sent when a commit is over, or with this turn if it is."""
        self._sessions[session] = None
        if ticket > self._store.committed:
            self._behind_commit += count
            self._turn.plan()
        else:
            if not self._behind_turn:
                self._turn.call_soon(self._turn_over)
            self._behind_turn += count

    def must_wait(self, cursor: LogCursor) -> bool:
        """Whether a cursor is to read later, and will be told when."""
        if self._behind_commit + self._behind_turn < READ_AHEAD:
            return False
        self._readers[cursor] = None
        return True

    def committed(self) -> None:
        """A commit is over: sessions that waited for one go on."""
        self._behind_commit = 0
        self._go_on()

    def _turn_over(self) -> None:
        self._behind_turn = 0
        self._go_on()

    def _go_on(self) -> None:
        if self._sessions:
            sessions, self._sessions = self._sessions, {}
            for session in sessions:
                self._pump(session)
        if self._readers:
            readers, self._readers = self._readers, {}
            for cursor in readers:
                cursor.read_on()
