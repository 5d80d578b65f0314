"""PUBACK, PUBREC, PUBREL, PUBCOMP: runs of acknowledgements of one type."""

from __future__ import annotations

from typing import Final

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.turn_shares import TurnShares
from iot_mqtt.broker.kept_session import KeptSession, is_durable
from iot_mqtt.broker.publishing.accompanying import Accompaniment
from iot_mqtt.broker.sending.outflow import Outflow
from iot_mqtt.broker.sending.repeating import freed
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.turn import Turn
from iot_mqtt.codec import AckRun, PacketType
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.store import Store
from iot_mqtt.session import RELEASED, Delivery, Flight
from iot_mqtt.session.outbound import Entry

_PUBACK: Final = PacketType.PUBACK
_PUBREC: Final = PacketType.PUBREC
_PUBREL: Final = PacketType.PUBREL
_PUBCOMP: Final = PacketType.PUBCOMP
_SUCCESS: Final = ReasonCode.SUCCESS
_NOT_FOUND: Final = ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
FAILURE = 0x80
#: Acknowledgements of one run that are served in a turn: some milliseconds.
AT_ONCE: Final = 8192


class AcksHandler:
    """Sends each type to its own method."""

    __slots__ = ("_outflow", "_store", "_turn", "_accompaniment", "_shares", "_counters", "_by_type")

    def __init__(
        self,
        outflow: Outflow,
        store: Store,
        turn: Turn,
        accompaniment: Accompaniment,
        shares: TurnShares,
        counters: Counters,
    ) -> None:
        self._outflow = outflow
        self._store = store
        self._turn = turn
        self._accompaniment = accompaniment
        self._shares = shares
        self._counters = counters
        self._by_type = {
            _PUBACK: self._on_puback,
            _PUBREC: self._on_pubrec,
            _PUBREL: self._on_pubrel,
            _PUBCOMP: self._on_pubcomp,
        }

    def serve(self, connection: Connection, run: AckRun) -> None:
        """A run of one type came."""
        session = connection.session
        assert session is not None
        if len(run.ids) > AT_ONCE:
            rest = AckRun(run.type, run.ids[AT_ONCE:], run.reason, run.properties)
            run = AckRun(run.type, run.ids[:AT_ONCE], run.reason, run.properties)
            self._shares.put_off(connection, [rest], 0.0)
        self._counters.packets_received[run.type._name_] += len(run.ids)
        if session.__class__ is KeptSession and run.type is not _PUBREL:
            freed(session, run.ids)
        self._by_type[run.type](connection, session, run)
        if session.durable:
            # What was finished is forgotten now, not when somebody next has something to say.
            self._turn.plan()

    def _on_puback(self, connection: Connection, session: Session, run: AckRun) -> None:
        """QoS 1 exchanges end, for good or bad: a refused message is not sent again."""
        entries: list[Entry] = []
        try:
            session.outbound.acknowledge(run.ids, entries)
        finally:
            # Those in front of one that is wrong are over all the same.
            if run.reason >= FAILURE:
                self._rejected(session, entries)
            else:
                self._outflow.finished(session, entries)
        self._outflow.pump(session)

    def _on_pubrec(self, connection: Connection, session: Session, run: AckRun) -> None:
        """QoS 2 messages have arrived: forget them, note that, then PUBREL."""
        outbound = session.outbound
        if run.reason >= FAILURE:
            gone = [entry for entry in map(outbound.reject, run.ids) if entry is not None]
            self._rejected(session, gone)
            self._outflow.pump(session)
            return
        arrived: list[Entry] = []
        released: list[int] = []
        unknown: list[int] = []
        try:
            for packet_id in run.ids:
                entry = outbound.receive(packet_id)
                if entry is None:
                    unknown.append(packet_id)
                    continue
                arrived.append(entry)
                released.append(packet_id)
        finally:
            # Those in front of one that is wrong have arrived all the same.
            if unknown:
                # v5 is told that we know nothing of them; 3.x gets a PUBREL so that its exchanges can end.
                connection.answer(_PUBREL, unknown, reason=_NOT_FOUND if connection.five else _SUCCESS)
            self._release(connection, session, arrived, released)

    def _release(self, connection: Connection, session: Session, arrived: list[Entry], released: list[int]) -> None:
        ticket = 0
        if is_durable(session) and released:
            for packet_id in released:
                session.sequence += 1
                self._store.save_pubrel(session.client_id, packet_id, session.sequence)
            # A restart that had forgotten the PUBREC would send the message again, under an id the client has freed.
            ticket = self._store.latest
        # A repeated PUBREC: the message was counted when the first one came.
        self._outflow.finished(session, [entry for entry in arrived if entry is not RELEASED])
        if released:
            connection.answer(_PUBREL, released, ticket)

    def _on_pubrel(self, connection: Connection, session: Session, run: AckRun) -> None:
        """The client has freed ids: so do we, then PUBCOMP [MQTT-4.3.3-11]."""
        store = self._store
        known: list[int] = []
        unknown: list[int] = []
        for packet_id in run.ids:
            if session.inbound.release(packet_id):
                known.append(packet_id)
                if session.durable:
                    store.remove_received(session.client_id, packet_id)
            elif connection.five:
                unknown.append(packet_id)
            else:
                known.append(packet_id)
        if unknown:
            connection.answer(_PUBCOMP, unknown, reason=_NOT_FOUND)
        if known:
            # After PUBCOMP the client may use the id anew; a restart must not take that for a repetition.
            connection.answer(_PUBCOMP, known, store.latest if session.durable else 0)

    def _on_pubcomp(self, connection: Connection, session: Session, run: AckRun) -> None:
        """QoS 2 exchanges are over; their ids are free."""
        for packet_id in run.ids:
            if session.outbound.complete(packet_id) and session.durable:
                self._store.remove_pubrel(session.client_id, packet_id)
        self._outflow.pump(session)

    def _rejected(self, session: Session, entries: list[Entry]) -> None:
        first = entries[0] if entries else None
        topic, publisher = b"", ""
        if isinstance(first, Delivery):
            topic, publisher = first.message.topic, first.message.publisher
        session.drop(self._counters, Drop.REJECTED, len(entries), topic, publisher)
        for entry in entries:
            if isinstance(entry, Delivery | Flight):
                if entry.command is not None:
                    self._accompaniment.by.refused(session, entry.command)
                self._outflow.forget(session, entry)
