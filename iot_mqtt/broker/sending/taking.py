"""What a session takes: messages of the log by reference, others by value. Each gets its packet id and its place in the
session's line, and what has to be safe before it leaves is staged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar, Protocol

from iot_mqtt.broker.kept_session import KeptSession, is_durable
from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.sending import ending
from iot_mqtt.broker.sending.repeating import out_of_order
from iot_mqtt.broker.sending.waiting import Waiting
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.turn import Turn
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import LogRun, Reference
from iot_mqtt.ports.store import Store
from iot_mqtt.session import Convoy, Delivery, Flight, Piece, Row
from iot_mqtt.values import Message


class Origin(Protocol):
    """Who reads the log for a session: a cursor of its own, or a shared group."""

    is_shared: ClassVar[bool]
    name: str

    def under_way(self, flight: Flight, /) -> None:
        """A session has messages under way that were read by it."""
        ...


class Progress(ending.Progress, Protocol):
    """What is kept of sessions' ways through the log."""

    def may_be_late(self, session: KeptSession, ids: Sequence[int]) -> bool:
        """Whether QoS 1 messages may be sent before it is written that they have these ids."""
        ...

    def safe_with(self, session: KeptSession, last: Reference, ids: Sequence[int]) -> int:
        """The batch that must be over before messages up to ``last`` are sent in that case."""
        ...

    def numbered(self, session: KeptSession, flights: Sequence[Flight], *, late: bool = False) -> None:
        """Flights of a durable session got their packet ids."""
        ...

    def id_given(self, session: Session) -> None:
        """A message of a durable session that is kept by value got a packet id."""
        ...


class Taking:
    """For all sessions of a node."""

    __slots__ = ("_store", "_turn", "_progress", "_waiting")

    def __init__(self, store: Store, turn: Turn, progress: Progress, waiting: Waiting) -> None:
        self._store = store
        self._turn = turn
        self._progress = progress
        self._waiting = waiting

    # Messages of the log.

    def take(
        self,
        session: Session,
        publication: Publication,
        reference: Reference,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        cursor: Origin,
        *,
        again: bool = False,
        had: Sequence[int] = (),
    ) -> int:
        """Put as much of a publication under way as the window has room for; how many messages that is.

        ``again``: they may have been sent before. ``had``: the ids that they had then, if that is known; they have the
        same where all of these are free [MQTT-4.4.0-1].
        """
        outbound = session.outbound
        count = min(outbound.room, publication.count)
        if count <= 0 or session.connection is None:
            return 0
        if count < publication.count:
            reference = reference.part(0, count)
        out_of_order(session, cursor)
        ids = had[:count] if had and outbound.is_free(had[:count]) else outbound.reserve(count)
        flight = Flight(
            session, reference, ids, qos, retain=retain, identifiers=identifiers, origin=cursor if cursor.name else None
        )
        if again:
            flight.sent = count
        outbound.entries.update(dict.fromkeys(ids, flight))
        flight.ticket = ticket = self._note(session, (flight,), reference, cursor)
        self._waiting.under_way(session, count, ticket)
        line_up(session, Piece(flight, 0, ids, publication))
        return count

    def take_alike(self, session: Session, runs: Sequence[LogRun], identifiers: tuple[int, ...], cursor: Origin) -> int:
        """Put runs of QoS 1 under way that are for one subscription and that the window has room for, as ``take`` would
        one by one; how many messages that is.
        """
        outbound = session.outbound
        out_of_order(session, cursor)
        references = [run.reference for run in runs]
        count = sum([reference[3] for reference in references])
        ids = outbound.reserve(count)
        convoy = Convoy(session, references, ids, identifiers, cursor if cursor.name else None)
        outbound.entries.update(dict.fromkeys(ids, convoy))
        convoy.ticket = ticket = self._note(session, (convoy,), references[-1], cursor)
        self._waiting.under_way(session, count, ticket)
        if session.sending is None:
            session.sending = deque()
        session.sending.append(Row(convoy, runs))
        session.unsent += count
        return count

    def _note(self, session: Session, flights: Sequence[Flight], last: Reference, cursor: Origin) -> int:
        """Have written what there is to write of new flights of one QoS, up to ``last``; the batch that they wait for
        (0: none).
        """
        progress, qos = self._progress, flights[0].qos
        ends = flights[0].ids[0], flights[-1].ids[-1]
        if is_durable(session) and qos == 1 and not cursor.name and progress.may_be_late(session, ends):
            progress.numbered(session, flights, late=True)
            # What it refers to is to be safe; where it is under way may be written later.
            return progress.safe_with(session, last, ends)
        if not session.durable and not cursor.is_shared:
            return 0
        ticket = self._turn.reserve()
        # A message of a group goes to another member when this one is gone, but not in the middle of QoS 2.
        if is_durable(session) and (qos == 2 or not cursor.is_shared):
            progress.numbered(session, flights)
        for flight in flights if cursor.is_shared else ():
            cursor.under_way(flight)
        return ticket

    # Messages that are kept by value.

    def accept(
        self,
        session: Session,
        message: Message,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        origin: object | None,
    ) -> Drop | None:
        """Take a QoS 1 or 2 message for a session, or say why not. The caller pumps afterwards."""
        reason = session.queue.refusal(message.size)
        if reason is not None:
            return reason
        delivery = Delivery(message, qos, retain=retain, identifiers=identifiers, origin=origin)
        at_once = session.connection is not None and not session.queue and session.outbound.room > 0
        if at_once:
            out_of_order(session)
            session.outbound.keep(delivery)
            line_up(session, delivery)
        else:
            session.queue.append(delivery)
        if is_durable(session):
            self.store(session, delivery)
        return None

    def store(self, session: KeptSession, delivery: Delivery) -> None:
        """Keep a delivery of a durable session; it is sent when that is safe."""
        store = self._store
        session.sequence += 1
        delivery.sequence = session.sequence
        store.save_delivery(
            session.client_id,
            delivery.sequence,
            delivery.message,
            delivery.qos,
            delivery.retain,
            delivery.identifiers,
            delivery.packet_id,
            delivery.origin is not None,
        )
        delivery.ticket = store.latest
        if delivery.packet_id:
            self._progress.id_given(session)

    def number(self, session: Session, delivery: Delivery) -> None:
        """A delivery leaves the queue for the line. Its id must be safe before it is used, or a restart would send the
        message under another one.
        """
        session.outbound.keep(delivery)
        if session.durable:
            delivery.dup_stored = True
            self._store.save_dup(session.client_id, delivery.packet_id, delivery.sequence)
            delivery.ticket = self._store.latest
        line_up(session, delivery)

    def numbered(self, session: Session) -> None:
        """Some have left the queue. What called may be nothing but a client that reads again: then nobody else would
        commit the ids.
        """
        if session.durable:
            self._turn.plan()
            self._progress.id_given(session)


def line_up(session: Session, item: Delivery | Piece) -> None:
    """It is sent when it is safe, behind what is in the line already."""
    if session.sending is None:
        session.sending = deque()
    session.sending.append(item)
    session.unsent += 1 if isinstance(item, Delivery) else len(item)
