"""Facts of a node that never was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """``NodeFacts`` with a figure in each place."""

    node_id: str = "n1"
    version: str = "1.2"
    started_at: float = 1000.0
    ready: bool = True
    clients: int = 2
    sessions: int = 5
    subscriptions: int = 7
    retained: int = 11
    retained_bytes: int = 13
    queued: int = 17
    inflight: int = 19
    waiting: int = 23
    backlog: int = 29
    uncounted: int = 31
    largest_backlog: int = 37
    furthest_lag: int = 41
    paused: int = 43


@dataclass(frozen=True)
class RoomFacts:
    """``LogFacts`` with a figure in each place."""

    messages: int = 2001
    bytes: int = 2002
    generations: int = 2003
    streams: int = 2004
    messages_appended: int = 2005
    bytes_appended: int = 2006
    pages_written: int = 2007
    pages_read: int = 2008
    bytes_read: int = 2009
    damaged_pages: int = 2010
    disk_level: str = "alarm"
    disk_used: int = 2011
    disk_limit: int = 2012
    disk_free: int = 2013
    uncommitted_bytes: int = 2014
    uncommitted_operations: int = 2015
    trouble: str | None = None


@dataclass
class Counts:
    """What a listener counted."""

    accepted: int = 3
    refused: int = 1
    open: int = 2


@dataclass
class Listener:
    """One open port."""

    name: str
    counts: Counts


class HandClock:
    """A clock that is turned by hand; ``late`` lets it run over what was due."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[tuple[float, Callable[[], None], HandTimer]] = []

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> HandTimer:
        timer = HandTimer()
        self.calls.append((self.now + delay, call, timer))
        return timer

    def turn(self, seconds: float) -> None:
        """Let time pass at once, then call what became due, late as it may be."""
        self.now += seconds
        due = [entry for entry in self.calls if entry[0] <= self.now]
        self.calls = [entry for entry in self.calls if entry[0] > self.now]
        for _, call, timer in due:
            if not timer.cancelled:
                call()


class HandTimer:
    """A timer of ``HandClock``."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
