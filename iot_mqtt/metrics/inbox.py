"""Figures of commands that come from Kafka, as Prometheus text; asked for at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


class InboxFigures(Protocol):
    """Commands from Kafka; whatever has these attributes will do."""

    @property
    def state(self) -> str: ...

    @property
    def lag(self) -> int: ...

    @property
    def under_way(self) -> int: ...

    @property
    def received(self) -> int: ...

    @property
    def accepted(self) -> int: ...

    @property
    def repeated(self) -> int: ...

    @property
    def expired(self) -> int: ...

    @property
    def buried(self) -> int: ...

    @property
    def postponed(self) -> int: ...


_GAUGES = (
    ("lag", "inbox_lag_records", "Records with commands that wait in Kafka, in the partitions that are read here."),
    ("under_way", "inbox_under_way", "Those of them that were read, and are not settled."),
)
_COUNTERS = (
    ("received", "inbox_received_records", "Records with commands that were read from Kafka."),
    ("accepted", "inbox_accepted_commands", "Commands that they were."),
    ("repeated", "inbox_repeated_commands", "Commands that had come before."),
    ("expired", "inbox_expired_commands", "Commands whose deadline was over when they came."),
    ("buried", "inbox_dead_letters", "Records that nobody can do as a command."),
    ("postponed", "inbox_postponed", "Times that there was no room for a command, and it was tried again."),
)


class InboxCollector(Collector):
    """``figures`` answers None where no commands come from Kafka."""

    def __init__(self, figures: Callable[[], InboxFigures | None]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        figures = self._figures()
        if figures is None:
            return
        for attribute, name, text in _GAUGES:
            yield GaugeMetricFamily(f"iot_mqtt_{name}", text, value=float(getattr(figures, attribute)))
        for attribute, name, text in _COUNTERS:
            yield CounterMetricFamily(f"iot_mqtt_{name}", text, value=float(getattr(figures, attribute)))
        text = "1 while commands do not come from Kafka, or wait."
        yield GaugeMetricFamily("iot_mqtt_inbox_alarm", text, value=float(figures.state != "ok"))
