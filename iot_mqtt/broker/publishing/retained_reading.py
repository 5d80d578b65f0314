"""Retained messages for new subscriptions, page by page.

A reader holds a position, not messages, and reads on only as far as its client's window and outbox allow:
a hundred thousand retained messages for one slow client cost one page of memory.

::

    retained    a   b   c   d   e   f         a reader sends what is there when it comes to a topic
                sent ──▶
    published     b       d                   since the subscription: sent as they come, and d is not read again

So at QoS 1 and 2 each message comes once, and none behind a later one of its topic. A session that has lost something
of what came gets all that is there: better twice than not at all. How far a durable session has read is kept with its
progress (``StoredUnread``), so it goes on after a restart, and at another node.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat
from typing import Protocol

from iot_mqtt.broker.publication import hop_properties
from iot_mqtt.broker.publishing.retained_news import Since
from iot_mqtt.broker.publishing.retention import Retention
from iot_mqtt.broker.sending.commands import DOWN
from iot_mqtt.broker.sending.outflow import Outflow
from iot_mqtt.broker.session import RetainedPages, Session
from iot_mqtt.broker.turn_effort import TurnEffort
from iot_mqtt.codec import encode_messages
from iot_mqtt.codec.wire import varint
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.session import Delivery
from iot_mqtt.topics import LOOK, is_wildcard
from iot_mqtt.values import Message, Subscription, seconds_left

PAGE = 500
#: Of ``Effort``: what reading may take of a turn, some milliseconds.
TURN = 4_000 * LOOK
#: What reading a page takes, whatever is on it, and what sending a message of it does.
READ = 5 * LOOK
SEND = 2 * LOOK
#: Bytes of content after which a page ends.
PAGE_BYTES = 256 * 1024
#: What a packet has around topic, payload, passed-on properties and identifiers, at most: first byte, two lengths of
#: four bytes, the topic's length, packet id, expiry.
MOST_AROUND = 1 + 4 + 4 + 2 + 2 + 5


class Progress(Protocol):
    """What is kept of sessions' ways."""

    def moved(self, session: Session) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class RetainedReading:
    """Reads the retained messages of this node for its sessions."""

    retention: Retention
    turns: TurnEffort[Session]
    outflow: Outflow
    progress: Progress
    counters: Counters
    clock: Clock

    def subscribed(self, session: Session) -> Since:
        """It has just subscribed: what was retained before is to be read, as soon as it gets all that comes."""
        return self.retention.news.begin(session)

    def begin(self, session: Session, subscriptions: Iterable[tuple[Subscription, Since]]) -> None:
        """Let new subscriptions read from now on; a reader of the same filter starts anew."""
        index = self.retention.index
        for subscription, since in subscriptions:
            filter = subscription.filter
            stop_reading(session, filter)
            if index.may_have(filter) if is_wildcard(filter) else index.get(filter.encode()) is not None:
                _add(session, RetainedReader(self, subscription, since))
        if session.readers:
            self.progress.moved(session)

    def go_on(self, session: Session) -> None:
        """Send what may be sent now."""
        self.outflow.pump(session)

    def resume(self, session: Session, subscription: Subscription, after: bytes | None) -> None:
        """Let one go on behind a topic, as it was kept."""
        _add(session, RetainedReader(self, subscription, self.subscribed(session), after))

    def read_page(self, session: Session) -> bool:
        """Send a session that reads its next page; False when nothing more can be done now."""
        assert session.readers is not None
        return not self.turns.must_wait(session) and next(iter(session.readers.values())).read_on(session)


def stop_reading(session: Session, filter: str) -> None:
    """A subscription is gone or replaced."""
    if session.readers is not None:
        session.readers.pop(filter, None)
        session.readers = session.readers or None


class RetainedReader:
    """How far one subscription has read."""

    __slots__ = ("subscription", "topic", "after", "_reading", "_since")

    def __init__(
        self, reading: RetainedReading, subscription: Subscription, since: Since, after: bytes | None = None
    ) -> None:
        self.subscription = subscription
        #: The only one that it wants; None: its filter has a wildcard.
        self.topic = None if is_wildcard(subscription.filter) else subscription.filter.encode()
        #: The last topic that was read; None: none was.
        self.after = after
        self._reading = reading
        self._since = since

    def came_since(self, session: Session, message: Message) -> bool:
        """Whether its session gets it as it was published, since it subscribed: of QoS 0 nobody knows that."""
        if not (message.qos and self.subscription.qos and self._since.holds(session)):
            return False
        return self._reading.retention.news.has(message.topic, self._since)

    def read_on(self, session: Session) -> bool:
        """Send the next page; False when nothing more can be done now, with no reader or no room left."""
        connection = session.connection
        assert connection is not None
        subscription = self.subscription
        limit = PAGE
        if subscription.qos:
            limit = min(PAGE, session.outbound.room)
            if limit <= 0:
                return False
        page, read = self._page(session, limit)
        self._reading.turns.effort.left -= READ + len(page) * SEND
        page = self._reading.retention.living(page, self._reading.clock.wall())
        self._reading.counters.messages_matched += len(page)
        identifiers = () if subscription.identifier is None else (subscription.identifier,)
        at_once = self._takes_at_once(session, page, identifiers)
        for qos, same in groupby(page, lambda message: min(message.qos, subscription.qos)):
            messages = list(same)
            if qos and not at_once:
                for message in messages:
                    self._accept(session, message, qos, identifiers)
            elif at_once:
                self._send_all(session, messages, qos, identifiers)
            else:
                for message in messages:
                    self._send(session, Delivery(message, 0, retain=True, identifiers=identifiers))
        for filter in read:
            stop_reading(session, filter)
        if page or read:
            self._reading.progress.moved(session)
        if page:
            # Make the outbox take what gathered, so that its state tells whether to read on.
            connection.write_out()
        return True

    def _page(self, session: Session, limit: int) -> tuple[list[Message], list[str]]:
        """The next page, and the filters that have read all. Those of one topic each in a row read together."""
        index, subscription = self._reading.retention.index, self.subscription
        if self.topic is None:
            page, after = index.scan(subscription.filter, self.after, limit, self._reading.turns.effort)
            page, after = _cut(page, after)
            self.after = after or self.after
            return [one for one in page if not self.came_since(session, one)], [] if after else [subscription.filter]
        assert session.readers is not None
        found: list[Message] = []
        filters: list[str] = []
        size = 0
        for filter, reader in session.readers.items():
            if reader.topic is None or len(filters) == limit or size > PAGE_BYTES or not self._is_like(reader):
                break
            filters.append(filter)
            message = index.get(reader.topic)
            if message is not None and not reader.came_since(session, message):
                found.append(message)
                size += message.size
        self._reading.turns.effort.left -= len(filters) * LOOK
        return found, filters

    def _is_like(self, reader: RetainedPages) -> bool:
        """Whether it gets messages in the same form."""
        mine, its = self.subscription, reader.subscription
        return mine.qos == its.qos and mine.identifier == its.identifier

    @staticmethod
    def _takes_at_once(session: Session, page: list[Message], identifiers: tuple[int, ...]) -> bool:
        """Whether a page can be written in one go: for a session that keeps nothing, and to which nothing is on its
        way that comes first. A command is looked at before it leaves, and what may be too large one by one.
        """
        connection = session.connection
        if connection is None or session.expiry_interval or session.queue or session.sending or not connection.writable:
            return False
        if any(message.topic.startswith(DOWN) for message in page):
            return False
        limit = connection.max_packet_size
        return not limit or all(message.size + MOST_AROUND + 5 * len(identifiers) <= limit for message in page)

    def _send_all(self, session: Session, messages: list[Message], qos: int, identifiers: tuple[int, ...]) -> None:
        """Messages of one QoS as one write. They get no aliases: each topic comes once."""
        connection = session.connection
        assert connection is not None
        ids: Sequence[int] = range(len(messages))
        if qos:
            allowed = [message for message in messages if connection.may_receive(message.topic)]
            if len(allowed) < len(messages):
                first = next(message for message in messages if not connection.may_receive(message.topic))
                count = len(messages) - len(allowed)
                session.drop(self._reading.counters, Drop.NOT_AUTHORIZED, count, first.topic, first.publisher)
                messages = allowed
            ids = session.outbound.reserve(len(messages))
            session.outbound.mark(ids, qos)
        else:
            session.delivered += len(messages)
            self._reading.counters.messages_delivered += len(messages)
        blocks: Iterable[bytes] = repeat(b"")
        if connection.five:
            wall = self._reading.clock.wall()
            blocks = [_properties(message, wall, identifiers) for message in messages]
        connection.send(encode_messages(messages, blocks, ids, qos=qos, retain=True))

    def _send(self, session: Session, delivery: Delivery) -> None:
        assert session.connection is not None
        if session.connection.send_delivery(delivery):
            session.delivered += 1
            self._reading.counters.messages_delivered += 1
        else:
            session.drop(self._reading.counters, Drop.TOO_LARGE, 1, delivery.message.topic, delivery.message.publisher)

    def _accept(self, session: Session, message: Message, qos: int, identifiers: tuple[int, ...]) -> None:
        reason = self._reading.outflow.accept(session, message, qos, retain=True, identifiers=identifiers, origin=None)
        if reason is not None:
            session.drop(self._reading.counters, reason, 1, message.topic, message.publisher)


def _cut(page: list[Message], after: bytes | None) -> tuple[list[Message], bytes | None]:
    """The beginning of a page that is not too much for the outbox; the rest is of the next page."""
    size = 0
    for number, message in enumerate(page, 1):
        size += message.size
        if size > PAGE_BYTES and number < len(page):
            return page[:number], message.topic
    return page, after


def _add(session: Session, reader: RetainedReader) -> None:
    if session.readers is None:
        session.readers = OrderedDict()
    session.readers[reader.subscription.filter] = reader


def _properties(message: Message, wall: float, identifiers: tuple[int, ...]) -> bytes:
    """The property block that a receiver of v5 gets, with its length."""
    expiry = None if message.expires_at is None else seconds_left(message.expires_at, wall)
    properties = hop_properties(message.properties, expiry=expiry, identifiers=identifiers)
    return varint(len(properties)) + properties if properties else b"\0"
