"""What is kept of a durable session's way through the log: its position, and what is under way.

Both are written with the turn's batch, whatever made them change how often. A position is written when packet
ids were given out, because that is when messages behind it are accounted for; while a session only falls
further behind, nothing is written for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iot_mqtt.broker.borrowing import Lender
from iot_mqtt.broker.elsewhere import places
from iot_mqtt.ports.store import StoredFlight, StoredProgress
from iot_mqtt.session import Flight, Segment

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.session import Session
    from iot_mqtt.ports.grid import WriteBatch


#: Flights of one segment: what is written again when one message of it is acknowledged.
FLIGHTS = 32


class Progress:
    """A ``ports.store.Stager``."""

    __slots__ = ("_broker", "_moved", "_changed", "_open")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._moved: dict[Session, None] = {}
        self._changed: dict[Segment, Session] = {}
        #: Segments that still take the flights of this turn.
        self._open: dict[Session, Segment] = {}

    def numbered(self, session: Session, flight: Flight) -> None:
        """A flight of a durable session got its packet ids."""
        segment = self._open.get(session)
        if segment is None or len(segment.flights) >= FLIGHTS:
            session.sequence += 1
            segment = self._open[session] = Segment(session.sequence)
            self._moved[session] = None
            self._changed[segment] = session
        segment.flights.append(flight)
        flight.segment = segment

    def finished(self, session: Session, flight: Flight) -> None:
        """Messages of a flight are over."""
        if isinstance(flight.origin, Lender):
            self._broker.borrowing.finished(session, flight)
        if flight.segment is not None and flight.segment not in self._changed:
            self._changed[flight.segment] = session
            self._broker.reserve()
        if flight.shared_segment is not None:
            self._broker.groups.records.finished(flight)

    def changed(self, flight: Flight) -> None:
        """What is remembered of a flight has changed."""
        if flight.segment is not None and flight.segment not in self._changed:
            self._changed[flight.segment] = flight.session
            self._broker.reserve()

    def moved(self, session: Session) -> None:
        """What is to be kept of its cursors has changed."""
        if session.durable and session not in self._moved:
            self._moved[session] = None
            self._broker.reserve()

    def forget(self, session: Session) -> None:
        """The session is not kept any more: remove what is stored."""
        store, client_id = self._broker.store, session.client_id
        self._moved.pop(session, None)
        self._open.pop(session, None)
        store.remove_progress(client_id)
        for segment in self.segments(session):
            self._changed.pop(segment, None)
            if segment.stored:
                store.remove_segment(client_id, segment.number)
        for entry in session.outbound.entries.values():
            if isinstance(entry, Flight):
                entry.segment = None
        for flight in self._broker.borrowing.remembered(session):
            flight.segment = None

    def segments(self, session: Session) -> list[Segment]:
        """The segments of what is under way to a session, and of what is remembered."""
        flights = [entry for entry in session.outbound.entries.values() if isinstance(entry, Flight)]
        flights += self._broker.borrowing.remembered(session)
        return list({flight.segment: None for flight in flights if flight.segment})

    # As a stager.

    def stage(self, batch: WriteBatch, ticket: int) -> None:
        """Add what changed; segments first, so that no position ever claims what is not accounted for."""
        changed, self._changed = self._changed, {}
        moved, self._moved = self._moved, {}
        self._open.clear()
        store = self._broker.store
        for segment, session in changed.items():
            flights = _stored(segment, session)
            if flights:
                store.save_segment(session.client_id, segment.number, flights)
                segment.stored = True
            elif segment.stored:
                store.remove_segment(session.client_id, segment.number)
                segment.stored = False
        end, writer = self._broker.log.end, self._broker.log.writer
        for session in moved:
            cursor = session.cursor
            if cursor is not None and session.durable:
                replays = tuple(replay.stored(end) for replay in (session.replays or {}).values())
                progress = StoredProgress(cursor.place(end), tuple(cursor.past or ()), replays, writer)
                if session.elsewhere or session.unfollowed:
                    progress = progress._replace(elsewhere=tuple(places(session)))
                store.save_progress(session.client_id, progress)

    def committed(self, ticket: int) -> None:
        """Nothing here waits."""


def _stored(segment: Segment, session: Session) -> list[StoredFlight]:
    found = []
    entries = session.outbound.entries
    for flight in segment.flights:
        pieces = tuple((offset, tuple(ids)) for offset, ids in flight.outstanding(entries))
        if isinstance(flight.origin, Lender):
            pieces += tuple(flight.origin.pieces_over(flight))
        if pieces:
            origin = flight.origin.name if flight.origin is not None else ""
            found.append(StoredFlight(flight.reference, flight.qos, flight.retain, flight.identifiers, origin, pieces))
    return found
