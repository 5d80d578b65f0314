"""What a publisher is told: acknowledgements behind what must be safe, reasons where its version has words for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.uplink.holding import HeldAnswer, Holding
from iot_mqtt.codec import Ack, PacketType, Properties, PublishRun
from iot_mqtt.errors import ProtocolViolation, ReasonCode
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.store import Store
from iot_mqtt.topics import RESERVED, is_notice_of_a_bridge, is_reserved

_PUBACK: Final = PacketType.PUBACK
_PUBREC: Final = PacketType.PUBREC
_SUCCESS: Final = ReasonCode.SUCCESS
_NOBODY: Final = ReasonCode.NO_MATCHING_SUBSCRIBERS


def _why(connection: Connection, topic: bytes) -> str:
    """What a client can do about it that is not allowed to publish; empty: nothing."""
    if is_reserved(topic):
        return RESERVED
    if any(connection.may_publish(topic, form) for form in range(6)):
        return "not allowed there at this QoS, or retained"
    return ""


class PublishAnswers:
    """Acknowledges, remembers and refuses."""

    __slots__ = ("holding", "_store", "_counters")

    def __init__(self, store: Store, counters: Counters) -> None:
        #: None: no acknowledgement waits for more than a commit.
        self.holding: Holding | None = None
        self._store = store
        self._counters = counters

    def acknowledge(self, connection: Connection, type: PacketType, ids: list[int], outcome: Outcome) -> None:
        """Answer in order, once what must be safe is; v5 learns of messages that nobody could take."""
        ticket, position = outcome.ticket, outcome.position
        if not connection.five:
            self._answer(connection, type, ids, ticket, position)
            return
        refused = outcome.wholly_refused() if outcome.refused else ()
        if refused:
            full = frozenset(refused)
            for index, packet_id in enumerate(ids):
                if index in full:
                    refusal = outcome.refusal(index)
                    self._refuse(connection, type, [packet_id], refusal.reason, refusal.detail, ticket, position)
                else:
                    self._answer(connection, type, [packet_id], ticket, position)
        elif outcome.nobody and not connection.patient:
            self._answer(connection, type, ids, ticket, 0, _NOBODY)
        else:
            self._answer(connection, type, ids, ticket, position)

    def acknowledge_each(
        self, connection: Connection, publications: Sequence[Publication], outcomes: Sequence[Outcome]
    ) -> None:
        """PUBACKs in order, in as few answers as have different things to say."""
        if outcomes and outcomes.count(outcomes[0]) == len(outcomes):
            served = publications if len(outcomes) == len(publications) else publications[: len(outcomes)]
            ids = [packet_id for publication in served for packet_id in publication.run.ids]
            self.acknowledge(connection, _PUBACK, ids, outcomes[0])
            return
        ids = []
        together = Outcome()
        for publication, outcome in zip(publications, outcomes, strict=False):
            if connection.five and (outcome.nobody or outcome.refused):
                if ids:
                    self.acknowledge(connection, _PUBACK, ids, together)
                self.acknowledge(connection, _PUBACK, publication.run.ids, outcome)
                ids, together = [], Outcome()
                continue
            if ids and outcome.ticket and not together.ticket:
                # Those before it wait for no commit.
                self.acknowledge(connection, _PUBACK, ids, together)
                ids, together = [], Outcome()
            ids += publication.run.ids
            together.elsewhere = True
            together.ticket = max(together.ticket, outcome.ticket)
            together.position = max(together.position, outcome.position)
        if ids:
            self.acknowledge(connection, _PUBACK, ids, together)

    def repeat(self, connection: Connection, ids: list[int], position: int, *, elsewhere: bool) -> None:
        """PUBREC once more. The first may still be waiting for its commit; the repeated one must not overtake it.
        ``elsewhere``: another node may have recorded it for the uplink.
        """
        look = self.holding.ask_others() if elsewhere and self.holding is not None else 0
        self._answer(connection, _PUBREC, ids, self._store.latest, position, look=look)

    def remember(self, connection: Connection, session: Session, ids: list[int], outcome: Outcome) -> None:
        """Keep the ids of QoS 2 messages until they are released; those that nobody could take are free again."""
        store = self._store
        refused = outcome.wholly_refused() if connection.five else []
        stored = session.durable and len(refused) < len(ids)
        if stored:
            store.save_received(session.client_id, ids)
            outcome.ticket = store.latest
        for position in refused:
            session.inbound.release(ids[position])
            if stored:
                store.remove_received(session.client_id, ids[position])

    def deny(self, connection: Connection, session: Session, run: PublishRun, topic: bytes) -> None:
        """Not allowed: v5 is told in the acknowledgement, 3.x can only be told by success or by closing.

        MQTT 3.1.1 section 3.3.5 leaves that choice; a positive acknowledgement for a message that went nowhere
        would be a lie, so a QoS 1 or 2 publisher of 3.x is closed. A bridge that says that it is connected would say so
        again as soon as it is back: what nobody misses is acknowledged.
        """
        retained = ", retained" if run.retain else ""
        session.deny(self._counters, "publish", topic, run.count, f"QoS {run.qos}{retained}")
        if run.qos == 0:
            return
        why = _why(connection, topic)
        if not connection.five:
            if run.qos == 1 and is_notice_of_a_bridge(topic):
                self._answer(connection, _PUBACK, list(run.ids), 0, 0)
                return
            refusal = ProtocolViolation(why or "not allowed to publish there", ReasonCode.NOT_AUTHORIZED)
            raise refusal.naming("topic", topic.decode())
        answer = _PUBACK if run.qos == 1 else _PUBREC
        self._refuse(connection, answer, list(run.ids), ReasonCode.NOT_AUTHORIZED, why)

    def refuse(self, connection: Connection, type: PacketType, ids: list[int], reason: ReasonCode) -> None:
        """Nobody gets these, and a publisher of v5 is told why."""
        self._answer(connection, type, list(ids), 0, 0, reason)

    def _refuse(
        self,
        connection: Connection,
        type: PacketType,
        ids: list[int],
        reason: ReasonCode,
        why: str,
        ticket: int = 0,
        position: int = 0,
    ) -> None:
        """With words, if the client wants them, and the answer waits for nothing that knows codes only."""
        if why and connection.problem_information and not connection.max_packet_size and self.holding is None:
            said = Properties(reason_string=why)
            for packet_id in ids:
                connection.reply(Ack(type, packet_id, reason, said), once_committed=ticket > 0)
        else:
            self._answer(connection, type, ids, ticket, position, reason)

    def _answer(
        self,
        connection: Connection,
        type: PacketType,
        ids: list[int],
        ticket: int,
        position: int,
        reason: ReasonCode = _SUCCESS,
        look: int = 0,
    ) -> None:
        """Acknowledge once ``ticket`` is committed, what is before ``position`` safe in the uplink's sink and this look
        at those of other nodes over, in order behind earlier answers.
        """
        holding = self.holding
        if holding is None or not holding.hold(connection, HeldAnswer(position, ticket, type, ids, reason, look)):
            connection.answer(type, ids, ticket, reason)
