"""``/metrics``, whose text takes some milliseconds to make: made once for all who were waiting for it.

Nobody gets a text that was begun before he asked, so whoever acts and then looks sees what he did. It says nothing of
who asked: whether he may have it is asked of each by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["MetricsText", "Scrapes"]


class MetricsText(Protocol):
    """What makes the text; ``iot_mqtt.metrics.exposition.Metrics`` is one."""

    content_type: str

    def render(self) -> bytes: ...


class Scrapes:
    """Those of one node; ``now`` as whoever says when he asked has it."""

    def __init__(self, metrics: MetricsText, now: Callable[[], float] = time.monotonic) -> None:
        self.content_type = metrics.content_type
        self._render = metrics.render
        self._now = now
        self._begun_at = float("-inf")
        self._text = b""

    def text(self, asked_at: float) -> bytes:
        """For a scrape that came at ``asked_at``."""
        if self._begun_at <= asked_at:
            begun_at = self._now()
            self._text = self._render()
            self._begun_at = begun_at
        return self._text
