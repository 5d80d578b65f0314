"""Figures of commands that come from Kafka, as Prometheus text; asked for at each scrape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from iot_mqtt.metrics.families import FactsCollector, Family, counters, gauge, gauges


class InboxFigures(Protocol):
    """What takes commands from Kafka; it has an attribute for each row of the tables, too."""

    @property
    def state(self) -> str: ...


_GAUGES = (
    ("lag", "inbox_lag_records", "Records with commands that wait in Kafka, in the partitions that are read here."),
    ("under_way", "inbox_under_way", "Those of them that were read, and are not settled."),
)
_COUNTERS = (
    ("received", "inbox_received_records", "Records with commands that were read from Kafka."),
    ("accepted", "inbox_accepted_commands", "Commands that they were."),
    ("repeated", "inbox_repeated_commands", "Commands that had come before, dead letters apart."),
    ("expired", "inbox_expired_commands", "Commands whose deadline was over when they came."),
    ("buried", "inbox_dead_letters", "Records that nobody can do as a command."),
    ("postponed", "inbox_postponed", "Times that there was no room for a command, and it was tried again."),
)


class InboxCollector(FactsCollector[InboxFigures]):
    """None where no commands come from Kafka."""

    def families(self, facts: InboxFigures) -> Iterator[Family]:
        yield from gauges(facts, _GAUGES)
        yield from counters(facts, _COUNTERS)
        yield gauge("inbox_alarm", "1 while commands do not come from Kafka, or wait.", facts.state != "ok")
