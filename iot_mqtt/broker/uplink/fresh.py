"""What was recorded for the uplink last, in memory, so that a reader that keeps up need not read the log.

It is complete from ``begin`` on. What it has no room for, and what was taken, is in the log only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from iot_mqtt.ports.log import LogRun

#: Bytes that it takes at most; and what a run takes beside its packets, about.
MAX_BYTES = 16 * 1024 * 1024
RUN_WEIGHT = 700


class Fresh:
    """Runs in the order of their positions."""

    __slots__ = ("begin", "_runs", "_bytes", "_limit")

    def __init__(self, begin: int, limit: int = MAX_BYTES) -> None:
        #: Nothing that goes up is missing from here on.
        self.begin = begin
        self._runs: deque[LogRun] = deque()
        self._bytes = 0
        self._limit = limit

    @property
    def oldest(self) -> LogRun | None:
        return self._runs[0] if self._runs else None

    def add(self, run: LogRun) -> Sequence[LogRun]:
        """It was appended to the log, behind all others. Returns what there is no room for any more."""
        self._runs.append(run)
        self._bytes += len(run.run.wire) + RUN_WEIGHT
        if self._bytes <= self._limit:
            return ()
        over = []
        while self._bytes > self._limit:
            oldest = self._runs.popleft()
            self._bytes -= len(oldest.run.wire) + RUN_WEIGHT
            self.begin = oldest.end
            over.append(oldest)
        return over

    def take(self, position: int, end: int, messages: int, size: int) -> tuple[list[LogRun], int]:
        """Runs from a position on, which is not before ``begin``, to another one, about so many messages or bytes of
        them; and where to go on.
        """
        runs = self._runs
        found: list[LogRun] = []
        while runs:
            run = runs[0]
            _, _, first, length = run.reference
            if first >= end:
                break
            if messages <= 0 or size <= 0:
                return found, self.begin
            runs.popleft()
            wire = len(run.run.wire)
            self._bytes -= wire + RUN_WEIGHT
            self.begin = first + length
            if self.begin <= position:
                continue
            found.append(run if first >= position else run.behind(position))
            messages -= length
            size -= wire
        self.begin = max(self.begin, end)
        return found, self.begin
