"""Figures of the uplink as Prometheus text; asked for at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


class UplinkFacts(Protocol):
    """What leaves towards the data platform; whatever has these attributes will do."""

    @property
    def state(self) -> str: ...

    @property
    def lag_messages(self) -> int: ...

    @property
    def lag_bytes(self) -> int: ...

    @property
    def lag_seconds(self) -> float: ...

    @property
    def unread_messages(self) -> int: ...

    @property
    def in_flight_messages(self) -> int: ...

    @property
    def sent(self) -> int: ...

    @property
    def sent_bytes(self) -> int: ...

    @property
    def safe(self) -> int: ...

    @property
    def failures(self) -> int: ...

    @property
    def lost(self) -> int: ...

    @property
    def dead(self) -> int: ...

    @property
    def dropped(self) -> int: ...


_GAUGES = (
    ("lag_messages", "uplink_lag_messages", "Messages that go up and are not safe in the sink."),
    ("lag_bytes", "uplink_lag_bytes", "Bytes of these messages."),
    ("lag_seconds", "uplink_lag_seconds", "How long the oldest of them has been waiting."),
    ("unread_messages", "uplink_unread_messages", "Those of them that the sink has not got."),
    ("in_flight_messages", "uplink_in_flight_messages", "Those of them that it has."),
)
_COUNTERS = (
    ("sent", "uplink_sent_messages", "Messages handed to the sink, repeated ones included."),
    ("sent_bytes", "uplink_sent_bytes", "Bytes of these messages, as they were published."),
    ("safe", "uplink_safe_messages", "Messages that the sink has made safe."),
    ("failures", "uplink_failures", "Times that the sink failed and messages were sent again."),
    ("lost", "uplink_lost_messages", "Messages that the log's retention removed before they were handed over."),
    ("dead", "uplink_dead_letters", "Records that the platform rejected and that are among its dead letters."),
    ("dropped", "uplink_dropped_records", "Records that the platform rejected and that are nowhere."),
)


class UplinkCollector(Collector):
    """``facts`` answers None while there is no uplink."""

    def __init__(self, facts: Callable[[], UplinkFacts | None]) -> None:
        self._facts = facts

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        facts = self._facts()
        if facts is None:
            return
        for attribute, name, text in _GAUGES:
            yield GaugeMetricFamily(f"iot_mqtt_{name}", text, value=float(getattr(facts, attribute)))
        for attribute, name, text in _COUNTERS:
            yield CounterMetricFamily(f"iot_mqtt_{name}", text, value=float(getattr(facts, attribute)))
        text = "1 while the sink does not take messages, falls behind, or has lost some."
        yield GaugeMetricFamily("iot_mqtt_uplink_alarm", text, value=float(facts.state != "ok"))
