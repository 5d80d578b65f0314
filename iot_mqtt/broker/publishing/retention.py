"""Retained messages: kept by topic within a quota, and the same on every node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Protocol

from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.broker.publishing.retained_news import RetainedNews
from iot_mqtt.broker.publishing.retained_use import RetainedUse
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.broker.turn import Turn
from iot_mqtt.codec import PublishBatch, last_messages
from iot_mqtt.ports.store import Store
from iot_mqtt.topics import RetainedIndex
from iot_mqtt.values import Message, OwnedMessage

SYS_PREFIX = b"$SYS/"
#: Topics that one ``sweep`` looks at, in a third of a millisecond or so.
SWEPT = 2_000


class Versions(Protocol):
    """Which of two retained messages of a topic is the later one, where any node may set it."""

    #: Whether there are other nodes.
    shared: bool

    def of(self, topic: bytes) -> int: ...

    def changed(self, topic: bytes, message: Message | None) -> int:
        """This node sets or removes it; the version, of which others are told."""
        ...

    def note(self, topic: bytes, version: int, *, present: bool = True) -> int:
        """Another node, or the store, has this version; > 0: it is later than what was known, < 0: earlier, 0: that."""
        ...

    def rewritten(self, topic: bytes, message: Message | None) -> bool:
        """This node writes once more what it knows, and tells others; False: that is about to be done."""
        ...

    def is_committed(self, topic: bytes) -> bool:
        """This node has written nothing of it that is not in the store yet."""
        ...

    def now(self) -> int: ...

    def missing(self, stored: Collection[bytes], begun: int) -> list[bytes]:
        """Topics that have a message here and, since before ``begun``, none in the store."""
        ...


class Unversioned:
    """The ``Versions`` of a sole node: what it sets last is the last."""

    __slots__ = ()

    shared = False

    def of(self, topic: bytes) -> int:
        return 0

    def changed(self, topic: bytes, message: Message | None) -> int:
        return 0

    def note(self, topic: bytes, version: int, *, present: bool = True) -> int:
        return 1

    def rewritten(self, topic: bytes, message: Message | None) -> bool:
        return True

    def is_committed(self, topic: bytes) -> bool:
        return True

    def now(self) -> int:
        return 0

    def missing(self, stored: Collection[bytes], begun: int) -> list[bytes]:
        return []


class Retention:
    """The retained messages of this node."""

    __slots__ = ("_settings", "_store", "_budget", "_turn", "_versions", "_own", "_swept", "index", "news", "use")

    def __init__(self, settings: MqttSettings, store: Store, budget: Budget, turn: Turn) -> None:
        self._settings = settings
        self._store = store
        self._budget = budget
        self._turn = turn
        self._versions: Versions = Unversioned()
        #: Topics of the node itself, which take nobody's room, and how far they have been swept.
        self._own = 0
        self._swept: bytes | None = None
        self.index = RetainedIndex()
        self.news = RetainedNews()
        self.use = RetainedUse()

    def retain(self, message: Message, user: str = "") -> bool:
        """Replace the topic's retained message, or remove it (empty payload); False when a quota is full, the node's or
        the user's who answers for it.
        """
        topic = message.topic
        if not message.payload:  # [MQTT-3.3.1-6] [MQTT-3.3.1-7]
            self.remove(topic)
            return True
        if topic.startswith(SYS_PREFIX):
            self._own += self.index.set(topic, message) is None
            return True
        if self.over_quota(message, user):
            return False
        if user in self.use.limits:
            message = OwnedMessage(message, user)
        self.use.changed(self.index.set(topic, message), message)
        self.news.came((topic,))
        self._store.save_retained(message, self._versions.changed(topic, message))
        self._budget.added(message.size)
        self._turn.plan()
        return True

    def retain_batch(self, batch: PublishBatch, publisher: str, wall: float) -> bool:
        """As ``retain`` for all that one client sent at once; False, and nothing is done, if that is to be asked for
        each of them: there may be no room for all, one may have to be removed.
        """
        index, store = self.index, self._store
        found = last_messages(batch, publisher, wall)
        if found is None:
            return False
        messages, size = found
        if not self._has_room(batch.count, size) or not self._budget.takes(size):
            return False
        kept = size if len(messages) == batch.count else sum([message.size for message in messages.values()])
        if self.use.counted:
            for topic in messages:
                self.use.changed(index.get(topic), None)
        index.set_all(messages, kept)
        self.news.came(messages)
        if self._versions.shared:
            for topic, message in messages.items():
                store.save_retained(message, self._versions.changed(topic, message))
        else:
            store.save_all_retained(messages)
        self._budget.added(size)
        self._turn.plan()
        return True

    def remove(self, topic: bytes) -> bool:
        """Forget a topic's retained message; False if it has none."""
        before = self._remove(topic)
        if before is None:
            return False
        if topic.startswith(SYS_PREFIX):
            self._own -= 1
        else:
            self._versions.changed(topic, None)
            self._store.remove_retained(topic)
            self._turn.plan()
        return True

    def _remove(self, topic: bytes) -> Message | None:
        """From the memory alone."""
        before = self.index.remove(topic)
        self.use.changed(before, None)
        self.news.gone(topic)
        return before

    def expire(self, topic: bytes) -> None:
        """Its time is over. Nobody is told, because everybody sees for himself, and a message that another node has
        just put in its place must not be removed from the store.
        """
        if self._versions.shared:
            self._remove(topic)
        else:
            self.remove(topic)

    def sweep(self, wall: float) -> None:
        """Forget some of those whose time is over, a part of all topics after the other: nobody need ask for them."""
        found, self._swept = self.index.scan("#", self._swept, SWEPT)
        self.living(found, wall)

    def living(self, found: list[Message], wall: float) -> list[Message]:
        """Of these, those whose time is not over; the others are forgotten."""
        over = [one for one in found if one.expires_at is not None and one.expires_at <= wall]
        for message in over:
            self.expire(message.topic)
        return [one for one in found if one.expires_at is None or one.expires_at > wall] if over else found

    async def load(self) -> None:
        """Put back what the store has, at start. Others may have told of something later meanwhile."""
        async for _ in self._stored():
            pass
        self.index.settle()

    async def _stored(self) -> AsyncIterator[bytes]:
        """Take what the store has, unless something later is known; its topics."""
        async for message, version in self._store.retained():
            topic = message.topic
            order = self._versions.note(topic, version)
            if order > 0:
                self._put(message)
            elif order < 0 and self._versions.is_committed(topic) and self.index.get(topic) is not None:
                # Whoever wrote the later one may be gone.
                self._put_right(topic)
            yield topic

    def _put(self, message: Message) -> None:
        """As it was retained before, or elsewhere."""
        self.use.changed(self.index.set(message.topic, message), message)

    def over_quota(self, message: Message, user: str) -> bool:
        """Whether it may not be retained: the node has as many as there may be, or its user."""
        if not message.payload:
            return False
        known = self.index.get(message.topic)
        more = (1, message.size) if known is None else (0, message.size - known.size)
        return not self._has_room(*more) or (user in self.use.limits and self.use.refuses(user, message, known))

    def takes(self, batch: PublishBatch) -> bool:
        """Whether there is room for all of these, whoever retains them."""
        return self._has_room(batch.count, batch.count * batch.longest)

    def _has_room(self, count: int, size: int) -> bool:
        """For so many topics and bytes more; a message in the place of another needs no topic."""
        settings, index = self._settings, self.index
        if count and index.count - self._own + count > settings.max_retained_messages:
            return False
        return index.bytes + size <= settings.max_retained_bytes

    # Among other nodes.

    def share(self, versions: Versions) -> None:
        """From now on other nodes retain messages too; before anything is restored."""
        self._versions = versions

    def heard(self, topic: bytes, message: Message | None, version: int) -> None:
        """Another node has a new retained message; the later one of two is retained everywhere. What was published is
        delivered as it came, though: of two nodes at nearly the same time, a subscriber may get the later one first.
        """
        order = self._versions.note(topic, version, present=message is not None)
        if order > 0 and message is None:
            self._remove(topic)
        elif order > 0 and message is not None:
            self._put(message)
        if order < 0 or (order > 0 and not self._versions.is_committed(topic)):
            # Its writer may have overwritten ours in the grid, or we will overwrite his: whoever has the later one puts
            # that right.
            self._put_right(topic)

    def _put_right(self, topic: bytes) -> None:
        """Have the store say what is known here."""
        mine = self.index.get(topic)
        if not self._versions.rewritten(topic, mine):
            return
        if mine is None:
            self._store.remove_retained(topic)
        else:
            self._store.save_retained(mine, self._versions.of(topic))
        self._turn.plan()

    async def catch_up(self) -> None:
        """What others retained or removed may have been missed: the store has it."""
        versions = self._versions
        begun = versions.now()
        stored = {topic async for topic in self._stored()}
        for topic in versions.missing(stored, begun):
            self._remove(topic)
