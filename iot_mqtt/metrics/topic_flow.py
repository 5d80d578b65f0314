"""The busiest topics: what came to them lately, counted in a bounded table that is there while somebody looks.

Two windows are kept, the one under way and the one before. When a window has twice as many topics as it may have, the
busier half stays, and what the others had is at most what may be missing of a topic that comes again (``missed``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

#: Topics of a window that stay when it is full; publishers of a topic that are named; seconds of a window.
TOPICS: Final = 2_000
PUBLISHERS: Final = 4
WINDOW: Final = 10.0
#: Longer ones are not counted by themselves: the table stays small.
LONGEST: Final = 1_024


@dataclass(slots=True)
class Counted:
    """What came to one topic."""

    messages: int
    bytes: int
    missed: int
    publishers: dict[str, int]

    def add(self, messages: int, size: int, publisher: str) -> None:
        self.messages += messages
        self.bytes += size
        known = self.publishers.get(publisher)
        if known is not None or len(self.publishers) < PUBLISHERS:
            self.publishers[publisher] = (known or 0) + messages


@dataclass(frozen=True, slots=True)
class Rate:
    """Of one topic, in both windows: a second. ``missed``: at most so many more."""

    topic: bytes
    messages: float
    bytes: float
    missed: float
    publishers: tuple[str, ...]


class Window:
    """What came since a moment."""

    __slots__ = ("began", "counted", "missed", "_most")

    def __init__(self, began: float, most: int) -> None:
        self.began = began
        self.counted: dict[bytes, Counted] = {}
        self.missed = 0
        self._most = most

    def note(self, topic: bytes, messages: int, size: int, publisher: str) -> None:
        found = self.counted.get(topic)
        if found is None:
            if len(self.counted) >= 2 * self._most:
                self._shrink()
            found = self.counted[topic] = Counted(0, 0, self.missed, {})
        found.add(messages, size, publisher)

    def _shrink(self) -> None:
        """Once in so many new topics, so a new one costs the same whatever their number."""
        ordered = sorted(self.counted.items(), key=lambda one: -one[1].messages - one[1].missed)
        gone = ordered[self._most]
        self.missed = max(self.missed, gone[1].messages + gone[1].missed)
        self.counted = dict(ordered[: self._most])


class TopicFlow:
    """Of one node. Times are of a monotonic clock."""

    def __init__(self, now: float, most: int = TOPICS) -> None:
        self._most = most
        self._now = Window(now, most)
        self._before: Window | None = None

    def note(self, now: float, topic: bytes, messages: int, size: int, publisher: str) -> None:
        """So many came to a topic."""
        if len(topic) <= LONGEST:
            self._turn(now)
            self._now.note(topic, messages, size, publisher)

    def seconds(self, now: float) -> float:
        """How long it has been counted."""
        self._turn(now)
        return max(0.0, now - (self._before or self._now).began)

    def rates(self, now: float) -> Iterator[Rate]:
        """Of all topics in it, in no order."""
        seconds = max(1.0, self.seconds(now))
        before = {} if self._before is None else self._before.counted
        for topic in {**before, **self._now.counted}:
            found = [one for one in (self._now.counted.get(topic), before.get(topic)) if one is not None]
            names = dict.fromkeys(name for one in found for name in one.publishers)
            yield Rate(
                topic,
                sum(one.messages for one in found) / seconds,
                sum(one.bytes for one in found) / seconds,
                sum(one.missed for one in found) / seconds,
                tuple(names)[:PUBLISHERS],
            )

    def _turn(self, now: float) -> None:
        late = now - self._now.began
        if late >= WINDOW:
            self._before = self._now if late < 2 * WINDOW else None
            self._now = Window(self._now.began + WINDOW if self._before else now, self._most)
