"""Keys that are written where nobody reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.app.config import read_config
from iot_mqtt.app.config.checks import serving_problems
from iot_mqtt.app.config.effects import _CONDITIONS
from iot_mqtt.app.config.schema import find
from iot_mqtt.app.config.sections import known_listeners

#: What is written, what decides that it does nothing, and what decides that it does something.
CASES = {
    "log.disk_limit=1000000": ("grid.kind=memory", "grid.kind=embedded"),
    "log.disk_reserve=1": ("grid.kind=memory", "grid.kind=embedded"),
    "grid.ignite.token=x": ("grid.kind=embedded", None),
    "registry.static.timeout=3": ("registry.kind=none", None),
    "registry.zookeeper.hosts=a:1": ("registry.kind=none", None),
    "uplink.kafka.bootstrap_servers=a:1": ("uplink.kind=file", "uplink.kind=kafka"),
    "uplink.kafka.options={socket.timeout.ms: 5000}": ("uplink.kind=none", "uplink.kind=kafka"),
    "uplink.kafka.security.username=x": ("uplink.kind=file", "pipeline.source=kafka"),
    "uplink.commands.group=x": ("uplink.kind=file", "uplink.kind=kafka"),
    "uplink.file.limit=0": ("uplink.kind=none", "uplink.kind=file"),
    "listeners.mqtt.path=/x": ("listeners.mqtt.protocol=mqtt", "listeners.mqtt.protocol=websocket"),
    "listeners.ws.heartbeat=5": ("listeners.ws.protocol=websocket", None),
    "listeners.mqtt.command_expiry=5": ("listeners.mqtt.protocol=mqtt", None),
}


def ineffective(*sets: str) -> list[str]:
    lines = [str(problem) for problem in serving_problems(read_config(None, sets, {}))]
    return [line for line in lines if "has no effect" in line]


@pytest.mark.parametrize("written", CASES)
def test_a_key_without_effect_is_refused(written: str) -> None:
    """It names the key, why, and the ways out; and is accepted where it does something."""
    without, within = CASES[written]
    key, decided_by = written.partition("=")[0], without.partition("=")[0]
    (line,) = ineffective(written, without)
    assert line.startswith(f"--set {key}: has no effect with {decided_by}: ") and line.endswith(", or leave it out")
    if within is not None:
        assert ineffective(written, within) == []


def test_a_higher_layer_may_pass_over_a_file(tmp_path: Path) -> None:
    """Kafka in the file, and a node for trying things out without it."""
    file = tmp_path / "application.yaml"
    file.write_text("uplink:\n  kind: kafka\n  kafka: {bootstrap_servers: [a:1]}\nlog:\n  disk_limit: 5\n")
    assert serving_problems(read_config(str(file), ["uplink.kind=none", "grid.kind=memory"], {})) == []
    file.write_text("uplink:\n  kind: file\n  kafka: {bootstrap_servers: [a:1]}\n")
    (problem,) = serving_problems(read_config(str(file), [], {}))
    assert str(problem).startswith(f"{file}:3:11: uplink.kafka.bootstrap_servers: has no effect")


def test_conditions_are_about_keys_that_there_are() -> None:
    """A renamed key takes its condition along."""
    names = known_listeners()
    for condition in _CONDITIONS:
        assert find(condition.keys.removesuffix("."), names) is not None
        assert find(condition.decided_by, names) is not None
