"""Towards one session: take or accept, number, send, repeat.

Messages of the log come as flights, by reference; their way is short, because a session takes only what its
window has room for and leaves the rest in the log::

    take ─▶ sending ─(committed, outbox has room)─▶ on the wire ─▶ acknowledged

Others (retained ones, everything for sessions that are not durable) come as deliveries, by value::

    accept ─▶ queue ─(window has room)─▶ sending ─(committed, outbox has room)─▶ on the wire ─▶ acknowledged
                 └──────── durable sessions: one record from here until the acknowledgement ──────┘

``pump`` moves what a session has as far as it goes and stops with a reason; what lifts that reason
(acknowledgement, commit, writability, reconnect) calls it again. It never blocks.
"""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.broker.sending.commands import Known, Leave
from iot_mqtt.broker.sending.ending import Ending
from iot_mqtt.broker.sending.leaving import Leaving
from iot_mqtt.broker.sending.refetching import Fetch, Refetching
from iot_mqtt.broker.sending.repeating import out_of_order
from iot_mqtt.broker.sending.taking import Progress, Taking, line_up
from iot_mqtt.broker.sending.waiting import Waiting
from iot_mqtt.broker.sending.writing import Writing
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.turn import Turn
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.store import Store
from iot_mqtt.session import Convoy, Delivery, Flight, Piece, Row

#: Packet ids handed out in one go; bounds what one session adds to a batch.
STRIDE = 256


class Outflow:
    """What the sessions of one node have under way, put together, and what moves it."""

    __slots__ = (
        "take",
        "take_alike",
        "accept",
        "store",
        "finished",
        "forget",
        "must_wait",
        "committed",
        "read_on",
        "read_retained",
        "_store",
        "_clock",
        "_taking",
        "_waiting",
        "_ending",
        "_leaving",
        "_writing",
        "_refetching",
    )

    # Set by whoever composes the node, before there are sessions:
    #: A session has room: whatever reads the log for it is to read on.
    read_on: Callable[[Session], None]
    #: Its retained messages are to be read on; False if no more can be done now.
    read_retained: Callable[[Session], bool]

    def __init__(
        self,
        store: Store,
        turn: Turn,
        clock: Clock,
        counters: Counters,
        progress: Progress,
        commands: Known,
        fetch: Fetch,
    ) -> None:
        """``fetch`` brings messages of the logs again."""
        self._store = store
        self._clock = clock
        self._waiting = waiting = Waiting(store, turn, self.pump)
        self._taking = taking = Taking(store, turn, progress, waiting)
        self._ending = ending = Ending(store, counters, progress, commands)
        self._leaving = Leaving(store, turn, ending, commands)
        self._writing = Writing(clock, counters, ending)
        self._refetching = Refetching(fetch, clock, ending, self.pump)
        # What others ask of one of these, and of nobody else.
        self.take, self.take_alike = taking.take, taking.take_alike
        self.accept, self.store = taking.accept, taking.store
        self.finished, self.forget = ending.finished, ending.forget
        self.must_wait, self.committed = waiting.must_wait, waiting.committed

    def pump(self, session: Session) -> None:
        """Send what may be sent now."""
        has_read = False
        while self._send_lined_up(session):
            if session.queue:
                if not self._number(session):
                    return
            elif session.readers:
                if not self.read_retained(session):
                    return
            else:
                if has_read:
                    return
                # What is safe leaves at once, with CONNACK or what else there is.
                self.read_on(session)
                has_read = True

    def _send_lined_up(self, session: Session) -> bool:
        """Send deliveries that have their id; True when none is left and the window has room."""
        connection = session.connection
        if connection is None:
            return False
        sending, outbound = session.sending, session.outbound
        if sending:
            committed, writing = self._store.committed, self._writing
            while sending:
                item = sending[0]
                if item.ticket > committed:
                    self._waiting.add(session)
                    return False
                room = outbound.limit - len(outbound) + session.unsent
                if not connection.writable or room <= 0:
                    return False
                if writing.send_alike(session, sending, room, committed):
                    continue
                if isinstance(item, Piece) and item.publication is None:
                    self._refetching.fetch(session, sending)
                    return False
                assert not isinstance(item, Row)
                leave = self._leaving.judge(session, item)
                if leave is Leave.WAIT:
                    self._waiting.add(session)
                    return False
                if leave is not Leave.YES:
                    continue
                if isinstance(item, Delivery):
                    sending.popleft()
                    writing.send_delivery(session, item)
                elif len(item) > room:
                    # There may be room again, if some of it was not sent at all.
                    writing.send_piece(session, item.first(room))
                else:
                    sending.popleft()
                    writing.send_piece(session, item)
        session.sending = None
        return outbound.room > 0 and connection.writable

    def _number(self, session: Session) -> bool:
        """Give packet ids to queued deliveries, as many as the window takes; False when it took none."""
        queue = session.queue
        room = min(session.outbound.room, STRIDE)
        wall = self._clock.wall()
        moved = False
        out_of_order(session)
        while room > 0 and queue:
            delivery = queue.popleft()
            moved = True
            if delivery.expired(wall):
                self._ending.discard(session, delivery, Drop.EXPIRED)
                continue
            room -= 1
            self._taking.number(session, delivery)
        self._taking.numbered(session)
        return moved

    def resume(self, session: Session) -> None:
        """After a reconnect: everything unacknowledged again, in order [MQTT-4.4.0-1], then the rest."""
        connection = session.connection
        assert connection is not None
        session.sending = None
        session.unsent = 0
        released: list[int] = []
        entries = session.outbound.entries
        for convoy in {entry: None for entry in entries.values() if isinstance(entry, Convoy)}:
            convoy.unfold(entries)
        flight: Flight | None = None
        for packet_id, entry in entries.items():
            if isinstance(entry, Flight):
                if entry is not flight:
                    flight = entry
                    for offset, ids in entry.outstanding(entries):
                        line_up(session, Piece(entry, offset, ids))
            elif isinstance(entry, Delivery):
                line_up(session, entry)
            else:
                released.append(packet_id)
        if released:
            connection.send_pubrel(released)
        self.pump(session)

    def state(self, session: Session) -> str:
        """Why nothing more is being sent to a session, in a word."""
        connection = session.connection
        if connection is None:
            return "offline"
        if session in self._waiting:
            return "committing"
        if not connection.writable:
            return "outbox_full"
        if session.outbound.room <= 0:
            return "inflight_full"
        if not all(cursor.live for cursor in session.plain_cursors()):
            return "reading"
        return "caught_up"
