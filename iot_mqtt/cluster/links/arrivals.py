"""What comes from one life of a peer, put in order: duplicates go, holes are noticed, and given up in the end.

::

    … delivered │ hole │ early │ hole │ early │ hole …
                 expected                      ^ known: the greatest number that is known to exist

``deliver`` and ``missing`` are told in the order of the numbers, each number exactly once, by one or the other.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from typing import NamedTuple

from iot_mqtt.cluster.links.values import Data, Item, Span


class _Early(NamedTuple):
    """Items behind a hole; None: it is certain that they never come."""

    last: int
    items: tuple[Item, ...] | None
    end: int
    size: int


class Arrivals:
    """The incoming half of a link, as long as neither side has restarted."""

    __slots__ = ("expected", "known", "early_bytes", "_early", "_order", "_deliver", "_missing", "_most_bytes", "_most")

    def __init__(
        self,
        deliver: Callable[[tuple[Item, ...], int], None],
        missing: Callable[[int, int], None],
        most_bytes: int,
        most: int,
    ) -> None:
        """``deliver(items, end)``; ``missing(first, last)``."""
        #: The number of the next item.
        self.expected = 1
        self.known = 0
        self.early_bytes = 0
        self._early: dict[int, _Early] = {}
        #: The keys of ``_early`` in order.
        self._order: list[int] = []
        self._deliver = deliver
        self._missing = missing
        self._most_bytes = most_bytes
        self._most = most

    @property
    def incomplete(self) -> bool:
        """Something is missing."""
        return self.expected <= self.known

    def is_duplicate(self, first: int, last: int) -> bool:
        """Whether items with these numbers have come, or were given up."""
        return last < self.expected or first in self._early

    def exists(self, last: int) -> None:
        """The sender has sent items up to this number."""
        self.known = max(self.known, last)

    def add(self, data: Data, size: int) -> bool:
        """Take items that are no duplicate; False if there was no room for them. They will be asked for again."""
        first = data.first
        last = first + len(data.items) - 1
        self.exists(last)
        if first > self.expected:
            if self.early_bytes + size > self._most_bytes or len(self._order) >= self._most:
                return False
            self._keep(first, _Early(last, data.items, data.end, size))
            return True
        self._deliver(data.items[self.expected - first :], data.end)
        self.expected = last + 1
        self._drain()
        return True

    def lost(self, first: int, last: int) -> None:
        """The sender does not have these any more."""
        self.exists(last)
        for begin, end in self.holes():
            begin, end = max(begin, first), min(end, last)
            # The first hole is passed at once, and needs no room.
            if begin <= end and (begin == self.expected or len(self._order) < 2 * self._most):
                self._keep(begin, _Early(end, None, 0, 0))
        self._drain()

    def give_up(self) -> None:
        """Go on behind the first hole."""
        holes = self.holes(1)
        if holes:
            self.lost(*holes[0])

    def holes(self, most: int | None = None) -> list[Span]:
        """What has not come, in order; the first ``most`` of them."""
        found = []
        at = self.expected
        for first in self._order:
            if first > at:
                found.append((at, first - 1))
                if len(found) == most:
                    return found
            at = max(at, self._early[first].last + 1)
        if at <= self.known:
            found.append((at, self.known))
        return found

    def _keep(self, first: int, early: _Early) -> None:
        insort(self._order, first)
        self._early[first] = early
        self.early_bytes += early.size

    def _drain(self) -> None:
        """What has its turn now."""
        order = self._order
        taken = 0
        while taken < len(order) and order[taken] <= self.expected:
            first = order[taken]
            taken += 1
            early = self._early.pop(first)
            self.early_bytes -= early.size
            if early.last < self.expected:
                continue
            begin, self.expected = self.expected, early.last + 1
            if early.items is None:
                self._missing(begin, early.last)
            else:
                self._deliver(early.items[begin - first :], early.end)
        del order[:taken]
