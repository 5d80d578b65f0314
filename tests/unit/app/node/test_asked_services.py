"""Services that a node asks, and that do not answer, are alarms of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.app.config.sections import AdminConfig, Config, GridConfig, ListenerConfig, NodeConfig
from iot_mqtt.app.node.service import Service
from iot_mqtt.auth import key_ring
from iot_mqtt.auth.settings import AuthSettings, JwtSettings
from iot_mqtt.ports.alarms import AlarmKind
from tests.unit.app.node.lifekit import Turning


def test_keys_for_tokens_that_cannot_be_fetched_are_an_alarm_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its start on; it serves all the same."""
    # Nothing is connected here: this reactor has no threads that look up hosts.
    monkeypatch.setattr(key_ring, "PATIENCE", 0.1)
    turning = Turning()
    config = Config(
        node=NodeConfig(data_dir=str(tmp_path), gc_threshold=0, drain_seconds=1.0),
        listeners={"first": ListenerConfig()},
        admin=AdminConfig(port=0),
        grid=GridConfig(kind="memory"),
        auth=AuthSettings(chain=("jwt",), jwt=JwtSettings(jwks_url="http://127.0.0.1:1/")),
    )
    service = Service(config, turning.reactor, lambda _: None)
    turning.run(service.start())
    turning.until(lambda: bool(service.view.alarms))
    (alarm,) = service.view.alarms
    assert alarm.kind is AlarmKind.ACCESS_SERVICE
    assert alarm.text.startswith("keys for tokens cannot be fetched, those of before stay: ")
    turning.run(service.stop())
    turning.reactor.disconnectAll()
