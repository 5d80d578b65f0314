"""Wrong passwords at the admin port, by name and address: from the sixth on, each makes the next one wait longer.

::

    1 … 5    no waiting
    6, 7, …  1 s, 2 s, 4 s … 900 s

Only those wait who come from that address (of IPv6: from that /64) with that name: whoever guesses elsewhere locks
nobody out here. Asking while one has to wait makes it no longer. Names that nobody has are counted like others. Pure:
time is passed in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

#: Wrong passwords that cost no waiting, and seconds: the longest, and after which all are forgotten.
FREE = 5
LONGEST = 900.0
FORGOTTEN = 3600.0
#: Pairs that are remembered; those that failed longest ago make room.
MAX_PAIRS = 10_000
_LOOKED_AT = 64


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last: float = 0.0
    until: float = 0.0


class Lockout:
    """Who has to wait before another password is looked at."""

    def __init__(self, *, most: int = MAX_PAIRS) -> None:
        self._most = most
        self._pairs: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def wait(self, name: str, source: str, now: float) -> float:
        """Seconds that a pair has to wait; 0: it may try."""
        known = self._pairs.get((name, source))
        return 0.0 if known is None else max(0.0, known.until - now)

    def begin(self, name: str, source: str, now: float) -> float:
        """A password is being looked at; it counts as wrong until ``forgive`` or ``take_back``. The seconds that the
        next one has to wait.
        """
        known = self._pairs.pop((name, source), None)
        if known is None or now - known.last > FORGOTTEN:
            known = _Failures()
        self._make_room(now)
        self._pairs[name, source] = known
        known.count += 1
        known.last = now
        # No power of two that no float can hold.
        over = min(known.count - FREE - 1, 20)
        known.until = now + min(LONGEST, 2.0**over) if over >= 0 else 0.0
        return max(0.0, known.until - now)

    def forgive(self, name: str, source: str) -> None:
        """It was the right one: nothing is held against the pair."""
        self._pairs.pop((name, source), None)

    def take_back(self, name: str, source: str) -> None:
        """Nobody could look at it."""
        known = self._pairs.get((name, source))
        if known is not None:
            known.count -= 1
            known.until = 0.0
            if not known.count:
                del self._pairs[name, source]

    def unlock(self, names: Iterable[str]) -> None:
        """Nothing is held against these names, wherever it came from."""
        gone = frozenset(names)
        for pair in [pair for pair in self._pairs if pair[0] in gone]:
            del self._pairs[pair]

    def _make_room(self, now: float) -> None:
        """Those who need not wait go first: names that somebody makes up set nobody free."""
        while len(self._pairs) >= self._most:
            oldest = list(islice(self._pairs, _LOOKED_AT))
            gone = next((pair for pair in oldest if self._pairs[pair].until <= now), oldest[0])
            del self._pairs[gone]

    def failures(self, name: str, source: str) -> int:
        """Wrong passwords of a pair."""
        known = self._pairs.get((name, source))
        return 0 if known is None else known.count
