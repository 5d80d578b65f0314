"""The memo of matches: topic → match, bounded, and exact again after every change of subscriptions.

A hit must cost one dict lookup and not even a Python call, so the memo is a dict with ``__missing__``. Being
exact is therefore the business of those who change subscriptions: ``forget_topics`` for exact filters,
``forget_prefixes`` for wildcards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Generic

from iot_mqtt.topics.match import Match, Mixed, class_of
from iot_mqtt.topics.route import R
from iot_mqtt.topics.sorted_topics import Effort

#: Longer topics are looked up each time, so that the memo's keys stay small beside what they stand for.
_LONGEST = 512
#: Memory that all matches may have together, in pointers per entry of the limit.
_WEIGHT_PER_ENTRY = 64
#: Finding a match takes as long as looking at this many entries of the memo, with some reserve.
_SCANS_PER_MISS = 32
#: However many misses there were, so many looks through a full memo at most before it is cleared instead.
_MOST_SCANS = 16


class Classes(dict[bytes, "Match[R] | Mixed | None"], Generic[R]):
    """Of the memo, what is served together (see ``Routes``). ``classes[topic]`` finds what it does not have, as long as
    there is ``effort`` left for lookups: of any other topic it says None then, which it does not keep.
    ``forgotten`` grows when anything that it had may be another now.
    """

    __slots__ = ("effort", "forgotten", "_find")

    def __init__(self, find: Callable[[bytes], Match[R]]) -> None:
        super().__init__()
        self.effort = Effort(sys.maxsize)
        self.forgotten = 0
        self._find = find

    def __missing__(self, topic: bytes) -> Match[R] | Mixed | None:
        if self.effort.left <= 0:
            return None
        self._find(topic)
        return self.get(topic)


class Memo(dict[bytes, Match[R]], Generic[R]):
    """Matches by topic; ``memo[topic]`` finds and keeps what it does not have. Topics nobody wants count too.

    When it is full its oldest entries make room, a sixteenth at a time: dropping them one by one would leave
    a growing row of dead slots at the front of the dict for each to step over.
    """

    __slots__ = ("_find", "_class_of", "_evicted", "_limit", "_weight", "_credit", "classes")

    def __init__(
        self,
        find: Callable[[bytes], Match[R]],
        limit: int,
        class_of: Callable[[bytes, Match[R]], Match[R] | Mixed | None] = class_of,
    ) -> None:
        super().__init__()
        self.classes: Classes[R] = Classes(self.__missing__)
        self._class_of = class_of
        self._find = find
        self._limit = limit
        #: Whether anything has made room since ``classes.forgotten`` grew.
        self._evicted = False
        self._weight = 0
        self._credit = 0

    def __missing__(self, topic: bytes) -> Match[R]:
        match = self._find(topic)
        if len(topic) > _LONGEST or match.weight > self._limit * _WEIGHT_PER_ENTRY:
            return match
        while self and (len(self) >= self._limit or self._weight + match.weight > self._limit * _WEIGHT_PER_ENTRY):
            self._drop(list(islice(self, len(self) // 16 + 1)))
            self._evicted = True
        self[topic] = match
        self.classes[topic] = self._class_of(topic, match)
        self._weight += match.weight
        self._credit += _SCANS_PER_MISS
        return match

    def forget_topics(self, topics: Iterable[bytes]) -> None:
        """Drop these, where they are kept."""
        topics = list(topics)
        if self._drop(topics) or (topics and self._evicted):
            self._forgot()

    def _drop(self, topics: Iterable[bytes]) -> int:
        """How many of them there were."""
        before = len(self)
        for topic in topics:
            match = self.pop(topic, None)
            self.classes.pop(topic, None)
            if match is not None:
                self._weight -= match.weight
        return before - len(self)

    def _forgot(self) -> None:
        """Who copied from here looks again; also at what had to make room here, and is not known to have changed."""
        self.classes.forgotten += 1
        self._evicted = False

    def forget_prefixes(self, prefixes: Iterable[bytes]) -> None:
        """Drop all topics that begin with one of these.

        Looking at every entry is worth it only while they are found more often than looked at: a storm of
        subscriptions on a large memo ends in clearing it, which makes the following changes cheap.
        """
        wanted = tuple(prefixes)
        if not wanted or not self:
            return
        if self._evicted:
            self._forgot()
        if b"" in wanted or len(self) > self._credit:
            self.forget_all()
            return
        self._credit = min(self._credit, self._limit * _MOST_SCANS) - len(self)
        doomed = [topic for topic in self if topic.startswith(wanted)]
        if len(doomed) * 2 > len(self):
            self.forget_all()
        else:
            self.forget_topics(doomed)

    def forget_all(self) -> None:
        """Drop everything."""
        self.clear()
        self.classes.clear()
        self._forgot()
        self._weight = self._credit = 0
