"""Which of two retained messages of a topic is the later one, when any node may set it.

A version is the writer's wall clock in microseconds, never less than anything it has heard of, with the node's number
in the last byte: no two are equal, and of two that did not know of each other the clocks decide.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable

from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Peers
from iot_mqtt.ports.store import Store
from iot_mqtt.values import Message

#: Seconds that the clocks of two nodes may differ, with the time a commit takes.
CLOCKS_APART = 10.0
#: Seconds after which a commit is late: what is not in the store by then may be taken for removed elsewhere.
LATE = 2.0
#: Versions that are remembered of topics whose message was removed; a bound, not a tuning knob.
MAX_REMOVED = 100_000


class RetainedVersions:
    """The version of every topic that has a retained message, or had one lately."""

    shared = True

    def __init__(self, clock: Clock, peers: Peers, store: Store) -> None:
        self._clock = clock
        self._peers = peers
        self._store = store
        self._newest = 0
        self._versions: dict[bytes, int] = {}
        self._removed: OrderedDict[bytes, int] = OrderedDict()
        #: What this node writes and the store has not yet, in the order of the batches: the batch, the version that is
        #: in it, and since when.
        self._fresh: dict[bytes, tuple[int, int, float]] = {}

    def of(self, topic: bytes) -> int:
        """0: none is known."""
        return self._versions.get(topic) or self._removed.get(topic, 0)

    def changed(self, topic: bytes, message: Message | None) -> int:
        """This node sets or removes it, and is about to stage that; tells the others and returns the version."""
        clock = int(self._clock.wall() * 1_000_000)
        version = max(clock, (self._newest >> 8) + 1) << 8 | self._peers.number
        self._put(topic, version, present=message is not None)
        self._tell(topic, message, version, self._store.reserve())
        return version

    def rewritten(self, topic: bytes, message: Message | None) -> bool:
        """This node writes once more what it knows, and tells the others: one of them may have a later one, which that
        undoes in the store. False: it is about to be done.
        """
        batch, version = self._store.reserve(), self.of(topic)
        if topic in self._fresh and self._fresh[topic][:2] == (batch, version):
            return False
        self._tell(topic, message, version, batch)
        return True

    def _tell(self, topic: bytes, message: Message | None, version: int, batch: int) -> None:
        self._peers.retain(topic, message, version)
        self._fresh.pop(topic, None)
        self._fresh[topic] = batch, version, self._clock.monotonic()

    def is_committed(self, topic: bytes) -> bool:
        """This node has written nothing of it that is not in the store yet."""
        return topic not in self._fresh

    def uncommitted(self) -> Collection[bytes]:
        """Topics that this node writes, and the store has not yet: nobody can read there what he has not heard."""
        return list(self._fresh)

    def committed(self) -> Collection[bytes]:
        """A commit is over: the topics of which it came late."""
        fresh, committed, late = self._fresh, self._store.committed, dict[bytes, None]()
        since = self._clock.monotonic() - LATE if fresh else 0.0
        while fresh:
            topic, (batch, _, began) = next(iter(fresh.items()))
            if batch > committed:
                break
            del fresh[topic]
            if began < since:
                late[topic] = None
        return late

    def tell_again(self, topics: Iterable[bytes], message_of: Callable[[bytes], Message | None]) -> None:
        """Somebody may have missed that this node has changed them."""
        for topic in topics:
            self._peers.retain(topic, message_of(topic), self.of(topic))

    def note(self, topic: bytes, version: int, *, present: bool = True) -> int:
        """Another node, or the store, has this version; > 0: it is later than what was known, < 0: earlier, 0: that."""
        known = self.of(topic)
        if version > known:
            self._put(topic, version, present=present)
            return 1
        return -1 if version < known else 0

    def now(self) -> int:
        """Less than every version that is given out from now on, if the clocks of the nodes agree that well."""
        return int((self._clock.wall() - CLOCKS_APART) * 1_000_000) << 8

    def missing(self, stored: Collection[bytes], begun: int) -> list[bytes]:
        """Topics that have a message here and, since before ``begun``, none in the store: it was removed elsewhere."""
        gone = [
            topic
            for topic, version in self._versions.items()
            if version < begun and topic not in stored and self.is_committed(topic)
        ]
        for topic in gone:
            del self._versions[topic]
        return gone

    def _put(self, topic: bytes, version: int, *, present: bool) -> None:
        self._newest = max(self._newest, version)
        if present:
            self._removed.pop(topic, None)
            self._versions[topic] = version
            return
        self._versions.pop(topic, None)
        self._removed[topic] = version
        self._removed.move_to_end(topic)
        if len(self._removed) > MAX_REMOVED:
            self._removed.popitem(last=False)
