"""TLS of the ports that are open, as Prometheus text; asked for at each scrape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from iot_mqtt.metrics.families import FactsCollector, Family, samples


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


class CertificatesCollector(FactsCollector[Sequence[PortFacts]]):
    """One sample for each certificate, each list of revoked ones, each kind of failure, each port."""

    def families(self, facts: Sequence[PortFacts]) -> Iterator[Family]:
        days = [((port.name, path), left) for port in facts for path, left in port.days_left.items()]
        seconds = [(labels, left * 86400) for labels, left in days]
        text = "Seconds until it is over; negative: it is."
        yield samples(GaugeMetricFamily, "tls_certificate_left_seconds", text, ("listener", "file"), seconds)
        text = "As iot_mqtt_tls_certificate_left_seconds, in days; goes with the next version."
        yield samples(GaugeMetricFamily, "tls_certificate_days", text, ("listener", "file"), days)
        lists = [((port.name, *which), left) for port in facts for which, left in port.lists_left.items()]
        text = "Seconds until an authority's list of revoked certificates is over; negative: it is."
        yield samples(GaugeMetricFamily, "tls_crl_left_seconds", text, ("listener", "file", "authority"), lists)
        outdated = [((port.name,), port.outdated) for port in facts]
        text = "1 while new files cannot be used, or not yet, and the old ones stay."
        yield samples(GaugeMetricFamily, "tls_outdated", text, ("listener",), outdated)
        failures = [((port.name, kind), count) for port in facts for kind, count in sorted(port.failures.items())]
        text = "Handshakes and records that failed, by kind."
        yield samples(CounterMetricFamily, "tls_failures", text, ("listener", "reason"), failures)
