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

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from iot_mqtt.broker.publishing.accompanying import DOWN, Leave
from iot_mqtt.broker.readers import log_batches
from iot_mqtt.broker.sending.refetching import Refetching
from iot_mqtt.broker.sending.repeating import out_of_order
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.shared_groups import Leader
from iot_mqtt.codec import PacketType
from iot_mqtt.ports.counters import Drop
from iot_mqtt.session import Delivery, Flight, Piece
from iot_mqtt.session.outbound import RELEASED, Entry
from iot_mqtt.values import Message

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.publication import Publication
    from iot_mqtt.broker.readers.cursors import Cursor
    from iot_mqtt.ports.log import Reference

#: Packet ids handed out in one go; bounds what one session adds to a batch.
STRIDE = 256
#: Messages that are put under way, over all sessions, before nobody reads more of the log: they are in memory until
#: they are sent.
READ_AHEAD = 4_000
#: Pages of retained messages read in one go, before others get their turn.
PAGES_A_TURN = 4


class Outflow:
    """What the sessions of one node have under way."""

    __slots__ = ("_broker", "_waiting", "_refetching", "_behind_commit", "_behind_turn", "_readers")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._refetching = Refetching(broker)
        #: Sessions whose next delivery waits for a commit.
        self._waiting: dict[Session, None] = {}
        #: Messages that were put under way since the last commit, and wait for the next.
        self._behind_commit = 0
        #: Of this turn those that wait for nothing but its end.
        self._behind_turn = 0
        #: Who is to read only when some of these are sent.
        self._readers: dict[Cursor, None] = {}

    # Messages of the log.

    def take(
        self,
        session: Session,
        publication: Publication,
        reference: Reference,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        cursor: Cursor | Leader,
        *,
        again: bool = False,
    ) -> int:
        """Put as much of a publication under way as the window has room for; how many messages that is.

        ``again``: they may have been sent in a life of the node before this one.
        """
        outbound = session.outbound
        count = min(outbound.room, publication.count)
        if count <= 0 or session.connection is None:
            return 0
        if count < publication.count:
            reference = reference.part(0, count)
        if cursor is not session.cursor:
            out_of_order(session)
        ids = outbound.reserve(count)
        flight = Flight(
            session, reference, ids, qos, retain=retain, identifiers=identifiers, origin=cursor if cursor.name else None
        )
        if again:
            flight.sent = count
        outbound.entries.update(dict.fromkeys(ids, flight))
        self.under_way(session, (flight,), cursor, count)
        self._line_up(session, Piece(flight, 0, ids, publication))
        return count

    def under_way(self, session: Session, flights: Sequence[Flight], cursor: Cursor | Leader, count: int) -> None:
        """Flights of one QoS with so many messages have their ids: they are sent when what is to be safe is."""
        broker, ticket = self._broker, self._note(session, flights, cursor)
        for flight in flights:
            flight.ticket = ticket
        self._waiting[session] = None
        if ticket > broker.store.committed:
            self._behind_commit += count
            broker.turn.plan()
        else:
            if not self._behind_turn:
                broker.turn.call_soon(self._turn_over)
            self._behind_turn += count

    def _note(self, session: Session, flights: Sequence[Flight], cursor: Cursor | Leader) -> int:
        """Have written what there is to write of new flights; the batch they wait for (0: none)."""
        broker, qos = self._broker, flights[0].qos
        ends = flights[0].ids[0], flights[-1].ids[-1]
        if session.durable and qos == 1 and not cursor.name and broker.progress.may_be_late(session, ends):
            broker.progress.numbered(session, flights, late=True)
            # What it refers to is to be safe; where it is under way may be written later.
            return broker.store.latest
        if not session.durable and not cursor.is_shared:
            return 0
        ticket = broker.turn.reserve()
        # A message of a group goes to another member when this one is gone, but not in the middle of QoS 2.
        if session.durable and (qos == 2 or not cursor.is_shared):
            broker.progress.numbered(session, flights)
        for flight in flights if cursor.is_shared else ():
            cursor.under_way(flight)
        return ticket

    def must_wait(self, cursor: Cursor) -> bool:
        """Whether a cursor is to read later, and will be told when."""
        if self._behind_commit + self._behind_turn < READ_AHEAD:
            return False
        self._readers[cursor] = None
        return True

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
            self._line_up(session, delivery)
        else:
            session.queue.append(delivery)
        if session.durable:
            self.store(session, delivery)
        return None

    def store(self, session: Session, delivery: Delivery) -> None:
        """Keep a delivery of a durable session; it is sent when that is safe."""
        store = self._broker.store
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
            self._broker.progress.id_given(session)

    @staticmethod
    def _line_up(session: Session, item: Delivery | Piece) -> None:
        if session.sending is None:
            session.sending = deque()
        session.sending.append(item)
        session.unsent += 1 if isinstance(item, Delivery) else len(item)

    # Sending.

    def pump(self, session: Session) -> None:
        """Send what may be sent now."""
        pages = 0
        while self._send_lined_up(session):
            if session.queue:
                if not self._number(session):
                    return
            elif session.readers:
                if pages == PAGES_A_TURN:
                    self._broker.turn.call_soon(lambda: self.pump(session))
                    return
                if not session.readers[0].read_on(self._broker, session):
                    return
                pages += 1
            else:
                self._read_on(session)
                return

    def _read_on(self, session: Session) -> None:
        """There is room: let the cursors that are behind read."""
        broker = self._broker
        broker.groups.has_room(session)
        if session.elsewhere:
            self._read_in_turn(session)
        elif session.cursor is not None and not session.cursor.live:
            session.cursor.read_on(broker)
        if session.replays:
            for replay in list(session.replays.values()):
                replay.read_on(broker)
        for group in broker.groups.of_member(session):
            group.read_on(broker)

    def _read_in_turn(self, session: Session) -> None:
        """Whoever reads first may take all the room there is: another one each time."""
        behind = [cursor for cursor in session.plain_cursors() if not cursor.live]
        if len(behind) > 1:
            session.turns = (session.turns + 1) % len(behind)
            behind = behind[session.turns :] + behind[: session.turns]
        for cursor in behind:
            cursor.read_on(self._broker)

    def _send_lined_up(self, session: Session) -> bool:
        """Send deliveries that have their id; True when none is left and the window has room."""
        connection = session.connection
        if connection is None:
            return False
        sending, outbound = session.sending, session.outbound
        if sending:
            committed = self._broker.store.committed
            while sending:
                item = sending[0]
                if item.ticket > committed:
                    self._waiting[session] = None
                    return False
                room = outbound.limit - len(outbound) + session.unsent
                if not connection.writable or room <= 0:
                    return False
                if log_batches.send(self._broker, session, sending, room):
                    continue
                ready = self._is_ready(session, sending, item)
                if ready is Leave.WAIT:
                    return False
                if ready is not Leave.YES:
                    continue
                if isinstance(item, Piece):
                    if len(item) > room:
                        # There may be room again, if some of it was not sent at all.
                        self._send_piece(session, item.first(room))
                        continue
                    sending.popleft()
                    self._send_piece(session, item)
                    continue
                sending.popleft()
                session.unsent -= 1
                if outbound.entries.get(item.packet_id) is item:
                    self._send(session, item)
        session.sending = None
        return outbound.room > 0 and connection.writable

    def _is_ready(self, session: Session, sending: deque[Delivery | Piece], item: Delivery | Piece) -> Leave:
        """Whether the next one can be sent: its message is at hand, it is allowed, and nobody keeps it back."""
        if isinstance(item, Delivery):
            topic = item.message.topic
        elif item.publication is None:
            self._refetching.fetch(session, sending)
            return Leave.WAIT
        else:
            topic = item.publication.topic
        if topic.startswith(DOWN) and (leave := self._accompany(session, item)) is not Leave.YES:
            return leave
        assert session.connection is not None
        if session.connection.may_receive(topic):
            return Leave.YES
        self._withhold(session, sending, item)
        return Leave.NEVER

    def _withhold(self, session: Session, sending: deque[Delivery | Piece], item: Delivery | Piece) -> None:
        """Give the next one up: the right to it is gone since it was taken for this client."""
        sending.popleft()
        entries = session.outbound.entries
        begun: list[int] = []
        if isinstance(item, Piece):
            session.unsent -= len(item)
            flight, qos = item.flight, item.flight.qos
            sent = item.ids[: max(0, flight.sent - item.offset)]
            begun = [packet_id for packet_id in sent if entries.get(packet_id) is flight]
            self.discard_flight(session, flight, item.ids, Drop.NOT_AUTHORIZED)
        else:
            session.unsent -= 1
            qos = item.qos
            if entries.get(item.packet_id) is item:
                begun = [item.packet_id] if item.sent else []
                self.discard(session, item, Drop.NOT_AUTHORIZED)
        if begun and qos == 2:
            self._release(session, begun)

    def _accompany(self, session: Session, item: Delivery | Piece) -> Leave:
        """The next one may be a command: ask whether it may leave, and take it away if it never may."""
        entry, packet_id = (item.flight, item.ids[0]) if isinstance(item, Piece) else (item, item.packet_id)
        if session.outbound.entries.get(packet_id) is not entry:
            return Leave.YES  # it is over; there is nothing to send
        leave = self._broker.accompaniment.by.leaving(session, item)
        if leave is Leave.WAIT:
            self._waiting[session] = None
        elif leave is not Leave.YES:
            assert session.sending is not None
            session.sending.popleft()
            if isinstance(item, Piece):
                session.unsent -= len(item)
                self.discard_flight(session, item.flight, item.ids, Drop.COMMAND_OVER)
            else:
                session.unsent -= 1
                self.discard(session, item, Drop.COMMAND_OVER)
            if leave is Leave.NEVER_AGAIN and entry.qos == 2:
                self._release(session, item.ids if isinstance(item, Piece) else (packet_id,))
        return leave

    def _release(self, session: Session, ids: Sequence[int]) -> None:
        """Have the client free ids of QoS 2 messages that it may have, and that are not sent again: under the same id,
        the next message would be taken for a repetition, confirmed and thrown away [MQTT-4.3.3-10].
        """
        connection, store = session.connection, self._broker.store
        assert connection is not None
        session.outbound.entries.update(dict.fromkeys(ids, RELEASED))
        if session.durable:
            for packet_id in ids:
                session.sequence += 1
                store.save_pubrel(session.client_id, packet_id, session.sequence)
            self._broker.turn.plan()
        connection.answer(PacketType.PUBREL, list(ids), store.latest if session.durable else 0)

    def _send_piece(self, session: Session, piece: Piece) -> None:
        """Messages of a flight, as one run where nothing has happened to them meanwhile."""
        connection, flight = session.connection, piece.flight
        assert connection is not None
        session.unsent -= len(piece)
        broker = self._broker
        wall = broker.clock.wall()
        if not flight.sent and piece.publication.expired(wall):  # [MQTT-3.3.2-5]
            self.discard_flight(session, flight, piece.ids, Drop.EXPIRED)
            return
        # What was sent before is sent again with DUP; where only part of it was, that is two runs.
        again = min(max(flight.sent - piece.offset, 0), len(piece))
        if again:
            self._send_again(session, piece.first(again))
        if len(piece):
            flight.sent = piece.offset + len(piece)
            self._send_run(session, piece, dup=False)

    def _send_again(self, session: Session, piece: Piece) -> None:
        """What was not confirmed meanwhile: a client may remember what came over its last connection."""
        for offset, ids in piece.flight.outstanding(session.outbound.entries):
            start, stop = max(offset, piece.offset), min(offset + len(ids), piece.offset + len(piece))
            if start < stop:
                part = Piece(piece.flight, start, ids[start - offset : stop - offset], piece.publication, piece.base)
                self._broker.counters.messages_resent += len(part)
                self._send_run(session, part, dup=True)

    def _send_run(self, session: Session, piece: Piece, *, dup: bool) -> None:
        connection = session.connection
        assert connection is not None
        too_large = connection.send_piece(piece, dup=dup)
        if too_large:  # [MQTT-3.1.2-25]
            self.discard_flight(session, piece.flight, too_large, Drop.TOO_LARGE)

    def discard_flight(self, session: Session, flight: Flight, ids: Sequence[int], reason: Drop) -> None:
        """Give up messages of a flight, with the reason counted."""
        entries = session.outbound.entries
        given_up = [packet_id for packet_id in ids if entries.get(packet_id) is flight]
        for packet_id in given_up:
            del entries[packet_id]
        self._broker.progress.finished(session, flight)
        session.drop(self._broker.counters, reason, len(given_up))
        if flight.command is not None:
            self._broker.accompaniment.by.dropped(session, flight.command, reason)

    def _send(self, session: Session, delivery: Delivery) -> None:
        connection = session.connection
        assert connection is not None
        broker = self._broker
        if delivery.message.expires_at is not None and not delivery.sent and delivery.expired(broker.clock.wall()):
            self.discard(session, delivery, Drop.EXPIRED)  # [MQTT-3.3.2-5]
            return
        if not connection.send_delivery(delivery):
            self.discard(session, delivery, Drop.TOO_LARGE)  # [MQTT-3.1.2-25]
            return
        if delivery.sent:
            broker.counters.messages_resent += 1
        delivery.sent = True

    def _number(self, session: Session) -> bool:
        """Give packet ids to queued deliveries, as many as the window takes; False when it took none."""
        queue, outbound = session.queue, session.outbound
        room = min(outbound.room, STRIDE)
        broker = self._broker
        wall = broker.clock.wall()
        store = broker.store
        moved = False
        out_of_order(session)
        while room > 0 and queue:
            delivery = queue.popleft()
            moved = True
            if delivery.expired(wall):
                self.discard(session, delivery, Drop.EXPIRED)
                continue
            outbound.keep(delivery)
            room -= 1
            if session.durable:
                # The id must be safe before it is used, or a restart would send the message under another one.
                delivery.dup_stored = True
                store.save_dup(session.client_id, delivery.packet_id, delivery.sequence)
                delivery.ticket = store.latest
            self._line_up(session, delivery)
        if session.durable:
            # What called may be nothing but a client that reads again: then nobody else would commit the ids.
            broker.turn.plan()
            broker.progress.id_given(session)
        return moved

    def discard(self, session: Session, delivery: Delivery, reason: Drop) -> None:
        """Give a delivery up, with its reason counted and its record removed."""
        if delivery.packet_id:
            session.outbound.entries.pop(delivery.packet_id, None)
        self.forget(session, delivery)
        session.drop(self._broker.counters, reason, 1)
        if delivery.command is not None:
            self._broker.accompaniment.by.dropped(session, delivery.command, reason)

    def finished(self, session: Session, entries: list[Entry]) -> None:
        """QoS 1 exchanges are over, or QoS 2 messages have arrived: their messages need not be kept."""
        count = len(entries)
        session.delivered += count
        self._broker.counters.messages_delivered += count
        for entry in entries:
            if isinstance(entry, Flight) and not (
                entry.segment or entry.origin or entry.shared_segment or entry.command
            ):
                continue  # nothing is kept of it
            if isinstance(entry, Delivery | Flight):
                if entry.command is not None:
                    self._broker.accompaniment.by.confirmed(session, entry.command)
                self.forget(session, entry)

    def forget(self, session: Session, entry: Delivery | Flight) -> None:
        """Remove what the store keeps of a message that is over."""
        if isinstance(entry, Flight):
            self._broker.progress.finished(session, entry)
        elif entry.sequence:
            store = self._broker.store
            store.remove_delivery(session.client_id, entry.sequence)
            if entry.dup_stored:
                store.remove_dup(session.client_id, entry.packet_id)

    def resume(self, session: Session) -> None:
        """After a reconnect: everything unacknowledged again, in order [MQTT-4.4.0-1], then the rest."""
        connection = session.connection
        assert connection is not None
        session.sending = None
        session.unsent = 0
        released: list[int] = []
        entries = session.outbound.entries
        flight: Flight | None = None
        for packet_id, entry in entries.items():
            if isinstance(entry, Flight):
                if entry is not flight:
                    flight = entry
                    for offset, ids in entry.outstanding(entries):
                        self._line_up(session, Piece(entry, offset, ids))
            elif isinstance(entry, Delivery):
                self._line_up(session, entry)
            else:
                released.append(packet_id)
        if released:
            connection.send_pubrel(released)
        self.pump(session)

    def committed(self) -> None:
        """A commit is over: sessions that waited for one go on."""
        self._behind_commit = 0
        self._go_on()

    def _turn_over(self) -> None:
        self._behind_turn = 0
        self._go_on()

    def _go_on(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for session in waiting:
                self.pump(session)
        if self._readers:
            readers, self._readers = self._readers, {}
            for cursor in readers:
                cursor.read_on(self._broker)

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
