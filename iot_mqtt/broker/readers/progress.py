"""What is kept of a durable session's way through the log: its position, and what is under way.

Both are written in one batch, because a position says that everything before it is over or in a segment. While a
session only falls further behind, nothing is written for it.

What QoS 1 changes may be written a little later: should the node die meanwhile, the messages since are in the log
behind the position that is stored, and are sent once more (``broker.repeating``). Most of it is over by then and never
written at all::

    numbered ──▶ late ─(delay)─▶ due ─(with the next batches, some with each)─▶ written
        └─ QoS 2, or the session changed in another way ─▶ with the next batch ─▶ written, all of the session
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from iot_mqtt.broker.claims import IDS_AHEAD
from iot_mqtt.broker.kept_session import KeptSession, is_durable
from iot_mqtt.broker.readers.elsewhere import counted, places
from iot_mqtt.broker.sending.repeating import is_in_doubt
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.shared_groups import Leader, SharedGroups
from iot_mqtt.broker.turn import Turn
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.ports.log import Log, Reference
from iot_mqtt.ports.store import Store, StoredCount, StoredFlight, StoredProgress, StoredUnread
from iot_mqtt.session import Convoy, Flight, Segment
from iot_mqtt.session.outbound import MAX_PACKET_ID

#: Flights of one segment: what is written again when one message of it is acknowledged.
FLIGHTS = 32
#: Sessions that are due and written with one batch, which others wait for.
SESSIONS_A_BATCH = 200
#: Flights after which no further session that is due is written with it: a millisecond is room for 300. What waits
#: for a later batch may be over by then.
FLIGHTS_A_BATCH = 1000


class _Unwritten:
    """What has changed of one session."""

    __slots__ = ("flights", "segments", "moved")

    def __init__(self) -> None:
        #: Those that are in no segment yet.
        self.flights: list[Flight] = []
        self.segments: dict[Segment, None] = {}
        self.moved = False


class Progress:
    """A ``ports.store.CommitParticipant``."""

    __slots__ = (
        "groups",
        "_store",
        "_log",
        "_turn",
        "_clock",
        "_delay",
        "_unwritten",
        "_now",
        "_late",
        "_due",
        "_waiting",
    )

    #: Set before anything is under way: groups note here what their members have.
    groups: SharedGroups

    def __init__(self, store: Store, log: Log, turn: Turn, clock: Clock, delay: float) -> None:
        self._store = store
        self._log = log
        self._turn = turn
        self._clock = clock
        self._delay = delay
        self._unwritten: dict[KeptSession, _Unwritten] = {}
        # Who of them is written when. One that was written earlier than it was due has nothing unwritten then.
        self._now: dict[KeptSession, None] = {}
        self._late: dict[KeptSession, None] = {}
        self._due: dict[KeptSession, None] = {}
        self._waiting = False

    def may_be_late(self, session: KeptSession, ids: Sequence[int]) -> bool:
        """Whether QoS 1 messages may be sent before it is written that they have these ids."""
        return _is_ahead(session.last_id_kept, ids)

    def safe_with(self, session: KeptSession, last: Reference, ids: Sequence[int]) -> int:
        """The batch that must be over before messages up to ``last`` are sent of which it may be written late that they
        are under way: they are in the log then, and the id that theirs are counted from is written.
        """
        log = self._log
        if last.position + last.length > log.committed_end and last.writer == log.writer:
            return self._store.latest
        # While that id is written anew they can be counted from the one that was written before, too.
        return 0 if _is_ahead(session.last_id_sure, ids) else session.kept_with

    def begin(self, session: KeptSession) -> None:
        """A client is back and about to get what waits for it in the log: have written from where on, and from which id
        on, before any of it is sent. Then where it is under way may be written late from the first message on.
        """
        if self._delay and session.durable and session.last_id_kept is None and session.connection is not None:
            self._unwritten.setdefault(session, _Unwritten()).moved = True
            self._write((session,))
            session.kept_with, session.last_id_sure = self._store.latest, None
            self._now.pop(session, None)
            self._turn.plan()

    def numbered(self, session: KeptSession, flights: Sequence[Flight], *, late: bool = False) -> None:
        """Flights of a durable session got their packet ids."""
        unwritten = self._of(session, late=late)
        unwritten.moved = True
        unwritten.flights += flights

    def finished(self, session: Session, flight: Flight) -> None:
        """Messages of a flight are over."""
        if flight.origin is not None:
            self.groups.finished(session, flight)
        if flight.segment is not None and isinstance(session, KeptSession):
            self._of(session, late=flight.qos == 1 and self._delay > 0).segments[flight.segment] = None

    def changed(self, flight: Flight) -> None:
        """What is remembered of a flight has changed."""
        if flight.segment is not None:
            self._of(flight.session, late=False).segments[flight.segment] = None

    def moved(self, session: Session) -> None:
        """What is to be kept of its cursors has changed."""
        if is_durable(session):
            self._of(session, late=False).moved = True

    def id_given(self, session: Session) -> None:
        """A message of a durable session that is kept by value got a packet id."""
        if self._delay:
            self.moved(session)

    def _of(self, session: KeptSession, *, late: bool) -> _Unwritten:
        """What is unwritten of a session, to add to; it is written with the next batch, or late."""
        unwritten = self._unwritten.get(session)
        if not late and session not in self._now:
            self._now[session] = None
            self._turn.reserve()
        if unwritten is None:
            unwritten = self._unwritten[session] = _Unwritten()
            if late:
                self._wait(session)
        return unwritten

    def _wait(self, session: KeptSession) -> None:
        self._late[session] = None
        if not self._waiting:
            self._waiting = True
            self._clock.call_later(self._delay, self._delay_over)

    def _delay_over(self) -> None:
        self._waiting = False
        late, self._late = self._late, {}
        self._due.update((session, None) for session in late if session in self._unwritten)
        if self._due:
            self._turn.reserve()

    def write_down(self, session: KeptSession) -> None:
        """All that has changed of a session, now: it is about to leave the memory."""
        self._unwritten.setdefault(session, _Unwritten()).moved = True
        self._write((session,), leaving=True)
        for segment in self.segments(session):
            segment.flights = []

    def forget(self, session: KeptSession) -> None:
        """The session is not kept any more: remove what is stored."""
        store, client_id = self._store, session.client_id
        unwritten = self._unwritten.pop(session, None)
        store.remove_progress(client_id)
        segments = dict.fromkeys(self.segments(session))
        if unwritten is not None:
            segments.update(unwritten.segments)
        for segment in segments:
            if segment.stored:
                store.remove_segment(client_id, segment.number)
            segment.flights = []
        for entry in session.outbound.entries.values():
            if isinstance(entry, Flight):
                entry.segment = None
        for flight in self.groups.remembered(session):
            flight.segment = None

    def segments(self, session: Session) -> list[Segment]:
        """The segments of what is under way to a session, and of what is remembered."""
        flights = [entry for entry in session.outbound.entries.values() if isinstance(entry, Flight)]
        flights += self.groups.remembered(session)
        return list({flight.segment: None for flight in flights if flight.segment})

    # As a participant in commits.

    def contribute(self, batch: WriteBatch, ticket: int) -> None:
        """Add what is to be written now."""
        now, self._now = self._now, {}
        room, due = FLIGHTS_A_BATCH, []
        for session in list(islice(self._due, SESSIONS_A_BATCH)):
            del self._due[session]
            if session.kept_with <= self._store.committed:
                session.last_id_sure = session.last_id_kept
            due.append(session)
            room -= self._under_way(session)
            if room <= 0:
                break
        for session in now:
            session.last_id_sure = None
        self._write((*now, *due))
        for session in (*now, *due):
            session.kept_with = ticket

    def _under_way(self, session: KeptSession) -> int:
        """About how many flights are written with a session."""
        unwritten = self._unwritten.get(session)
        if unwritten is None:
            return 0
        new = sum(len(one.references) if isinstance(one, Convoy) else 1 for one in unwritten.flights)
        return new + sum(len(segment.flights) for segment in unwritten.segments)

    def _write(self, sessions: Iterable[KeptSession], *, leaving: bool = False) -> None:
        """Segments first, so that no position ever claims what is not accounted for; those of all sessions, because a
        grid of several servers writes what stands together at once.
        """
        moved = []
        for session in sessions:
            unwritten = self._unwritten.pop(session, None)
            if unwritten is not None:
                self._write_segments(session, unwritten)
                if unwritten.moved:
                    moved.append(session)
        for session in moved:
            self._save_position(session, tuple(counted(session)) if leaving else None)

    def _write_segments(self, session: KeptSession, unwritten: _Unwritten) -> None:
        client_id, store = session.client_id, self._store
        for segment in unwritten.segments:
            kept = [(flight, stored) for flight in segment.flights if (stored := _stored(flight))]
            if kept:
                store.save_segment(client_id, segment.number, [stored for _, stored in kept])
            elif segment.stored:
                store.remove_segment(client_id, segment.number)
            segment.stored = bool(kept)
            # Flights refer to it: with those that are over it would be a cycle, until everything is searched for such.
            segment.flights = [flight for flight, _ in kept]
        # With nothing under way all of it is over, but for what a group remembers.
        left = [flight for flight in unwritten.flights if session.outbound.entries or flight.origin is not None]
        left = [one for flight in left for one in _unfolded(flight)]
        begun = [(flight, stored) for flight in left if (stored := _stored(flight))]
        for start in range(0, len(begun), FLIGHTS):
            part = begun[start : start + FLIGHTS]
            session.sequence += 1
            segment = Segment(session.sequence)
            segment.flights = [flight for flight, _ in part]
            for flight in segment.flights:
                flight.segment = segment
            store.save_segment(client_id, segment.number, [stored for _, stored in part])
            segment.stored = True

    def _save_position(self, session: KeptSession, counts: tuple[StoredCount, ...] | None) -> None:
        cursor, log = session.cursor, self._log
        if cursor is None or not session.durable:
            return
        end = log.end
        replays = tuple(replay.stored(end) for replay in (session.replays or {}).values())
        # While nobody is connected no ids are used; but what an earlier life had sent may still be to come.
        ahead = session.connection is not None or is_in_doubt(session)
        session.last_id_kept = session.outbound.last if self._delay and ahead else None
        progress = StoredProgress(
            cursor.place(end),
            tuple(cursor.past or ()),
            replays,
            log.writer,
            tuple(places(session)),
            session.last_id_kept,
            counts,
            tuple(StoredUnread(filter, reader.after) for filter, reader in (session.readers or {}).items()),
        )
        self._store.save_progress(session.client_id, progress)

    def committed(self, ticket: int) -> None:
        """Some of what is due may not have been in the batch."""
        if self._due:
            self._turn.reserve()


def _is_ahead(kept: int | None, ids: Sequence[int]) -> bool:
    """Whether ids from the first to the last of these can be counted from one that is written."""
    if kept is None:
        return False
    return 0 < (ids[0] - kept) % MAX_PACKET_ID <= IDS_AHEAD and 0 < (ids[-1] - kept) % MAX_PACKET_ID <= IDS_AHEAD


def _unfolded(flight: Flight) -> Sequence[Flight]:
    """As what it is kept."""
    return flight.unfold(flight.session.outbound.entries) if isinstance(flight, Convoy) else (flight,)


def _stored(flight: Flight) -> StoredFlight | None:
    """What there is to keep of a flight, if anything."""
    pieces = tuple((offset, tuple(ids)) for offset, ids in flight.outstanding(flight.session.outbound.entries))
    if isinstance(flight.origin, Leader):
        pieces += tuple(flight.origin.pieces_over(flight))
    if not pieces:
        return None
    origin = flight.origin.name if flight.origin is not None else ""
    return StoredFlight(flight.reference, flight.qos, flight.retain, flight.identifiers, origin, pieces)
