"""Messages that are to be sent again come from the log: a flight holds none once they have been sent."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from typing import TypeAlias

from iot_mqtt.broker.driving import RETRY_SECONDS, done, drive
from iot_mqtt.broker.log_cursor import Replay
from iot_mqtt.broker.publication import Publication, Replayed, logged_publication
from iot_mqtt.broker.sending.ending import Ending
from iot_mqtt.broker.session import Line, Session
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import LogRun, Reference
from iot_mqtt.session import Piece

log = logging.getLogger(__name__)

#: Messages of the logs again, in the order asked for; None where retention has removed them.
Fetch: TypeAlias = Callable[[Sequence[Reference]], Awaitable[list[LogRun | None]]]

#: Pieces fetched in one go: what one client that comes back adds to memory.
PIECES = 64


class Refetching:
    """Fetches for the pieces at the head of a session's queue, one fetch per session at a time."""

    __slots__ = ("_fetch", "_clock", "_ending", "_pump", "_busy")

    def __init__(self, fetch: Fetch, clock: Clock, ending: Ending, pump: Callable[[Session], None]) -> None:
        self._fetch = fetch
        self._clock = clock
        self._ending = ending
        self._pump = pump
        #: Session → the queue that is being filled; another queue means another connection.
        self._busy: dict[Session, Line] = {}

    def fetch(self, session: Session, sending: Line) -> None:
        """Bring the messages of the first pieces, then pump."""
        if self._busy.get(session) is sending:
            return
        self._busy[session] = sending
        pieces = [item for item in islice(sending, PIECES) if isinstance(item, Piece) and item.publication is None]
        drive(self._fill(session, sending, pieces), done, partial(self._failed, session, sending))

    async def _fill(self, session: Session, sending: Line, pieces: list[Piece]) -> None:
        wanted = [piece.flight.reference.part(piece.offset, piece.offset + len(piece)) for piece in pieces]
        runs = await self._fetch(wanted)
        current = self._release(session, sending)
        if not current:
            return
        for piece, run in zip(pieces, runs, strict=True):
            if run is None:
                # Found at the head by and by; there is nothing to send for it.
                sending.remove(piece)
                session.unsent -= len(piece)
                self._ending.discard_flight(session, piece.flight, piece.ids, Drop.RETENTION)
                continue
            piece.publication = _publication(session, piece, run)
            piece.base = piece.offset
        self._pump(session)

    def _release(self, session: Session, sending: Line) -> bool:
        """The fetch is over; False when it is of no use any more."""
        if self._busy.get(session) is sending:
            del self._busy[session]
        return session.sending is sending

    def _failed(self, session: Session, sending: Line, error: BaseException) -> None:
        """Not ready is not gone: later again."""
        self._release(session, sending)
        log.error("reading the log failed; trying again: %s", error)
        self._clock.call_later(RETRY_SECONDS, partial(self._pump, session))


def _publication(session: Session, piece: Piece, run: LogRun) -> Publication:
    """As it was sent the first time."""
    connection = session.connection
    if connection is not None and connection.five and isinstance(piece.flight.origin, Replay):
        return Replayed(run, connection.max_packet_size)
    return logged_publication(run)
