"""Retained messages by topic, and those that match a filter in pages.

Setting and removing is a dict operation; the order of topics is made up for only when a filter with wildcards
is read. A page begins behind the last topic of the page before, by name, so it does not matter what was set
or removed between pages, and nothing is held for a reader that is slow or never returns.

Topics are in byte order. A filter is read by seeking, not by looking at everything:

    +/status     a/run  a/status  a/temp  a/volt  b/run  b/status
                   |----> hit       |---------------> |--> hit

Topics of fewer levels than the filter are passed over without being held against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from iot_mqtt.topics.filters import is_wildcard, literal_prefix
from iot_mqtt.topics.seeking import BEHIND_DOLLAR, BEHIND_SLASH, NO_MORE, next_candidate
from iot_mqtt.topics.sorted_topics import Effort, SortedTopics
from iot_mqtt.values import Message

#: Of ``Effort``: what holding a topic against a filter takes, a microsecond or so.
LOOK: Final = 8
#: What a page takes at most, where nobody says how much that is, before it is handed out unfilled.
_EFFORT = 5_000 * LOOK


class Page(NamedTuple):
    """Some of the matching messages. ``after`` is where the next page goes on; None when this is the last."""

    messages: list[Message]
    after: bytes | None


class RetainedIndex:
    """The retained messages of a node. ``count`` and ``bytes`` are what quotas are made of; the caller decides.

    Nothing expires by itself: there is no clock here.
    """

    __slots__ = ("bytes", "system_bytes", "system_count", "_messages", "_sorted", "_unsorted")

    def __init__(self) -> None:
        self.bytes = 0
        #: Of ``count`` and ``bytes``, those of topics that begin with "$": no filter "#" finds them [MQTT-4.7.2-1].
        self.system_count = self.system_bytes = 0
        self._messages: dict[bytes, Message] = {}
        self._sorted = SortedTopics()
        # Topics still to be sorted in. A dict, as it keeps the order of a store that was read in order.
        self._unsorted: dict[bytes, None] = {}

    @property
    def count(self) -> int:
        """How many topics have a retained message."""
        return len(self._messages)

    def get(self, topic: bytes) -> Message | None:
        """The message retained on exactly this topic."""
        return self._messages.get(topic)

    def set(self, topic: bytes, message: Message) -> Message | None:
        """Retain a message in place of the one returned [MQTT-3.3.1-5]."""
        before = self._messages.get(topic)
        self._messages[topic] = message
        if before is None:
            self._unsorted[topic] = None
            self._weigh(topic, 1, message.size)
        else:
            self._weigh(topic, 0, message.size - before.size)
        return before

    def set_all(self, messages: Mapping[bytes, Message], size: int) -> None:
        """The same for messages of that size, by topics that do not begin with "$"."""
        held = self._messages
        known = held.keys() & messages.keys()
        self._unsorted.update(dict.fromkeys(messages.keys() - known if known else messages))
        self.bytes += size - sum([held[topic].size for topic in known])
        held.update(messages)

    def remove(self, topic: bytes) -> Message | None:
        """Retain nothing on this topic any more; returns what was there [MQTT-3.3.1-6]."""
        before = self._messages.pop(topic, None)
        if before is not None:
            self._weigh(topic, -1, -before.size)
            if topic in self._unsorted:
                del self._unsorted[topic]
            else:
                self._sorted.remove(topic)
        return before

    def _weigh(self, topic: bytes, count: int, size: int) -> None:
        self.bytes += size
        if topic.startswith(b"$"):
            self.system_count += count
            self.system_bytes += size

    def settle(self) -> None:
        """Sort in what was set since the last read. Reading does it too; after loading a store, do it early."""
        if self._unsorted:
            self._sorted.add_all(self._unsorted)
            self._unsorted = {}

    def may_have(self, filter: str) -> bool:
        """Whether there is a topic that begins as those do which a filter matches: one look, whatever there is."""
        if not self._messages:
            return False
        prefix = literal_prefix(filter).encode()
        if not prefix:
            return True
        self.settle()
        return bool(self._sorted.run(prefix, prefix + BEHIND_SLASH, 1))

    def scan(self, filter: str, after: bytes | None, limit: int, effort: Effort | None = None) -> Page:
        """The next page in topic order: at most ``limit`` (> 0) messages, and no more when the effort is used up.

        A page may be short or empty and yet not the last: a filter can pass over many topics between two that
        match, and a turn must not take long.
        """
        if not is_wildcard(filter):
            topic = filter.encode()
            found = self._messages.get(topic) if after is None or after < topic else None
            return Page([] if found is None else [found], None)
        self.settle()
        start = b"" if after is None else after + b"\0"
        if filter.endswith("#") and not is_wildcard(filter[:-1]):
            return self._below(filter[:-2].encode(), start, limit, everything=filter == "#")
        return self._seek(filter.encode().split(b"/"), start, limit, effort or Effort(_EFFORT))

    def page(self, filter: str, after: bytes | None, limit: int) -> list[Message]:
        """The next ``limit`` messages in topic order; fewer only at the end, however long that takes."""
        found: list[Message] = []
        while len(found) < limit:
            messages, after = self.scan(filter, after, limit - len(found))
            found += messages
            if after is None:
                break
        return found

    def _below(self, parent: bytes, start: bytes, limit: int, *, everything: bool) -> Page:
        """``parent/#``, or ``#``: whole ranges, with nothing to compare topic by topic."""
        if everything:
            ranges = [(b"", b"$"), (BEHIND_DOLLAR, None)]  # [MQTT-4.7.2-1]
        else:
            ranges = [(parent, parent + b"\0"), (parent + b"/", parent + BEHIND_SLASH)]
        topics: list[bytes] = []
        for low, high in ranges:
            topics += self._sorted.run(max(low, start), high, limit - len(topics))
        held = self._messages
        return Page([held[topic] for topic in topics], topics[-1] if topics and len(topics) == limit else None)

    def _seek(self, levels: Sequence[bytes], start: bytes, limit: int, effort: Effort) -> Page:
        """Any other filter: from topic to topic that may match."""
        found: list[Message] = []
        ceiling = self._sorted.ceiling
        # "a/#" includes "a" itself.
        slashes = len(levels) - (2 if levels[-1] == b"#" else 1)
        topic = ceiling(start, slashes, effort)
        while topic is not None:
            onward = next_candidate(levels, topic)
            if onward is None:
                found.append(self._messages[topic])
                onward = topic + b"\0"
            effort.left -= LOOK
            if effort.left <= 0 or len(found) == limit:
                return Page(found, topic)
            topic = ceiling(onward, slashes, effort) if onward != NO_MORE else None
        return Page(found, None)
