"""Spans of traces, as Prometheus text; asked for at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from iot_mqtt.metrics.families import Family


class TracesFacts(Protocol):
    """What became of spans."""

    @property
    def waiting(self) -> int: ...

    @property
    def sent(self) -> int: ...

    @property
    def retries(self) -> int: ...

    @property
    def dropped(self) -> Mapping[str, int]: ...


class TracesCollector(Collector):
    """Nothing where nothing is traced."""

    def __init__(self, facts: Callable[[], TracesFacts | None]) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Family]:
        facts = self._facts()
        if facts is None:
            return
        yield GaugeMetricFamily("iot_mqtt_trace_waiting_spans", "Spans that wait for the collector.", facts.waiting)
        yield CounterMetricFamily("iot_mqtt_trace_sent_spans", "Spans that the collector took.", facts.sent)
        yield CounterMetricFamily("iot_mqtt_trace_retries", "Requests that are made again.", facts.retries)
        dropped = CounterMetricFamily(
            "iot_mqtt_trace_dropped_spans", "Spans that nobody gets, by reason.", labels=("reason",)
        )
        for reason, count in sorted(facts.dropped.items()):
            dropped.add_metric((reason,), float(count))
        yield dropped
