"""Whether what is next in a session's line may leave: it may be a command kept back, or the right to it may be gone."""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.broker.kept_session import is_durable
from iot_mqtt.broker.sending.commands import DOWN, Known, Leave
from iot_mqtt.broker.sending.ending import Ending
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.turn import Turn
from iot_mqtt.codec import PacketType
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.store import Store
from iot_mqtt.session import Delivery, Piece
from iot_mqtt.session.outbound import RELEASED


class Leaving:
    """Of all sessions of a node. What may not leave is given up here."""

    __slots__ = ("_store", "_turn", "_ending", "_commands")

    def __init__(self, store: Store, turn: Turn, ending: Ending, commands: Known) -> None:
        self._store = store
        self._turn = turn
        self._ending = ending
        self._commands = commands

    def judge(self, session: Session, item: Delivery | Piece) -> Leave:
        """Whether the next one leaves. If it never does, it is not in the line any more."""
        topic = item.message.topic if isinstance(item, Delivery) else item.publication.topic
        if topic.startswith(DOWN) and (leave := self._accompany(session, item)) is not Leave.YES:
            return leave
        assert session.connection is not None
        if session.connection.may_receive(topic):
            return Leave.YES
        self._withhold(session, item)
        return Leave.NEVER

    def _accompany(self, session: Session, item: Delivery | Piece) -> Leave:
        """It may be a command: ask whether it may leave, and take it away if it never may."""
        entry, packet_id = (item.flight, item.ids[0]) if isinstance(item, Piece) else (item, item.packet_id)
        if session.outbound.entries.get(packet_id) is not entry:
            return Leave.YES  # it is over; there is nothing to send
        leave = self._commands.by.leaving(session, item)
        if leave in (Leave.NEVER, Leave.NEVER_AGAIN):
            self._give_up(session, item, Drop.COMMAND_OVER)
            if leave is Leave.NEVER_AGAIN and entry.qos == 2:
                self._release(session, item.ids if isinstance(item, Piece) else (packet_id,))
        return leave

    def _withhold(self, session: Session, item: Delivery | Piece) -> None:
        """Give it up: the right to it is gone since it was taken for this client."""
        entries = session.outbound.entries
        begun: list[int] = []
        if isinstance(item, Piece):
            flight, qos = item.flight, item.flight.qos
            sent = item.ids[: max(0, flight.sent - item.offset)]
            begun = [packet_id for packet_id in sent if entries.get(packet_id) is flight]
        else:
            qos = item.qos
            if item.sent and entries.get(item.packet_id) is item:
                begun = [item.packet_id]
        self._give_up(session, item, Drop.NOT_AUTHORIZED)
        if begun and qos == 2:
            self._release(session, begun)

    def _give_up(self, session: Session, item: Delivery | Piece, reason: Drop) -> None:
        assert session.sending is not None
        session.sending.popleft()
        if isinstance(item, Piece):
            session.unsent -= len(item)
            self._ending.discard_flight(session, item.flight, item.ids, reason, item.publication.topic)
        else:
            session.unsent -= 1
            if session.outbound.entries.get(item.packet_id) is item:
                self._ending.discard(session, item, reason)

    def _release(self, session: Session, ids: Sequence[int]) -> None:
        """Have the client free ids of QoS 2 messages that it may have, and that are not sent again: under the same id,
        the next message would be taken for a repetition, confirmed and thrown away [MQTT-4.3.3-10].
        """
        connection = session.connection
        assert connection is not None
        session.outbound.entries.update(dict.fromkeys(ids, RELEASED))
        if is_durable(session):
            for packet_id in ids:
                session.sequence += 1
                self._store.save_pubrel(session.client_id, packet_id, session.sequence)
            self._turn.plan()
        connection.answer(PacketType.PUBREL, list(ids), self._store.latest if session.durable else 0)
