"""PUBLISH: what there is to do with the client that sent it, before and behind ``publishing.path``.

validate → authorise → publish → (QoS 2: remember the id) → commit → acknowledge.

Keeping, retaining and remembering are staged in the turn's one batch; what a receiver must get only after
the commit (stored sessions) and the acknowledgement wait for it. A QoS 2 message goes on to its receivers
at PUBLISH, before PUBREC (method B of MQTT 5 figure 4.3): what PUBREC confirms is then as safe as what
PUBACK confirms, and PUBREL only frees the id. See docs/adr/0004.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.handlers.publish_answers import PublishAnswers
from iot_mqtt.broker.connections.handlers.publish_gate import RETAIN, PublishGate
from iot_mqtt.broker.connections.lookup_turns import LookupTurns
from iot_mqtt.broker.connections.turn_shares import TurnShares
from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.batches import deliver, each_of
from iot_mqtt.broker.publishing.budget import Budget, Pause
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.publishing.path import LOOKS, Publishing
from iot_mqtt.broker.sending.commands import DOWN
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import PacketType, PublishBatch, PublishRun, RunBatch, runs_of
from iot_mqtt.errors import MqttError, ProtocolViolation, ReasonCode
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.topics import MIXED

_PUBACK: Final = PacketType.PUBACK
_PUBREC: Final = PacketType.PUBREC
#: Messages of QoS 2 of one run that are looked at in a turn: each may be a repetition.
AT_ONCE: Final = 1024


class PublishHandler:
    """Publishes for a client, and answers it."""

    __slots__ = (
        "_settings",
        "_publishing",
        "_budget",
        "_gate",
        "_lookups",
        "_shares",
        "_answers",
        "_clock",
        "_counters",
    )

    def __init__(
        self,
        settings: MqttSettings,
        publishing: Publishing,
        budget: Budget,
        gate: PublishGate,
        lookups: LookupTurns,
        shares: TurnShares,
        answers: PublishAnswers,
        clock: Clock,
        counters: Counters,
    ) -> None:
        self._settings = settings
        self._publishing = publishing
        self._budget = budget
        self._gate = gate
        self._lookups = lookups
        self._shares = shares
        self._answers = answers
        self._clock = clock
        self._counters = counters

    def serve(self, connection: Connection, run: PublishRun) -> None:
        """A run of publishes of one client to one topic."""
        if self._budget.full and self._gate.holds(connection, run):
            return
        topic = run.topic
        if self._lookups.effort.left <= 0 and self._lookups.holds(connection, run, topic):
            return
        qos = run.qos
        if qos and topic.startswith(DOWN) and self._gate.holds_command(connection, run, topic):
            return
        self._counters.publishes_received += run.count
        session = connection.session
        assert session is not None
        if qos:
            if qos > self._settings.max_qos:  # [MQTT-3.2.2-11]
                raise ProtocolViolation(f"QoS {qos} is not offered here", ReasonCode.QOS_NOT_SUPPORTED)
            if qos == 1 and connection.five and not connection.patient:
                session.inbound.admit(run.count)
        if run.head & RETAIN and not self._settings.retain_available:  # [MQTT-3.2.2-14]
            raise ProtocolViolation("retain is not offered here", ReasonCode.RETAIN_NOT_SUPPORTED)
        if not connection.may_publish(topic, run.head):
            self._answers.deny(connection, session, run, topic)
            return
        wall = self._clock.wall() if run.raw_properties else 0.0
        publication = Publication(run, topic, session.client_id, wall, connection.origin)
        if run.head & RETAIN and self._over_quota(connection, session, publication):
            return
        if qos == 2:
            self._at_qos2(connection, session, publication)
            return
        outcome = self._publish(connection, session, publication)
        if qos:
            self._answers.acknowledge(connection, _PUBACK, run.ids, outcome)

    def _over_quota(self, connection: Connection, session: Session, publication: Publication) -> bool:
        """Whether it is refused as a whole, because it may not be retained and its publisher can be told so."""
        run = publication.run
        if self._publishing.may_retain(publication):
            return False
        self._counters.limited["retained"] += run.count
        if not run.qos or not connection.five:
            # It goes to its receivers, and is not retained: ``retained_quota``.
            return False
        if run.qos == 2 and not (session.inbound.received or set()).isdisjoint(run.ids):
            # A repetition of what was accepted before.
            return False
        self._counters.messages_refused["retained_quota"] += run.count
        user = f"user {connection.origin.user!r}"
        self._counters.recent.note(session.client_id, "refused_retained", publication.topic, run.count, user)
        type = _PUBACK if run.qos == 1 else _PUBREC
        self._answers.refuse(connection, type, run.ids, ReasonCode.QUOTA_EXCEEDED)
        return True

    def serve_batch(self, connection: Connection, batch: PublishBatch) -> None:
        """PUBLISH packets of several topics that are served together; the gate was asked before."""
        session = connection.session
        assert session is not None
        if batch.route is MIXED:
            if connection.five and batch.qos == 1:
                session.inbound.admit(batch.count)
            self._serve_each(connection, session, batch)
            return
        self._counters.publishes_received += batch.count
        qos = batch.head >> 1 & 3
        if qos == 1 and connection.five:
            session.inbound.admit(batch.count)
        elif qos == 2:
            session.inbound.fresh(batch.ids)
            if connection.five:
                _check_quota(session, batch.ids, None)
        outcome = deliver(self._publishing.fan_out, batch, connection.origin, session, self._clock)
        if outcome is None:
            return
        if batch.head & RETAIN:
            self._publishing.retain_batch(batch, connection.origin, session, outcome)
        if not qos:
            if self._budget.crowded and outcome.ticket:
                self._budget.pause(connection, Pause.UNCOMMITTED, [])
        elif qos == 1:
            self._answers.acknowledge(connection, _PUBACK, batch.ids, outcome)
        else:
            self._answers.remember(connection, session, batch.ids, outcome)
            self._answers.acknowledge(connection, _PUBREC, batch.ids, outcome)

    def serve_runs(self, connection: Connection, batch: RunBatch) -> None:
        """The same of a gateway, whose link has put them together; the gate was asked before."""
        session = connection.session
        assert session is not None
        self._serve_each(connection, session, batch)

    def _serve_each(self, connection: Connection, session: Session, batch: PublishBatch | RunBatch) -> None:
        """Those that are kept, recorded or forwarded: by the path one after the other, with one answer for all."""
        qos, runs = batch.qos, runs_of(batch)
        kept = self._publishing.keep_each(runs, session, connection.origin)
        if kept is not None:
            self._counters.publishes_received += batch.count
            self._answers.acknowledge(connection, _PUBACK, batch.ids, kept)
            return
        publications = each_of(runs, connection.origin, session, self._clock.wall())
        shares = self._shares
        began = shares.monotonic()
        # What a gateway's link has put together is served whole.
        over = partial(shares.over, began) if isinstance(batch, PublishBatch) else None
        if qos == 2:
            served = len(publications)
            for position, publication in enumerate(publications):
                looks = over is not None and position and position % LOOKS == 0
                large = over is not None and publication.count > AT_ONCE
                if self._budget.full or large or (looks and shares.over(began)):
                    served = position
                    break
                self._at_qos2(connection, session, publication)
        else:
            outcomes = self._publishing.hand_on_each(publications, session, over)
            served = len(outcomes)
            if qos:
                self._answers.acknowledge_each(connection, publications, outcomes)
            elif self._budget.crowded:
                self._budget.pause(connection, Pause.UNCOMMITTED, [])
        rest = publications[served:]
        self._counters.publishes_received += batch.count - sum(publication.count for publication in rest)
        if rest and connection.ctx is not None:
            left: list[object] = [publication.run for publication in rest]
            if self._budget.full:
                # There is no room any more: what that means is decided for each.
                connection.read(connection.ctx, left)
            else:
                shares.put_off(connection, left, shares.monotonic() - began)

    def _at_qos2(self, connection: Connection, session: Session, publication: Publication) -> None:
        """New ids are published and remembered; known ones are only acknowledged again [MQTT-4.3.3-10]."""
        if publication.count > AT_ONCE and not connection.patient:
            rest = publication.run.part(AT_ONCE, publication.count)
            self._shares.put_off(connection, [rest], 0.0)
            # It is counted when it goes on.
            self._counters.publishes_received -= rest.count
            publication = publication.part(0, AT_ONCE)
        positions = session.inbound.fresh(publication.run.ids)
        if connection.five:
            _check_quota(session, publication.run.ids, positions)
        if positions is None:
            self._begin_exchange(connection, session, publication)
            return
        ids, begin = publication.run.ids, 0
        for position in positions:
            self._repeat(connection, session, publication, ids[begin:position])
            self._begin_exchange(connection, session, publication.part(position, position + 1))
            begin = position + 1
        self._repeat(connection, session, publication, ids[begin:])

    def _repeat(self, connection: Connection, session: Session, publication: Publication, ids: list[int]) -> None:
        if not ids:
            return
        awaited = self._publishing.awaited(publication)
        if awaited is None or session.inbound.inherited is None:
            self._answers.repeat(connection, ids, awaited or 0, elsewhere=False)
            return
        for packet_id in ids:
            elsewhere = session.inbound.is_inherited(packet_id)
            self._answers.repeat(connection, [packet_id], awaited, elsewhere=elsewhere)

    def _begin_exchange(self, connection: Connection, session: Session, publication: Publication) -> None:
        """Publish messages whose ids are remembered from now on, but for those whose messages nobody could take."""
        ids = publication.run.ids
        try:
            outcome = self._publish(connection, session, publication)
        except MqttError:
            # When they come again they must not be taken for repetitions.
            session.inbound.forget(ids)
            raise
        self._answers.remember(connection, session, ids, outcome)
        self._answers.acknowledge(connection, _PUBREC, ids, outcome)

    def _publish(self, connection: Connection, session: Session, publication: Publication) -> Outcome:
        outcome = self._publishing.publish(publication, session, connection)
        if not publication.qos and self._budget.crowded and (outcome.ticket or publication.logged is not None):
            # Nothing is to be acknowledged, but it waits for a commit all the same.
            self._budget.pause(connection, Pause.UNCOMMITTED, [])
        return outcome


def _check_quota(session: Session, ids: list[int], positions: list[int] | None) -> None:
    """Refuse a client that has more exchanges open than it was told to; the new ones go nowhere."""
    try:
        session.inbound.admit(0)
    except ProtocolViolation:
        # When they come again they must not be taken for repetitions.
        fresh = ids if positions is None else [ids[position] for position in positions]
        session.inbound.forget(fresh)
        raise
