"""How far a peer's wall clock is ahead of ours, from what both tell with their heartbeats.

::

    peer ── its clock ──▶ us       seen: its clock − ours when it came = ahead − the way here
    peer ── what it saw of ours    theirs:                             = − ahead − the way there

    ahead = (seen − theirs) / 2    the error: half of what one way takes longer than the other

What waits on its way only looks older, so of each window the greatest counts: that of the heartbeat that waited least.

The sum of both is what the ways take, below zero. After a clock was set one side still has what it saw before, and the
sum is above: nothing is known then, until the windows of both are of one time.
"""

from __future__ import annotations

from math import inf
from typing import Final

#: Seconds of half a window: a clock that was set anew is believed after twice that.
_HALF: Final = 10.0
#: Seconds by which the sum may be above zero: clocks that are slewed meanwhile.
_SLEWED: Final = 0.1


class PeerClock:
    """Of one life of a peer."""

    __slots__ = ("_theirs", "_best", "_before", "_since")

    def __init__(self) -> None:
        self._theirs: float | None = None
        #: The greatest of this half of the window, and of the one before.
        self._best = self._before = -inf
        self._since = -inf

    def heard(self, clock: float, theirs: float | None, wall: float, now: float) -> None:
        """A heartbeat came at ``wall`` by our clock, that says ``clock`` and what the peer has seen of ours."""
        late = now - self._since
        if late >= _HALF:
            self._before = self._best if late < 2 * _HALF else -inf
            self._best, self._since = -inf, now
        self._best = max(self._best, clock - wall)
        self._theirs = theirs

    @property
    def seen(self) -> float | None:
        """What the peer is to be told; None: nothing is known."""
        seen = max(self._best, self._before)
        return seen if seen > -inf else None

    @property
    def settled(self) -> bool:
        """False: the peer tells its clock, and what both have seen is not yet of one time, or not yet told by both."""
        seen = self.seen
        return seen is None or (self._theirs is not None and seen + self._theirs <= _SLEWED)

    @property
    def ahead(self) -> float | None:
        """Seconds; None: it is not known, or the peer's release does not tell it."""
        seen = self.seen
        return (seen - self._theirs) / 2 if seen is not None and self._theirs is not None and self.settled else None
