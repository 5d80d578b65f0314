"""Tables of figures as Prometheus text: what an attribute is called there, and what it is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from iot_mqtt.ports.counters import Histogram

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
#: Of those with labels.
Kind = type[CounterMetricFamily] | type[GaugeMetricFamily]
#: Attribute of the facts, name after ``iot_mqtt_`` (and a prefix), help.
Table = Sequence[tuple[str, str, str]]
Facts = TypeVar("Facts")


class FactsCollector(Collector, Generic[Facts]):
    """Asks for facts at each scrape; None: there are none now, and nothing is shown."""

    def __init__(self, facts: Callable[[], Facts | None]) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Family]:
        facts = self._facts()
        if facts is not None:
            yield from self.families(facts)

    @abstractmethod
    def families(self, facts: Facts) -> Iterator[Family]:
        """What is shown of them."""


def gauge(name: str, text: str, value: float) -> Family:
    """A figure that is true now."""
    return GaugeMetricFamily(f"iot_mqtt_{name}", text, value=float(value))


def counter(name: str, text: str, value: float) -> Family:
    """A figure that only grows."""
    return CounterMetricFamily(f"iot_mqtt_{name}", text, value=float(value))


def gauges(facts: object, table: Table, prefix: str = "") -> Iterator[Family]:
    """A gauge for each row."""
    return (gauge(prefix + name, text, getattr(facts, attribute)) for attribute, name, text in table)


def counters(facts: object, table: Table, prefix: str = "") -> Iterator[Family]:
    """A counter for each row."""
    return (counter(prefix + name, text, getattr(facts, attribute)) for attribute, name, text in table)


def samples(
    kind: Kind, name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float]]
) -> Family:
    """One sample for each row: what its labels are, and the figure."""
    family = kind(f"iot_mqtt_{name}", text, labels=labels)
    for values, figure in rows:
        family.add_metric(values, float(figure))
    return family


def labelled(name: str, label: str, text: str, counts: Mapping[str, int], known: Iterable[str] = ()) -> Family:
    """A counter with one sample for each key, in the order of the keys; those of ``known`` are there from the start."""
    counted = sorted({**dict.fromkeys(known, 0), **counts}.items())
    return samples(CounterMetricFamily, name, text, (label,), (((str(key),), count) for key, count in counted))


def histogram(name: str, text: str, found: Histogram) -> Family:
    """How often something took how long."""
    family = HistogramMetricFamily(f"iot_mqtt_{name}", text)
    family.add_metric((), found.cumulative(), found.total)
    return family
