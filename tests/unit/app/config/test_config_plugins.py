"""Plugins by their own names are entries of the list."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from iot_mqtt.app.cli import main
from iot_mqtt.app.config import load_config
from iot_mqtt.app.config.errors import ConfigError
from iot_mqtt.app.config.plugin_entries import plugin_settings


def test_what_is_below_a_name_is_that_plugins(tmp_path: Path) -> None:
    """Of the file, with the environment and --set on top, down into the codec's own configuration."""
    file = tmp_path / "application.yaml"
    file.write_text(
        "plugins:\n"
        "  codecs: [{name: first, enabled: false}]\n"
        "  acme:\n"
        "    isolation: process\n"
        "    config: {unit: kWh, polls: [{slave: 1}, {slave: 2}], deep: {er: 1}}\n"
        "    limits: {memory: 1000000}\n"
        "  plain:\n"
    )
    told = load_config(str(file), ["plugins.acme.config.unit=MWh"], {"IOT_MQTT__PLUGINS__ACME__CONFIG__DEEP__ER": "2"})
    found = plugin_settings(told)
    assert found["first"].enabled is False and found["plain"].isolation is None
    acme = found["acme"]
    assert (acme.isolation, acme.limits.memory) == ("process", 1_000_000)
    assert acme.config == {"unit": "MWh", "polls": [{"slave": 1}, {"slave": 2}], "deep": {"er": 2}}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("plugins.acme.isolaton=process", "did you mean isolation?"),
        ("plugins.acme.isolation=thread", "isolation: must be one of"),
        ("plugins.acme=3", "unknown key"),
    ],
)
def test_what_is_wrong_below_a_name_is_said(setting: str, words: str) -> None:
    """As for an entry of the list."""
    with pytest.raises(ConfigError) as refused:
        load_config(None, [setting], {})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("plugins.modbus.config.registers=[{tag: a, address: 70000}]", "plugins.modbus.config: registers"),
        ("plugins.modbus.config.foo=1", "plugins.modbus.config: foo: there is no such key"),
        ("plugins.modbus-rtu.config.resync=never", "plugins.modbus-rtu.config: resync: must be "),
        ("plugins.codecs=[{name: gateway, config: {foo: 1}}]", "plugins.gateway.config: foo: "),
    ],
)
def test_a_check_asks_the_bundled_codecs(setting: str, words: str) -> None:
    """The node would start without them."""
    result = CliRunner().invoke(main, ["config", "check", "--set", setting])
    assert result.exit_code == 1 and words in result.output, result.output


@pytest.mark.parametrize(
    "setting",
    [
        "plugins.modbus.config.gateway=mb2",
        "plugins.acme.config.foo=1",
        "plugins.codecs=[{name: modbus, enabled: false, config: {foo: 1}}]",
    ],
)
def test_a_check_asks_no_codec_of_a_vendor_and_none_that_is_off(setting: str) -> None:
    """Foreign code runs in a process of its own only."""
    result = CliRunner().invoke(main, ["config", "check", "--set", setting])
    assert result.exit_code == 0, result.output
