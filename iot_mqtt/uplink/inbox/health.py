"""Whether commands come, told from what librdkafka says of itself every second and from its errors. Pure.

An error alone says little: librdkafka reports a lost connection that it has made anew long before anybody reads of
it, and nothing at all of a broker that hangs. What counts is whether somebody has answered in the last few seconds,
which a consumer always knows: it asks for metadata every two of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Seconds without an answer that are no accident.
SILENT_SECONDS = 3.2
#: Seconds that it may take to be let into the group: others have to finish what they have first.
JOIN_SECONDS = 15.0


class Health:
    """Times are monotonic seconds."""

    def __init__(self, topic: str, group: str, now: float) -> None:
        self._topic = topic
        self._group = group
        self._answered = now
        self._joined_at = now
        self.joined = False
        self.lag = 0
        #: Why nobody answers, the topic is not there, the group does not let it in, a position is not kept.
        self.connection: str | None = None
        self.topic: str | None = None
        self.member: str | None = None
        self.commit: str | None = None

    def began(self, now: float) -> None:
        """Another consumer; it may take a moment."""
        self._joined_at = now
        self.joined = False

    def answered(self, now: float) -> None:
        """Kafka has said something; a consumer that soon ends may say so before it has counted anything."""
        self._answered = now

    def looked(self, stats: Mapping[str, Any], now: float) -> None:
        """What librdkafka counts."""
        idle = [one["rxidle"] / 1e6 for one in stats["brokers"].values() if one["state"] == "UP" and one["rxidle"] >= 0]
        if idle and min(idle) < SILENT_SECONDS:
            self._answered = now - min(idle)
            self.connection = None
        group = stats.get("cgrp", {})
        self.joined = group.get("join_state") == "steady"
        if self.joined:
            self._joined_at = now
            self.member = None
        partitions = stats["topics"].get(self._topic, {}).get("partitions", {})
        self.lag = sum(max(0, one["consumer_lag"]) for number, one in partitions.items() if int(number) >= 0)

    def trouble(self, now: float) -> str | None:
        """In words; None: there is none."""
        silent = now - self._answered
        if silent >= SILENT_SECONDS:
            why = f": {self.connection}" if self.connection else ""
            return f"Kafka has not answered for {silent:.0f} s{why}"
        if self.member is not None:
            return self.member
        if self.topic is not None:
            return self.topic
        if now - self._joined_at >= JOIN_SECONDS:
            return f"the group {self._group} has not let this node in for {now - self._joined_at:.0f} s"
        return self.commit
