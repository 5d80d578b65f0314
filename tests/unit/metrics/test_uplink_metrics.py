"""Figures of the uplink in ``/metrics``."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import CollectorRegistry

from iot_mqtt.metrics.collectors import UplinkCollector
from tests.unit.admin.adminkit import UPLINK


def test_every_figure_is_there() -> None:
    """And the alarm is 1 only when there is one."""
    facts = [UPLINK]
    registry = CollectorRegistry()
    registry.register(UplinkCollector(lambda: facts[0]))
    assert registry.get_sample_value("iot_mqtt_uplink_lag_messages") == 40
    assert registry.get_sample_value("iot_mqtt_uplink_safe_messages_total") == 100
    assert registry.get_sample_value("iot_mqtt_uplink_lost_messages_total") == 0
    assert registry.get_sample_value("iot_mqtt_uplink_alarm") == 0
    facts[0] = replace(UPLINK, state="alarm")
    assert registry.get_sample_value("iot_mqtt_uplink_alarm") == 1


def test_without_an_uplink_there_are_none() -> None:
    """A figure of nothing would be a lie."""
    registry = CollectorRegistry()
    registry.register(UplinkCollector(lambda: None))
    assert list(registry.collect()) == []
