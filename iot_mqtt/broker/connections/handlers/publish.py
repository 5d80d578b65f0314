"""PUBLISH: what there is to do with the client that sent it, before and behind ``publishing.path``.

validate → authorise → publish → (QoS 2: remember the id) → commit → acknowledge.

Keeping, retaining and remembering are staged in the turn's one batch; what a receiver must get only after
the commit (stored sessions) and the acknowledgement wait for it. A QoS 2 message goes on to its receivers
at PUBLISH, before PUBREC (method B of MQTT 5 figure 4.3): what PUBREC confirms is then as safe as what
PUBACK confirms, and PUBREL only frees the id. See docs/adr/0004.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.batches import deliver, publications_of
from iot_mqtt.broker.publishing.budget import Pause
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.sending.commands import DOWN
from iot_mqtt.codec import Ack, PacketType, Properties, PublishBatch, PublishRun
from iot_mqtt.errors import ProtocolViolation, ReasonCode
from iot_mqtt.topics import MIXED, RESERVED, is_reserved

if TYPE_CHECKING:
    from iot_mqtt.broker.connections.connection import Connection
    from iot_mqtt.broker.session import Session

#: The flag in the first byte of PUBLISH.
RETAIN = 0x01


def on_publish(connection: Connection, run: PublishRun) -> None:
    """A run of publishes of one client to one topic."""
    broker = connection.broker
    if broker.budget.full and (connection.patient or not connection.five) and _waits(connection, run):
        broker.budget.pause(connection, Pause.DISK_FULL, [run])
        return
    topic = _topic(connection, run)
    qos = run.qos
    if qos and topic.startswith(DOWN) and _looks(connection, topic, run):
        broker.budget.pause(connection, Pause.LOOKUP, [run])
        return
    broker.counters.packets_received["PUBLISH"] += run.count
    session = connection.session
    assert session is not None
    if qos:
        if qos > broker.settings.max_qos:  # [MQTT-3.2.2-11]
            raise ProtocolViolation(f"QoS {qos} is not offered here", ReasonCode.QOS_NOT_SUPPORTED)
        if qos == 1 and connection.five:
            session.inbound.admit(run.count)
    if run.head & RETAIN and not broker.settings.retain_available:  # [MQTT-3.2.2-14]
        raise ProtocolViolation("retain is not offered here", ReasonCode.RETAIN_NOT_SUPPORTED)
    if not connection.may_publish(topic):
        _deny(connection, run, topic)
        return
    wall = broker.clock.wall() if run.raw_properties else 0.0
    publication = Publication(run, topic, session.client_id, wall, connection.origin)
    if qos == 2:
        _at_qos2(connection, publication)
        return
    outcome = _publish(connection, publication)
    if qos:
        _acknowledge(connection, PacketType.PUBACK, run.ids, outcome)


def on_batch(connection: Connection, batch: PublishBatch) -> None:
    """PUBLISH packets of several topics that are served together; ``batches.takes`` was asked before."""
    if batch.route is MIXED:
        _each(connection, batch)
        return
    broker, session = connection.broker, connection.session
    assert session is not None
    broker.counters.packets_received["PUBLISH"] += batch.count
    qos, ids = batch.qos, batch.ids
    if qos == 1 and connection.five:
        session.inbound.admit(batch.count)
    elif qos == 2:
        session.inbound.fresh(ids)
        if connection.five:
            _check_quota(session, ids, None)
    outcome = deliver(broker, batch, connection, session)
    if qos == 2:
        _remember(connection, session, ids, outcome)
        _acknowledge(connection, PacketType.PUBREC, ids, outcome)
    elif qos:
        _acknowledge(connection, PacketType.PUBACK, ids, outcome)
    elif outcome.ticket and broker.budget.crowded:
        broker.budget.pause(connection, Pause.UNCOMMITTED, [])


def _each(connection: Connection, batch: PublishBatch) -> None:
    """Those that are kept, recorded or forwarded: by the path one after the other, with one answer for all."""
    broker, session = connection.broker, connection.session
    assert session is not None
    qos = batch.qos
    if qos == 1 and connection.five:
        session.inbound.admit(batch.count)
    publications = publications_of(batch, connection, session, broker.clock.wall())
    if qos == 2:
        served = len(publications)
        for position, publication in enumerate(publications):
            if broker.budget.full:
                served = position
                break
            _at_qos2(connection, publication)
    else:
        outcomes = broker.publishing.hand_on_each(publications, session)
        served = len(outcomes)
        if qos:
            _acknowledge_each(connection, publications, outcomes)
        elif broker.budget.crowded:
            broker.budget.pause(connection, Pause.UNCOMMITTED, [])
    rest = publications[served:]
    broker.counters.packets_received["PUBLISH"] += batch.count - sum(publication.count for publication in rest)
    if rest and connection.ctx is not None:
        # There is no room any more: what that means is decided for each.
        connection.read(connection.ctx, [publication.run for publication in rest])


def _acknowledge_each(connection: Connection, publications: list[Publication], outcomes: list[Outcome]) -> None:
    """PUBACKs in order, in as few answers as have different things to say."""
    ids: list[int] = []
    together = Outcome()
    for publication, outcome in zip(publications, outcomes, strict=False):
        if connection.five and (outcome.nobody or outcome.refused):
            if ids:
                _acknowledge(connection, PacketType.PUBACK, ids, together)
            _acknowledge(connection, PacketType.PUBACK, publication.run.ids, outcome)
            ids, together = [], Outcome()
        else:
            if ids and outcome.ticket and not together.ticket:
                # Those before it wait for no commit.
                _acknowledge(connection, PacketType.PUBACK, ids, together)
                ids, together = [], Outcome()
            ids += publication.run.ids
            together.elsewhere = True
            together.ticket = max(together.ticket, outcome.ticket)
            together.position = max(together.position, outcome.position)
    if ids:
        _acknowledge(connection, PacketType.PUBACK, ids, together)


def _waits(connection: Connection, run: PublishRun) -> bool:
    """Whether a publisher of 3.x has to wait for room on the disk: it can't be told anything else."""
    return (
        run.qos > 0
        and connection.may_publish(run.topic)
        and connection.broker.publishing.refuses(Publication(run, run.topic, "", 0.0))
    )


def _looks(connection: Connection, topic: bytes, run: PublishRun) -> bool:
    """Whether a command has to wait until it is known that no other node has accepted it."""
    broker = connection.broker
    if not connection.may_publish(topic):
        return False
    return broker.accompaniment.by.looks(topic, run.properties, partial(broker.budget.go_on, connection, Pause.LOOKUP))


def _topic(connection: Connection, run: PublishRun) -> bytes:
    """The topic that is meant, aliases resolved."""
    if not run.raw_properties or run.properties.topic_alias is None:
        return run.topic
    assert connection.inbound_aliases is not None
    return connection.inbound_aliases.resolve(run.topic, run.properties.topic_alias)


def _deny(connection: Connection, run: PublishRun, topic: bytes) -> None:
    """Not allowed: v5 is told in the acknowledgement, 3.x can only be told by success or by closing.

    MQTT 3.1.1 section 3.3.5 leaves that choice; a positive acknowledgement for a message that went nowhere
    would be a lie, so a QoS 1 or 2 publisher of 3.x is closed.
    """
    broker = connection.broker
    broker.counters.denied["publish"] += run.count
    session = connection.session
    assert session is not None
    session.count_denied("publish", run.count)
    if run.qos == 0:
        return
    reserved = is_reserved(topic)
    if not connection.five:
        raise ProtocolViolation(RESERVED if reserved else "not allowed to publish there", ReasonCode.NOT_AUTHORIZED)
    answer = PacketType.PUBACK if run.qos == 1 else PacketType.PUBREC
    if reserved and connection.problem_information and not connection.max_packet_size and broker.holding is None:
        said = Properties(reason_string=RESERVED)
        for packet_id in run.ids:
            connection.reply(Ack(answer, packet_id, ReasonCode.NOT_AUTHORIZED, said))
    else:
        connection.answer(answer, list(run.ids), reason=ReasonCode.NOT_AUTHORIZED)


def _at_qos2(connection: Connection, publication: Publication) -> None:
    """New ids are published and remembered; known ones are only acknowledged again [MQTT-4.3.3-10]."""
    session = connection.session
    assert session is not None
    positions = session.inbound.fresh(publication.run.ids)
    if connection.five:
        _check_quota(session, publication.run.ids, positions)
    if positions is None:
        _begin_exchange(connection, session, publication)
        return
    fresh = frozenset(positions)
    for position in range(publication.count):
        if position in fresh:
            _begin_exchange(connection, session, publication.part(position, position + 1))
        else:
            # The first PUBREC may still be waiting for its commit; the repeated one must not overtake it.
            repeated = [publication.run.ids[position]]
            latest = connection.broker.store.latest
            connection.answer(PacketType.PUBREC, repeated, latest, position=_awaited(connection, publication))


def _awaited(connection: Connection, publication: Publication) -> int:
    """What the answer to a repeated message waits for besides its commit: it may have gone up and not be safe."""
    steps = connection.broker.routes.match(publication.topic).steps
    return max((step.awaited(publication) for step in steps), default=0)


def _check_quota(session: Session, ids: list[int], positions: list[int] | None) -> None:
    """Refuse a client that has more exchanges open than it was told to; the new ones go nowhere."""
    try:
        session.inbound.admit(0)
    except ProtocolViolation:
        # When they come again they must not be taken for repetitions.
        fresh = ids if positions is None else [ids[position] for position in positions]
        session.inbound.received.difference_update(fresh)
        raise


def _begin_exchange(connection: Connection, session: Session, publication: Publication) -> None:
    """Publish messages whose ids are remembered from now on; an id whose message nobody could take is free again."""
    ids = publication.run.ids
    outcome = _publish(connection, publication)
    _remember(connection, session, ids, outcome)
    _acknowledge(connection, PacketType.PUBREC, ids, outcome)


def _remember(connection: Connection, session: Session, ids: list[int], outcome: Outcome) -> None:
    """Keep the ids of QoS 2 messages until they are released; those that nobody could take are free again."""
    store = connection.broker.store
    refused = outcome.wholly_refused() if connection.five else []
    stored = session.durable and len(refused) < len(ids)
    if stored:
        store.save_received(session.client_id, ids)
        outcome.ticket = store.latest
    for position in refused:
        session.inbound.release(ids[position])
        if stored:
            store.remove_received(session.client_id, ids[position])


def _publish(connection: Connection, publication: Publication) -> Outcome:
    broker = connection.broker
    outcome = broker.publishing.publish(publication, connection.session, connection)
    if not publication.qos and broker.budget.crowded and (outcome.ticket or publication.logged is not None):
        # Nothing is to be acknowledged, but it waits for a commit all the same.
        broker.budget.pause(connection, Pause.UNCOMMITTED, [])
    return outcome


def _acknowledge(connection: Connection, type: PacketType, ids: list[int], outcome: Outcome) -> None:
    """Answer in order, once what must be safe is; v5 learns of messages that nobody could take."""
    position = outcome.position
    if not connection.five:
        connection.answer(type, ids, outcome.ticket, position=position)
        return
    refused = outcome.wholly_refused()
    if refused:
        full = frozenset(refused)
        for index, packet_id in enumerate(ids):
            reason = ReasonCode.QUOTA_EXCEEDED if index in full else ReasonCode.SUCCESS
            connection.answer(type, [packet_id], outcome.ticket, reason, position)
    elif outcome.nobody and not connection.patient:
        connection.answer(type, ids, outcome.ticket, ReasonCode.NO_MATCHING_SUBSCRIBERS)
    else:
        connection.answer(type, ids, outcome.ticket, position=position)
