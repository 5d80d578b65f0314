"""Figures of commands, devices and shadows as Prometheus text; asked for at each scrape."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily

from iot_mqtt.metrics.families import FactsCollector, Family, counters, gauges
from iot_mqtt.ports.devices import DeviceFigures, State

_GAUGES = (
    ("waiting", "commands_waiting", "Commands of clients at home here that are not over."),
    ("devices", "devices_known", "Gateways and devices that this node remembers."),
    ("gateways", "gateways_online", "Gateways that are connected here."),
    ("shadows", "shadows_known", "Shadows of which something was reported, as far as they are counted."),
)
_COUNTERS = (
    ("duplicates", "gateway_duplicates", "Frames of gateways that had been taken before."),
    ("forgotten", "devices_forgotten", "Gateways and devices that there was no room to remember."),
    ("bad_replies", "command_replies_bad", "Replies to commands that were not understood."),
    ("shadows_refused", "shadow_values_refused", "Values of shadows that were wrong, or that there was no room for."),
    ("unreadable", "device_records_unreadable", "Records of devices that this version cannot read."),
)


class DevicesCollector(FactsCollector[DeviceFigures]):
    """Every state has a sample from the start, so that rates can be taken."""

    def families(self, facts: DeviceFigures) -> Iterator[Family]:
        states = CounterMetricFamily("iot_mqtt_command_states", "Commands that came to a state.", labels=["state"])
        for state in State:
            states.add_metric([state.value], facts.states.get(state.value, 0))
        yield states
        yield from gauges(facts, _GAUGES)
        yield from counters(facts, _COUNTERS)
