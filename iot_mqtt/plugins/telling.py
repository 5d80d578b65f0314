"""What a plugin has to say that is for people: its log, its counters, its faults; all of it bounded."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

#: Names of counters that a plugin may have.
MAX_COUNTERS = 32
_LINES = 20
_SECONDS = 10.0


class Counts:
    """``Host.count`` of a plugin, all its connections together."""

    __slots__ = ("totals", "refused")

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        #: Calls with one name too many, or a name or number that is none.
        self.refused = 0

    def count(self, name: str, number: int = 1) -> None:
        known = name in self.totals if type(name) is str else False
        if type(number) is not int or not 0 <= number < 1 << 53 or (not known and not self._may_begin(name)):
            self.refused += 1
            return
        self.totals[name] += number

    def _may_begin(self, name: object) -> bool:
        if type(name) is not str or not 0 < len(name) <= 64 or not name.isascii() or not name.isprintable():
            return False
        return len(self.totals) < MAX_COUNTERS


class Quiet:
    """Lets so many lines through in ten seconds, and says how many it kept back."""

    __slots__ = ("_log", "_now", "_since", "_lines", "_kept_back")

    def __init__(self, log: logging.Logger, now: Callable[[], float]) -> None:
        self._log = log
        self._now = now
        self._since = now()
        self._lines = 0
        self._kept_back = 0

    def say(self, level: int, text: str, *arguments: object) -> None:
        now = self._now()
        if now - self._since >= _SECONDS:
            kept_back, self._kept_back = self._kept_back, 0
            self._since, self._lines = now, 0
            if kept_back:
                self._log.warning("%d more lines were kept back", kept_back)
        self._lines += 1
        if self._lines > _LINES:
            self._kept_back += 1
            return
        self._log.log(level, text, *arguments)


def logger_of(name: str) -> logging.Logger:
    """The logger that a plugin gets: below one name, so that the configuration can set its level."""
    return logging.getLogger(f"iot_mqtt.plugin.{name}")
