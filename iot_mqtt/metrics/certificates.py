"""TLS of the ports that are open, as Prometheus text; asked for at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from iot_mqtt.metrics.families import Family


class PortFacts(Protocol):
    """TLS of one port."""

    @property
    def name(self) -> str: ...

    @property
    def days_left(self) -> Mapping[str, float]: ...

    @property
    def lists_left(self) -> Mapping[tuple[str, str], float]: ...

    @property
    def failures(self) -> Mapping[str, int]: ...

    @property
    def outdated(self) -> bool: ...


class CertificatesCollector(Collector):
    """One sample for each certificate, each list of revoked ones, each kind of failure, each port."""

    def __init__(self, facts: Callable[[], Iterable[PortFacts]]) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Family]:
        days = GaugeMetricFamily(
            "iot_mqtt_tls_certificate_days",
            "As iot_mqtt_tls_certificate_left_seconds, in days; goes with the next version.",
            labels=("listener", "file"),
        )
        seconds = GaugeMetricFamily(
            "iot_mqtt_tls_certificate_left_seconds",
            "Seconds until it is over; negative: it is.",
            labels=("listener", "file"),
        )
        lists = GaugeMetricFamily(
            "iot_mqtt_tls_crl_left_seconds",
            "Seconds until an authority's list of revoked certificates is over; negative: it is.",
            labels=("listener", "file", "authority"),
        )
        outdated = GaugeMetricFamily(
            "iot_mqtt_tls_outdated",
            "1 while new files cannot be used, or not yet, and the old ones stay.",
            labels=("listener",),
        )
        failures = CounterMetricFamily(
            "iot_mqtt_tls_failures", "Handshakes and records that failed, by kind.", labels=("listener", "reason")
        )
        for port in self._facts():
            outdated.add_metric((port.name,), float(port.outdated))
            for path, left in port.days_left.items():
                days.add_metric((port.name, path), left)
                seconds.add_metric((port.name, path), left * 86400)
            for (path, authority), left in port.lists_left.items():
                lists.add_metric((port.name, path, authority), left)
            for reason, count in sorted(port.failures.items()):
                failures.add_metric((port.name, reason), float(count))
        yield from (seconds, days, lists, outdated, failures)
