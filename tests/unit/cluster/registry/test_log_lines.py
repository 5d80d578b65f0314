"""What the log says of the registry and of ZooKeeper's client library."""

from __future__ import annotations

import logging

import pytest

from iot_mqtt.cluster.registry.bridge import library
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


def tried(server: str, end: str) -> None:
    """As the library tells of it."""
    library.info("Connecting to %s(%s):%s, use_ssl: %r", server, "10.0.0.1", 2181, False)
    library.warning("Connection dropped: %s", end)


def test_each_server_that_is_away_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """However often it is tried; and again after a connection that was lost."""
    refused = "socket connection error: 100% refused"
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            library.info("Connecting to %s(%s):%s, use_ssl: %r", "a", "10.0.0.1", 2181, False)
            library.info("Zookeeper connection established, state: %s", "CONNECTED")
            library.warning("Connection dropped: %s", "socket connection broken")
            library.warning("Transition to CONNECTING")
            library.info("Zookeeper connection lost")
            for _ in range(3):
                tried("a", refused)
                tried("b", refused)
        assert [one.getMessage() for one in caplog.records] == [
            "a(10.0.0.1):2181: Zookeeper connection established, state: CONNECTED",
            "a(10.0.0.1):2181: Connection dropped: socket connection broken",
            f"a(10.0.0.1):2181: Connection dropped: {refused}",
            f"b(10.0.0.1):2181: Connection dropped: {refused}",
        ]
