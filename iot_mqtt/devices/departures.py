"""What is asked about a command before its message leaves towards the device.

It leaves only after ``sent`` is committed, and only once unless its sender allowed more.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.driving import RETRY_SECONDS, drive
from iot_mqtt.broker.sending.commands import DOWN, Leave
from iot_mqtt.codec import properties as codec_properties
from iot_mqtt.devices.asked import command_id_of
from iot_mqtt.devices.book import Book, Tracked
from iot_mqtt.devices.looking import Place
from iot_mqtt.devices.senders import GONE, Senders
from iot_mqtt.devices.states import is_gateway, is_late
from iot_mqtt.ports.devices import DeviceStore, StoredCommand, owner_of
from iot_mqtt.session import Delivery, Piece, Row

if TYPE_CHECKING:
    from iot_mqtt.broker.sending.outflow import Outflow
    from iot_mqtt.broker.session import Session
    from iot_mqtt.devices.changes import Changes
    from iot_mqtt.devices.elsewhere import Elsewhere
    from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)


class Departures:
    """Of the commands in the sessions of this node."""

    def __init__(self, book: Book, senders: Senders, fetching: Fetching, changes: Changes, clock: Clock) -> None:
        self._book = book
        self._senders = senders
        self._fetching = fetching
        self._changes = changes
        self._clock = clock

    def leaving(self, session: Session, item: Delivery | Piece) -> Leave:
        entry = item.flight if isinstance(item, Piece) else item
        topic, properties = _what(item)
        if not _is_for(topic, session.client_id):
            return Leave.YES
        command_id = entry.command or _id_in(properties)
        if command_id is None:
            return Leave.YES
        entry.command = command_id
        tracked = self._book.get(session.client_id, command_id)
        if tracked is None:
            return self._fetching.fetch(session, command_id)
        if is_gateway(session):
            return _over(tracked.record) if tracked.record.state.final else Leave.YES
        return self._leaving(session, item, tracked)

    def _leaving(self, session: Session, item: Delivery | Piece, tracked: Tracked) -> Leave:
        record, book = tracked.record, self._book
        if tracked.unsent and not record.state.final and is_late(record, self._clock.wall()):
            book.give_up(tracked, "its deadline was over before it was sent")
        elif tracked.left and not record.retry and not record.state.final:
            book.give_up(tracked, "the connection was lost before it was confirmed")
        elif not record.state.final and self._senders.is_gone(record):
            book.withdraw(tracked, GONE)
        if tracked.record.state.final:
            return _over(tracked.record)
        if tracked.ticket == 0 or tracked.left:
            # Sent for the first time, or once more: that is committed before it leaves.
            tracked.left = False
            item.ticket = book.sent(tracked)
            self._look_ahead(session, item)
            return Leave.WAIT
        if not self._changes.is_safe(tracked.ticket):
            item.ticket = tracked.ticket
            return Leave.WAIT
        tracked.left = True
        return Leave.YES

    def _look_ahead(self, session: Session, item: Delivery | Piece) -> None:
        """What is lined up behind it goes with the same commit, not with one each."""
        for other in session.sending or ():
            if other is item or isinstance(other, Row) or (isinstance(other, Piece) and other.publication is None):
                continue
            entry = other.flight if isinstance(other, Piece) else other
            topic, properties = _what(other)
            if not topic.startswith(DOWN) or not _is_for(topic, session.client_id):
                continue
            tracked = self._book.get(session.client_id, entry.command or _id_in(properties) or "")
            if tracked is None or tracked.record.state.final or (tracked.ticket and not tracked.left):
                continue
            late = tracked.unsent and is_late(tracked.record, self._clock.wall())
            if late or self._senders.is_gone(tracked.record):
                continue
            if not tracked.left or tracked.record.retry:
                tracked.left = False
                other.ticket = self._book.sent(tracked)


class Fetching:
    """Reads the commands that a session of this node is to be sent and that nobody here knows."""

    def __init__(
        self, store: DeviceStore, elsewhere: Elsewhere, outflow: Outflow, changes: Changes, clock: Clock
    ) -> None:
        self._store = store
        self._elsewhere = elsewhere
        self._outflow = outflow
        self._changes = changes
        self._clock = clock
        #: Commands that are being read from the store, by client and id, and the sessions that wait for each.
        self._fetching: dict[Place, list[Session]] = {}
        #: Of those that were, and are nowhere: nobody knows them any more.
        self._unknown: set[Place] = set()

    def fetch(self, session: Session, command_id: str) -> Leave:
        """Nobody here knows it: another node may have accepted it just now, or it was over long ago."""
        place = session.client_id, command_id
        if place in self._unknown:
            self._unknown.discard(place)
            return Leave.NEVER_AGAIN
        if not self._elsewhere.clustered:
            return Leave.NEVER_AGAIN
        waiting = self._fetching.get(place)
        if waiting is not None:
            if session not in waiting:
                waiting.append(session)
            return Leave.WAIT
        self._fetching[place] = [session]
        drive(self._store.command(*place), partial(self._fetched, session, place), partial(self._not_fetched, place))
        return Leave.WAIT

    def _fetched(self, session: Session, place: Place, record: StoredCommand | None) -> None:
        if record is None:
            self._unknown.add(place)
        else:
            self._elsewhere.found(record, session)
        for waiting in self._fetching.pop(place, ()):
            self._changes.after(0, partial(self._outflow.pump, waiting))

    def _not_fetched(self, place: Place, error: BaseException) -> None:
        """Not ready is not absent: later again."""
        log.error("a command cannot be read; trying again: %s", error)
        for session in self._fetching.pop(place, ()):
            self._clock.call_later(RETRY_SECONDS, partial(self._outflow.pump, session))


def _over(record: StoredCommand) -> Leave:
    return Leave.NEVER_AGAIN if record.attempts else Leave.NEVER


def _is_for(topic: bytes, client_id: str) -> bool:
    return owner_of(topic[len(DOWN) :].decode()) == client_id


def _what(item: Delivery | Piece) -> tuple[bytes, bytes]:
    """Topic and raw properties; none for what is no command: a retained message."""
    if isinstance(item, Piece):
        run = item.publication.run
        return item.publication.topic, b"" if run.retain else run.forwardable
    message = item.message
    return message.topic, b"" if message.retain or item.retain else message.properties


def _id_in(raw: bytes) -> str | None:
    return command_id_of(codec_properties.read_publish(raw, from_client=False)) if raw else None
