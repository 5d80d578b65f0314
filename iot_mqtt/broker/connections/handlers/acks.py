"""PUBACK, PUBREC, PUBREL, PUBCOMP: runs of acknowledgements of one type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iot_mqtt.codec import AckRun, PacketType
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.counters import Drop
from iot_mqtt.session import RELEASED, Delivery, Flight
from iot_mqtt.session.outbound import Entry

if TYPE_CHECKING:
    from iot_mqtt.broker.connections.connection import Connection
    from iot_mqtt.broker.session import Session

FAILURE = 0x80


def on_acks(connection: Connection, run: AckRun) -> None:
    """Send each type to its own function."""
    session = connection.session
    assert session is not None
    connection.broker.counters.packets_received[run.type.name] += len(run.ids)
    BY_TYPE[run.type](connection, session, run)
    if session.durable:
        # What was finished is forgotten now, not when somebody next has something to say.
        connection.broker.turn.plan()


def on_puback(connection: Connection, session: Session, run: AckRun) -> None:
    """QoS 1 exchanges end, for good or bad: a refused message is not sent again."""
    entries: list[Entry] = []
    try:
        session.outbound.acknowledge(run.ids, entries)
    finally:
        # Those in front of one that is wrong are over all the same.
        if run.reason >= FAILURE:
            _rejected(connection, session, entries)
        else:
            connection.broker.outflow.finished(session, entries)
    connection.broker.outflow.pump(session)


def on_pubrec(connection: Connection, session: Session, run: AckRun) -> None:
    """QoS 2 messages have arrived: forget them, note that, then PUBREL."""
    broker, outbound = connection.broker, session.outbound
    if run.reason >= FAILURE:
        gone = [entry for entry in map(outbound.reject, run.ids) if entry is not None]
        _rejected(connection, session, gone)
        broker.outflow.pump(session)
        return
    arrived: list[Entry] = []
    released: list[int] = []
    try:
        for packet_id in run.ids:
            entry = outbound.receive(packet_id)
            if entry is None:
                # v5 is told that we know nothing of it; 3.x gets a PUBREL so that its exchange can end.
                reason = ReasonCode.PACKET_IDENTIFIER_NOT_FOUND if connection.five else ReasonCode.SUCCESS
                connection.answer(PacketType.PUBREL, [packet_id], reason=reason)
                continue
            arrived.append(entry)
            released.append(packet_id)
    finally:
        # Those in front of one that is wrong have arrived all the same.
        _release(connection, session, arrived, released)


def _release(connection: Connection, session: Session, arrived: list[Entry], released: list[int]) -> None:
    broker = connection.broker
    ticket = 0
    if session.durable and released:
        for packet_id in released:
            session.sequence += 1
            broker.store.save_pubrel(session.client_id, packet_id, session.sequence)
        # A restart that had forgotten the PUBREC would send the message again, under an id the client has freed.
        ticket = broker.store.latest
    broker.outflow.finished(session, [entry for entry in arrived if not _is_released(entry)])
    if released:
        connection.answer(PacketType.PUBREL, released, ticket)


def on_pubrel(connection: Connection, session: Session, run: AckRun) -> None:
    """The client has freed ids: so do we, then PUBCOMP [MQTT-4.3.3-11]."""
    _broker, store = connection.broker, connection.broker.store
    known: list[int] = []
    for packet_id in run.ids:
        if session.inbound.release(packet_id):
            known.append(packet_id)
            if session.durable:
                store.remove_received(session.client_id, packet_id)
        elif connection.five:
            connection.answer(PacketType.PUBCOMP, [packet_id], reason=ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)
        else:
            known.append(packet_id)
    if known:
        # After PUBCOMP the client may use the id anew; a restart must not take that for a repetition.
        connection.answer(PacketType.PUBCOMP, known, store.latest if session.durable else 0)


def on_pubcomp(connection: Connection, session: Session, run: AckRun) -> None:
    """QoS 2 exchanges are over; their ids are free."""
    broker = connection.broker
    for packet_id in run.ids:
        if session.outbound.complete(packet_id) and session.durable:
            broker.store.remove_pubrel(session.client_id, packet_id)
    broker.outflow.pump(session)


def _is_released(entry: Entry) -> bool:
    """A repeated PUBREC: the message was counted when the first one came."""
    return entry is RELEASED


def _rejected(connection: Connection, session: Session, entries: list[Entry]) -> None:
    broker = connection.broker
    broker.counters.dropped[Drop.REJECTED] += len(entries)
    session.count_drop(Drop.REJECTED, len(entries))
    for entry in entries:
        if isinstance(entry, Delivery | Flight):
            if entry.command is not None:
                broker.accompaniment.by.refused(session, entry.command)
            broker.outflow.forget(session, entry)


BY_TYPE = {
    PacketType.PUBACK: on_puback,
    PacketType.PUBREC: on_pubrec,
    PacketType.PUBREL: on_pubrel,
    PacketType.PUBCOMP: on_pubcomp,
}
