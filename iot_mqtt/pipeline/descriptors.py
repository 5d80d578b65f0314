"""Descriptors: how many each kind of connection may hold, so that none of them takes another's.

::

    │ reserve: files, the grid's, workers' │ admin's own │ mqtt's own │ ws's own │ … │ whoever comes first │
    └──────────── never connections ───────┘                                         the process's limit ──┘

Every share has a part that is its own, used or not. Beyond it a share takes from what nobody owns.
"""

from __future__ import annotations

import fcntl
import os
import resource
from pathlib import Path

__all__ = ["Descriptors", "Share", "make_room", "open_files", "raise_limit"]

#: Kept for everything but connections: the grid alone holds 128 files open.
RESERVE = 256
#: A process that may have few keeps half of them.
RESERVED_PART = 2
#: The part of all connections' descriptors that is one share's own, but not fewer than so many of them, as long as
#: all shares together own no more than a half.
OWN_PART = 32
OWN_LEAST = 16
OWNED_PART = 2
#: More than this is not asked for, whatever the system would give.
ENOUGH = 1_048_576
#: For so many there is room from the start: half a megabyte of the kernel's.
ROOM = 65_536


def raise_limit() -> None:
    """Use all the descriptors that the process may have; to be called before there are threads."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    make_room(min(wanted, ROOM))


def make_room(count: int) -> None:
    """Have the kernel's table of the process as long as it takes for so many descriptors.

    The kernel doubles it when it is full, and in a process with threads waits until no processor looks at the old one:
    10 to 20 ms, in which everybody waits. Made in advance it costs eight bytes for each, and no time.
    """
    with Path(os.devnull).open("rb") as file:
        try:
            os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, count - 1))
        except OSError:  # then it grows as it is needed
            return


def open_files() -> int:
    """How many the process may have now: whoever may set limits can change it while it runs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ENOUGH if soft == resource.RLIM_INFINITY else min(soft, ENOUGH)


class Share:
    """What one listener may hold. ``take`` and ``give_back`` are one comparison and one addition each, mostly."""

    __slots__ = ("most", "open", "own", "refused", "_all")

    def __init__(self, every: Descriptors, own: int, most: int) -> None:
        self._all = every
        self.own = own
        self.most = most
        self.open = 0
        self.refused = 0

    def take(self) -> bool:
        """Whether one more connection may be accepted; it then counts until it is given back."""
        if self.open >= self.most:
            self.refused += 1
            return False
        if self.open >= self.own:
            every = self._all
            if every.claimed >= every.limit:
                self.refused += 1
                every.refused += 1
                return False
            every.claimed += 1
        self.open += 1
        return True

    @property
    def bound(self) -> str:
        """What there are no more connections by, for people; empty: not by the descriptors of all."""
        return "" if self.open >= self.most else self._all.bound

    @property
    def nearly_full(self) -> bool:
        """Whether nine tenths of what this may hold now are taken."""
        every = self._all
        free = max(0, self.own - self.open) + max(0, every.limit - every.claimed)
        free = min(free, self.most - self.open)
        return free * 9 <= self.open

    def give_back(self) -> None:
        """A connection is gone."""
        self.open -= 1
        if self.open >= self.own:
            self._all.claimed -= 1

    def end(self) -> None:
        """The port is closed for good: what was its own is anybody's, but what its connections still hold."""
        self._all.claimed -= max(0, self.own - self.open)
        self.own = self.most = 0


class Descriptors:
    """All shares of a process. ``claimed`` counts what is open and what is somebody's own, whichever is more."""

    __slots__ = ("bound", "claimed", "limit", "refused", "short")

    def __init__(self, limit: int, bound: str = "the limit of open files", *, short: bool = False) -> None:
        """``bound``: what the limit comes from, for people; ``short``: the system gives less than a node asks for."""
        #: Descriptors of all connections together.
        self.limit = limit
        self.bound = bound
        self.short = short
        self.claimed = 0
        #: Connections for which there was none.
        self.refused = 0

    @classmethod
    def of_process(cls, most: int = 0) -> Descriptors:
        """What the process may have, without the reserve; ``most``: no more than so many, 0: all."""
        files = open_files()
        limit = files - min(RESERVE, files // RESERVED_PART)
        if most and most <= limit:
            return cls(most, f"doors.max_connections ({most})")
        return cls(
            limit, f"the limit of open files ({files}; LimitNOFILE of the unit, or ulimit -n)", short=files < ENOUGH
        )

    def share(self, most: int, among: int) -> Share:
        """The share of one of so many listeners, which never holds more than ``most``."""
        own = min(most, max(OWN_LEAST, self.limit // OWN_PART), self.limit // OWNED_PART // among)
        self.claimed += own
        return Share(self, own, most)
