"""What is different between two configurations, and one with keys of the other."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from iot_mqtt.app.cli import main
from iot_mqtt.app.config.comparing import defaults, differences, with_keys
from iot_mqtt.app.config.reading import read_config


def test_differences_have_both_values_and_no_secrets() -> None:
    """A listener that only one has differs where it is not as listeners are."""
    sets = ["uplink.kafka.security.password=hidden", "mqtt.max_qos=1", "listeners.line.protocol=frames"]
    found = list(differences(defaults(), read_config(None, sets, {}).config))
    assert found == [
        ("listeners.line.enabled", False, True),
        ("listeners.line.protocol", "mqtt", "frames"),
        ("uplink.kafka.security.password", None, "******"),
        ("mqtt.max_qos", 2, 1),
    ]


def test_keys_are_taken_over_one_by_one() -> None:
    """Sections, listeners and mappings."""
    sets = ["mqtt.max_qos=1", "mqtt.traffic.burst=9", "listeners.ws.path=/x", "uplink.kafka.options={a.b: 1}"]
    other = read_config(None, sets, {}).config
    made = with_keys(defaults(), ["mqtt.traffic.burst", "listeners.ws.path", "uplink.kafka.options"], other)
    assert (made.mqtt.traffic.burst, made.mqtt.max_qos, made.listeners["ws"].path) == (9, 2, "/x")
    assert made.uplink.kafka.options == {"a.b": 1}
    assert with_keys(made, ["mqtt.max_qos"], other) == other


def test_two_files_are_compared_on_the_command_line(tmp_path: Path) -> None:
    """Exit code 1: there is a difference."""
    one, other = tmp_path / "one.yaml", tmp_path / "other.yaml"
    one.write_text("mqtt: {max_qos: 1}")
    other.write_text("mqtt: {max_qos: 0}")
    result = CliRunner().invoke(main, ["config", "diff", "-c", str(one), str(other)])
    assert (result.exit_code, result.output.splitlines()[-1]) == (1, "mqtt.max_qos: 0 -> 1")
    assert CliRunner().invoke(main, ["config", "diff", "-c", str(one), str(one)]).exit_code == 0
