"""Figures of commands, devices and shadows as Prometheus text; asked for at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from iot_mqtt.metrics.families import Family, counters, gauges
from iot_mqtt.ports.devices import DeviceFigures, State

_GAUGES = (
    ("waiting", "commands_waiting", "Commands of clients at home here that are not over."),
    ("devices", "devices_known", "Gateways and devices that this node remembers."),
    ("gateways", "gateways_online", "Gateways that are connected here."),
)
_COUNTERS = (
    ("duplicates", "gateway_duplicates", "Frames of gateways that had been taken before."),
    ("forgotten", "devices_forgotten", "Gateways and devices that there was no room to remember."),
    ("bad_replies", "command_replies_bad", "Replies to commands that were not understood."),
    ("shadows_refused", "shadow_values_refused", "Reported values that were wrong or too many."),
    ("unreadable", "device_records_unreadable", "Records of devices that this version cannot read."),
)


class DevicesCollector(Collector):
    """Every state has a sample from the start, so that rates can be taken."""

    def __init__(self, figures: Callable[[], DeviceFigures]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Family]:
        figures = self._figures()
        states = CounterMetricFamily("iot_mqtt_command_states", "Commands that came to a state.", labels=["state"])
        for state in State:
            states.add_metric([state.value], figures.states.get(state.value, 0))
        yield states
        yield from gauges(figures, _GAUGES)
        yield from counters(figures, _COUNTERS)
