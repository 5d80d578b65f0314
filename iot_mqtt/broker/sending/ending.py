"""The end of what a session has under way: it was confirmed, or is given up with the reason counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from iot_mqtt.broker.sending.commands import Known
from iot_mqtt.broker.session import Session
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.store import Store
from iot_mqtt.session import Delivery, Flight
from iot_mqtt.session.outbound import Entry


class Progress(Protocol):
    """What is kept of sessions' ways through the log."""

    def finished(self, session: Session, flight: Flight) -> None:
        """Messages of a flight are over."""
        ...


class Ending:
    """Of all sessions of a node."""

    __slots__ = ("_store", "_counters", "_progress", "_commands")

    def __init__(self, store: Store, counters: Counters, progress: Progress, commands: Known) -> None:
        self._store = store
        self._counters = counters
        self._progress = progress
        self._commands = commands

    def finished(self, session: Session, entries: list[Entry]) -> None:
        """QoS 1 exchanges are over, or QoS 2 messages have arrived: their messages need not be kept."""
        count = len(entries)
        session.delivered += count
        self._counters.messages_delivered += count
        for entry in entries:
            if isinstance(entry, Flight) and not (
                entry.segment or entry.origin or entry.shared_segment or entry.command
            ):
                continue  # nothing is kept of it
            if isinstance(entry, Delivery | Flight):
                if entry.command is not None:
                    self._commands.by.confirmed(session, entry.command)
                self.forget(session, entry)

    def forget(self, session: Session, entry: Delivery | Flight) -> None:
        """Remove what the store keeps of a message that is over."""
        if isinstance(entry, Flight):
            self._progress.finished(session, entry)
        elif entry.sequence:
            self._store.remove_delivery(session.client_id, entry.sequence)
            if entry.dup_stored:
                self._store.remove_dup(session.client_id, entry.packet_id)

    def discard(self, session: Session, delivery: Delivery, reason: Drop) -> None:
        """Give a delivery up."""
        if delivery.packet_id:
            session.outbound.entries.pop(delivery.packet_id, None)
        self.forget(session, delivery)
        self._count(session, delivery, reason, 1, delivery.message.topic, delivery.message.publisher)

    def discard_flight(
        self, session: Session, flight: Flight, ids: Sequence[int], reason: Drop, topic: bytes = b""
    ) -> None:
        """Give messages of a flight up."""
        entries = session.outbound.entries
        given_up = [packet_id for packet_id in ids if entries.get(packet_id) is flight]
        for packet_id in given_up:
            del entries[packet_id]
        self.forget(session, flight)
        self._count(session, flight, reason, len(given_up), topic)

    def _count(
        self,
        session: Session,
        entry: Delivery | Flight,
        reason: Drop,
        count: int,
        topic: bytes,
        publisher: str = "",
    ) -> None:
        session.drop(self._counters, reason, count, topic, publisher)
        if entry.command is not None:
            self._commands.by.dropped(session, entry.command, reason)
