"""Events that are posted to addresses of the configuration, as Prometheus text; asked for at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from iot_mqtt.metrics.families import Family

#: Reasons that have a sample before they are counted, so that Prometheus sees the first of each.
_DROPS = ("fault", "queue_full", "refused", "too_large", "unreadable")


class WebhookFacts(Protocol):
    """One address; its name is its place in the configuration."""

    @property
    def name(self) -> str: ...

    @property
    def waiting(self) -> int: ...

    @property
    def sent(self) -> int: ...

    @property
    def dropped(self) -> Mapping[str, int]: ...

    @property
    def failures(self) -> Mapping[str, int]: ...


class WebhooksCollector(Collector):
    """One sample for each address, and for each reason."""

    def __init__(self, facts: Callable[[], Iterable[WebhookFacts]]) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Family]:
        found = list(self._facts())
        if not found:
            return
        waiting = GaugeMetricFamily("iot_mqtt_webhook_waiting_events", "Events that wait.", labels=("webhook",))
        sent = CounterMetricFamily("iot_mqtt_webhook_sent_events", "Events that were taken.", labels=("webhook",))
        dropped = CounterMetricFamily(
            "iot_mqtt_webhook_dropped_events", "Events that were told nobody, by reason.", labels=("webhook", "reason")
        )
        failures = CounterMetricFamily(
            "iot_mqtt_webhook_failures", "Requests that are made again, by reason.", labels=("webhook", "reason")
        )
        for hook in found:
            waiting.add_metric((hook.name,), float(hook.waiting))
            sent.add_metric((hook.name,), float(hook.sent))
            for family, counts in ((dropped, {**dict.fromkeys(_DROPS, 0), **hook.dropped}), (failures, hook.failures)):
                for reason, count in sorted(counts.items()):
                    family.add_metric((hook.name, reason), float(count))
        yield from (waiting, sent, dropped, failures)
