"""Retained messages: kept by topic within a quota, read by new subscriptions page by page.

A reader holds a position, not messages, and reads on only as far as its client's window and outbox allow:
a hundred thousand retained messages for one slow client cost one page of memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby, repeat
from typing import TYPE_CHECKING

from iot_mqtt.broker.publication import hop_properties
from iot_mqtt.broker.sending.commands import DOWN
from iot_mqtt.broker.session import Session
from iot_mqtt.codec import encode_messages
from iot_mqtt.codec.wire import varint
from iot_mqtt.ports.counters import Drop
from iot_mqtt.session import Delivery
from iot_mqtt.topics import RetainedIndex
from iot_mqtt.values import Message, Subscription

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.cluster.retained_versions import RetainedVersions

PAGE = 500
#: Bytes of content after which a page ends.
PAGE_BYTES = 256 * 1024
#: What a packet has around topic, payload, passed-on properties and identifiers, at most: first byte, two lengths of
#: four bytes, the topic's length, packet id, expiry.
MOST_AROUND = 1 + 4 + 4 + 2 + 2 + 5
SYS_PREFIX = b"$SYS/"


class Retention:
    """The retained messages of this node."""

    __slots__ = ("_broker", "_versions", "index")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._versions: RetainedVersions | None = None
        self.index = RetainedIndex()

    def retain(self, message: Message) -> bool:
        """Replace the topic's retained message, or remove it (empty payload); False when the quota is full."""
        topic = message.topic
        if not message.payload:  # [MQTT-3.3.1-6] [MQTT-3.3.1-7]
            self.remove(topic)
            return True
        settings, index = self._broker.settings, self.index
        known = index.get(topic)
        if known is None and index.count >= settings.max_retained_messages:
            return False
        if index.bytes + message.size - (known.size if known else 0) > settings.max_retained_bytes:
            return False
        index.set(topic, message)
        if not topic.startswith(SYS_PREFIX):
            self._broker.store.save_retained(message, self._tell(topic, message))
            self._broker.budget.added(message.size)
            self._broker.turn.plan()
        return True

    def remove(self, topic: bytes) -> bool:
        """Forget a topic's retained message; False if it has none."""
        if not self.index.remove(topic):
            return False
        if not topic.startswith(SYS_PREFIX):
            self._tell(topic, None)
            self._broker.store.remove_retained(topic)
            self._broker.turn.plan()
        return True

    def expire(self, topic: bytes) -> None:
        """Its time is over. Nobody is told, because everybody sees for himself, and a message that another node has
        just put in its place must not be removed from the store.
        """
        if self._versions is None:
            self.remove(topic)
        else:
            self.index.remove(topic)

    def restore(self, message: Message, version: int) -> None:
        """Put back what the store had at start."""
        self.index.set(message.topic, message)
        if self._versions is not None:
            self._versions.note(message.topic, version)

    # Among other nodes.

    def share(self, versions: RetainedVersions) -> None:
        """From now on other nodes retain messages too; before anything is restored."""
        self._versions = versions

    def _tell(self, topic: bytes, message: Message | None) -> int:
        return self._versions.changed(topic, message) if self._versions is not None else 0

    def heard(self, topic: bytes, message: Message | None, version: int) -> None:
        """Another node has a new retained message; the later one of two stands, everywhere."""
        assert self._versions is not None
        order = self._versions.note(topic, version, present=message is not None)
        if order > 0 and message is None:
            self.index.remove(topic)
        elif order > 0 and message is not None:
            self.index.set(topic, message)
        elif order < 0:
            # Its writer may have overwritten ours in the grid; whoever has the later one puts that right.
            mine = self.index.get(topic)
            if mine is None:
                self._broker.store.remove_retained(topic)
            else:
                self._broker.store.save_retained(mine, self._versions.of(topic))
            self._broker.turn.plan()

    async def catch_up(self) -> None:
        """What others retained or removed may have been missed: the store has it."""
        versions = self._versions
        if versions is None or self._broker.store.failing:
            return
        begun = versions.now()
        stored: set[bytes] = set()
        async for message, version in self._broker.store.retained():
            stored.add(message.topic)
            if versions.note(message.topic, version) > 0:
                self.index.set(message.topic, message)
        for topic in versions.missing(stored, begun):
            self.index.remove(topic)

    def read_for(self, session: Session, readers: list[RetainedReader]) -> None:
        """Let new subscriptions read; a reader of the same filter starts anew."""
        for reader in readers:
            self.stop_reading(session, reader.subscription.filter)
            if session.readers is None:
                session.readers = deque()
            session.readers.append(reader)
        self._broker.outflow.pump(session)

    def read_on(self, session: Session) -> bool:
        """Send a session that reads its next page; False when nothing more can be done now."""
        assert session.readers is not None
        return session.readers[0].read_on(self._broker, session)

    def stop_reading(self, session: Session, filter: str) -> None:
        """The subscription is gone or replaced."""
        if session.readers:
            session.readers = deque(one for one in session.readers if one.subscription.filter != filter) or None


class RetainedReader:
    """How far one subscription has read."""

    __slots__ = ("subscription", "_after")

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self._after: bytes | None = None

    def read_on(self, broker: Broker, session: Session) -> bool:
        """Send the next page; False when nothing more can be done now, with no reader or no room left."""
        connection = session.connection
        assert connection is not None
        subscription = self.subscription
        limit = PAGE
        if subscription.qos:
            limit = min(PAGE, session.outbound.room)
            if limit <= 0:
                return False
        page, self._after = broker.retention.index.scan(subscription.filter, self._after, limit)
        page = self._present(broker, self._cut(page))
        broker.counters.messages_matched += len(page)
        identifiers = () if subscription.identifier is None else (subscription.identifier,)
        at_once = self._takes_at_once(broker, session, page, identifiers)
        for qos, same in groupby(page, lambda message: min(message.qos, subscription.qos)):
            messages = list(same)
            if qos and not at_once:
                for message in messages:
                    self._accept(broker, session, message, qos, identifiers)
            elif at_once:
                self._send_all(broker, session, messages, qos, identifiers)
            else:
                for message in messages:
                    self._send(broker, session, Delivery(message, 0, retain=True, identifiers=identifiers))
        if self._after is None:
            self._finish(session)
        # Make the outbox take what gathered, so that its state tells whether to read on.
        connection.write_out()
        return True

    def _cut(self, page: list[Message]) -> list[Message]:
        """The beginning of a page that is not too much for the outbox; the rest is of the next page."""
        size = 0
        for number, message in enumerate(page, 1):
            size += message.size
            if size > PAGE_BYTES and number < len(page):
                self._after = message.topic
                return page[:number]
        return page

    @staticmethod
    def _present(broker: Broker, page: list[Message]) -> list[Message]:
        """Without those whose time is over; they are forgotten."""
        wall = broker.clock.wall()
        gone = [one for one in page if one.expires_at is not None and one.expires_at <= wall]
        for message in gone:
            broker.retention.expire(message.topic)
        return [one for one in page if one.expires_at is None or one.expires_at > wall] if gone else page

    def _takes_at_once(
        self, broker: Broker, session: Session, page: list[Message], identifiers: tuple[int, ...]
    ) -> bool:
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

    def _send_all(
        self, broker: Broker, session: Session, messages: list[Message], qos: int, identifiers: tuple[int, ...]
    ) -> None:
        """Messages of one QoS as one write. They get no aliases: each topic comes once."""
        connection = session.connection
        assert connection is not None
        ids: Sequence[int] = range(len(messages))
        if qos:
            allowed = [message for message in messages if connection.may_receive(message.topic)]
            if len(allowed) < len(messages):
                session.drop(broker.counters, Drop.NOT_AUTHORIZED, len(messages) - len(allowed))
                messages = allowed
            ids = session.outbound.reserve(len(messages))
            session.outbound.mark(ids, qos)
        else:
            session.delivered += len(messages)
            broker.counters.messages_delivered += len(messages)
        blocks: Iterable[bytes] = repeat(b"")
        if connection.five:
            wall = broker.clock.wall()
            blocks = [_properties(message, wall, identifiers) for message in messages]
        connection.send(encode_messages(messages, blocks, ids, qos=qos, retain=True))

    def _send(self, broker: Broker, session: Session, delivery: Delivery) -> None:
        assert session.connection is not None
        if session.connection.send_delivery(delivery):
            session.delivered += 1
            broker.counters.messages_delivered += 1
        else:
            session.count_drop(Drop.TOO_LARGE)
            broker.counters.dropped[Drop.TOO_LARGE] += 1

    def _accept(
        self, broker: Broker, session: Session, message: Message, qos: int, identifiers: tuple[int, ...]
    ) -> None:
        reason = broker.outflow.accept(session, message, qos, retain=True, identifiers=identifiers, origin=None)
        if reason is not None:
            session.count_drop(reason)
            broker.counters.dropped[reason] += 1

    def _finish(self, session: Session) -> None:
        assert session.readers is not None
        session.readers.popleft()
        if not session.readers:
            session.readers = None


def _properties(message: Message, wall: float, identifiers: tuple[int, ...]) -> bytes:
    """The property block that a receiver of v5 gets, with its length."""
    expiry = None if message.expires_at is None else max(1, round(message.expires_at - wall))  # [MQTT-3.3.2-6]
    properties = hop_properties(message.properties, expiry=expiry, identifiers=identifiers)
    return varint(len(properties)) + properties if properties else b"\0"
