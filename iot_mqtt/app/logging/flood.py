"""Thinning out lines that repeat: what one bad client says a thousand times a second, the log says a few times.

A line's identity is its template (logger, level and the text before figures and names are put in), so a flood
of refused connections is one kind of line however many addresses it comes from.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Kind:
    """One template in its current window."""

    until: float
    written: int = 0
    held_back: int = 0


class FloodFilter(logging.Filter):
    """Lets ``burst`` lines of a kind through per ``seconds``; the first of the next window says how many were not.

    Lines with a traceback count like any other: the same fault a thousand times is one fault.
    """

    def __init__(
        self,
        burst: int = 20,
        seconds: float = 10.0,
        *,
        kinds: int = 1000,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._burst = burst
        self._seconds = seconds
        self._most_kinds = kinds
        self._now = now
        self._kinds: dict[tuple[str, int, str], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._now()
        # Set where the text was made before it came here.
        template = record.__dict__.pop("template", None)
        kind = self._kind((record.name, record.levelno, template or str(record.msg)), now)
        if now >= kind.until:
            if kind.held_back:
                record.held_back = kind.held_back
            kind.until, kind.written, kind.held_back = now + self._seconds, 0, 0
        if kind.written >= self._burst:
            kind.held_back += 1
            return False
        kind.written += 1
        return True

    def _kind(self, identity: tuple[str, int, str], now: float) -> _Kind:
        kind = self._kinds.get(identity)
        if kind is None:
            if len(self._kinds) >= self._most_kinds:
                # Somebody formats before logging: every line is a kind of its own. Forget, do not grow.
                self._kinds.clear()
            kind = self._kinds[identity] = _Kind(now + self._seconds)
        return kind
