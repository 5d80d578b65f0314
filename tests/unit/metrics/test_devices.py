"""Figures of commands and devices at a scrape."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from iot_mqtt.metrics.collectors import DevicesCollector
from iot_mqtt.ports.devices import DeviceFigures, State


def test_every_state_has_a_sample() -> None:
    """Also those that no command came to; gauges and counters beside."""
    figures = DeviceFigures({"acked": 3}, 2, 5, 1, 4, 6, 0, 8, 0, 0)
    registry = CollectorRegistry()
    registry.register(DevicesCollector(lambda: figures))
    text = generate_latest(registry).decode()
    for state in State:
        count = 3.0 if state is State.ACKED else 0.0
        assert f'iot_mqtt_command_states_total{{state="{state.value}"}} {count}' in text
    for line in (
        "commands_waiting 2.0",
        "devices_known 5.0",
        "gateways_online 1.0",
        "shadows_known 8.0",
        "gateway_duplicates_total 4.0",
    ):
        assert f"iot_mqtt_{line}" in text
