"""What the log says of the registry."""

from __future__ import annotations

import logging

import pytest

from iot_mqtt.cluster.registry.settings import ZooKeeperSettings
from iot_mqtt.cluster.registry.zookeeper import ZooKeeperRegistry
from iot_mqtt.pipeline.clock import ManualClock


def test_the_end_of_a_warned_trouble_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Who reads warnings only would see a registry that stays suspended; a first connection is none."""
    registry = ZooKeeperRegistry(ZooKeeperSettings("a:1"), ManualClock(), lambda call: None)
    with caplog.at_level(logging.INFO):
        registry.connected({})
        registry.suspended("no answer")
        registry.connected({})
    assert [one.levelname for one in caplog.records] == ["INFO", "WARNING", "WARNING"]
