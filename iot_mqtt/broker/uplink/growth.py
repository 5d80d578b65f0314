"""Whether a backlog grows and goes on growing, from looks at it one after the other."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Final

#: So many looks in a row that each find more than the one before.
LOOKS: Final = 4


class BacklogGrowth:
    """``look`` at it once a second; ``growing`` stands until the backlog gets smaller."""

    __slots__ = ("growing", "_looks")

    def __init__(self) -> None:
        self.growing = False
        #: What waited, and all that had ever come.
        self._looks: deque[tuple[int, int]] = deque(maxlen=LOOKS + 1)

    def look(self, waiting: int, ever: int) -> None:
        """So much waits now, and so much has come since the beginning."""
        self._looks.append((waiting, ever))
        if len(self._looks) <= LOOKS:
            return
        seen = [look[0] for look in self._looks]
        a_second = (ever - self._looks[0][1]) / LOOKS
        grows = all(later > earlier for earlier, later in pairwise(seen))
        # Less than a second's worth is no backlog but the way of things.
        self.growing = waiting > a_second and (grows or (self.growing and waiting >= seen[0]))
