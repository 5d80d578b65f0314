"""Message by message towards one session: accept, store, number, send, repeat.

A delivery's way::

    accept ─▶ queue ─(window has room)─▶ sending ─(committed, outbox has room)─▶ on the wire ─▶ acknowledged
                 └──────── stored sessions: one record from here until the acknowledgement ───────┘

``pump`` moves a session's deliveries as far as they go and stops with a reason; what lifts that reason
(acknowledgement, commit, writability, reconnect) calls it again. It never blocks.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from iot_mqtt.broker.session import Session
from iot_mqtt.ports.counters import Drop
from iot_mqtt.session import Delivery
from iot_mqtt.session.outbound import Entry
from iot_mqtt.values import Message

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker

#: Packet ids handed out in one go; bounds what one session adds to a batch.
STRIDE = 256
#: Pages of retained messages read in one go, before others get their turn.
PAGES_A_TURN = 4


class Outflow:
    """What the sessions of one node have under way."""

    __slots__ = ("_broker", "_waiting")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        #: Sessions whose next delivery waits for a commit.
        self._waiting: dict[Session, None] = {}

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
            session.outbound.keep(delivery)
            self._line_up(session, delivery)
        else:
            session.queue.append(delivery)
        if session.durable:
            store = self._broker.store
            session.sequence += 1
            delivery.sequence = session.sequence
            store.save_delivery(
                session.client_id,
                delivery.sequence,
                message,
                qos,
                retain,
                identifiers,
                delivery.packet_id,
                origin is not None,
            )
            delivery.ticket = store.latest
        return None

    def _line_up(self, session: Session, delivery: Delivery) -> None:
        if session.sending is None:
            session.sending = deque()
        session.sending.append(delivery)

    def pump(self, session: Session) -> None:
        """Send what may be sent now."""
        pages = 0
        while self._send_lined_up(session):
            if session.queue:
                if not self._number(session):
                    return
            elif session.readers:
                if pages == PAGES_A_TURN:
                    self._broker.call_soon(lambda: self.pump(session))
                    return
                if not session.readers[0].read_on(self._broker, session):
                    return
                pages += 1
            else:
                return

    def _send_lined_up(self, session: Session) -> bool:
        """Send deliveries that have their id; True when none is left and the window has room."""
        connection = session.connection
        if connection is None:
            return False
        sending, outbound = session.sending, session.outbound
        if sending:
            committed = self._broker.store.committed
            while sending:
                delivery = sending[0]
                if delivery.ticket > committed:
                    self._waiting[session] = None
                    return False
                if not connection.writable or len(outbound) - len(sending) >= outbound.limit:
                    return False
                sending.popleft()
                if outbound.entries.get(delivery.packet_id) is delivery:
                    self._send(session, delivery)
        session.sending = None
        return outbound.room > 0 and connection.writable

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
        return moved

    def discard(self, session: Session, delivery: Delivery, reason: Drop) -> None:
        """Give a delivery up, with its reason counted and its record removed."""
        if delivery.packet_id:
            session.outbound.entries.pop(delivery.packet_id, None)
        self.forget(session, delivery)
        session.count_drop(reason)
        self._broker.counters.dropped[reason] += 1

    def finished(self, session: Session, entries: list[Entry]) -> None:
        """QoS 1 exchanges are over, or QoS 2 messages have arrived: their messages need not be kept."""
        count = len(entries)
        session.delivered += count
        self._broker.counters.messages_delivered += count
        if session.durable:
            for entry in entries:
                if isinstance(entry, Delivery):
                    self.forget(session, entry)

    def forget(self, session: Session, delivery: Delivery) -> None:
        """Remove what the store keeps of a delivery."""
        if delivery.sequence:
            store = self._broker.store
            store.remove_delivery(session.client_id, delivery.sequence)
            if delivery.dup_stored:
                store.remove_dup(session.client_id, delivery.packet_id)

    def resume(self, session: Session) -> None:
        """After a reconnect: everything unacknowledged again, in order [MQTT-4.4.0-1], then the rest."""
        connection = session.connection
        assert connection is not None
        session.sending = None
        released: list[int] = []
        for packet_id, entry in session.outbound.entries.items():
            if isinstance(entry, Delivery):
                self._line_up(session, entry)
            else:
                released.append(packet_id)
        if released:
            connection.send_pubrel(released)
        self.pump(session)

    def committed(self) -> None:
        """A commit is over: sessions that waited for one go on."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for session in waiting:
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
        if session.queue and session.outbound.room <= 0:
            return "inflight_full"
        return "caught_up"
