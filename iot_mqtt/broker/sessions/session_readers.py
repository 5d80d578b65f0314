"""Who reads the logs for durable sessions: a cursor for each log, from when on, and until nobody is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iot_mqtt.broker.kept_session import KeptSession, is_durable
from iot_mqtt.broker.readers.census import Census
from iot_mqtt.broker.readers.cursors import SessionCursor, is_plain
from iot_mqtt.broker.readers.elsewhere import follow
from iot_mqtt.broker.readers.elsewhere_count import ElsewhereCount
from iot_mqtt.broker.readers.logs import Logs
from iot_mqtt.broker.readers.reading import Reading
from iot_mqtt.broker.sessions.replays import Replays
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.ports.log import Followed


@dataclass(frozen=True, slots=True, eq=False)
class SessionReaders:
    """Gives sessions their cursors."""

    sessions: Sessions
    reading: Reading
    logs: Logs
    replays: Replays
    census: Census
    elsewhere_count: ElsewhereCount

    def begin(self, session: KeptSession) -> None:
        """It is kept from now on, and is owed what comes."""
        own = self.logs.own
        cursor = session.cursor
        if cursor is None:
            cursor = session.cursor = SessionCursor(self.reading, session, own, own.end, live=True)
        known = session.elsewhere or {}
        new = [reader for writer, reader in self.logs.others.items() if writer not in known]
        self._read_soon([follow(self.reading, session, reader, reader.end) for reader in new])
        for filter in session.subscriptions:
            if is_plain(filter):
                cursor.since.setdefault(filter, own.end)

    def fall_behind(self, session: KeptSession) -> None:
        """Nobody is there to take messages; what comes now is read later."""
        if any(not cursor.live for cursor in (session.elsewhere or {}).values()):
            self.elsewhere_count.again()
        for cursor in session.cursors():
            if cursor.live:
                cursor.fall_behind(cursor.front, 0)
            cursor.left()
        self.replays.wait(session)
        if session.cursor is not None and session.cursor.backlog is None:
            self.census.begin()

    def follow(self, reader: Followed) -> None:
        """The log of another node can be read from now on: every durable session does."""
        self._read_soon(
            [
                follow(self.reading, session, reader)
                for session in self.sessions
                if is_durable(session) and session.cursor is not None and session not in self.sessions.loading
            ]
        )

    def _read_soon(self, cursors: Sequence[SessionCursor]) -> None:
        def read() -> None:
            for cursor in cursors:
                cursor.read_on()

        if cursors:
            self.reading.call_soon(read)
