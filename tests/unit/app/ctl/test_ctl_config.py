"""``ctl config`` and ``ctl listeners`` against the API in memory, over a configuration without a node."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from iot_mqtt.admin.config_resources import ConfigResources, ListenerResources
from iot_mqtt.admin.configuration import ListenerInfo
from iot_mqtt.app.config.reading import LoadedConfig, read_config
from iot_mqtt.app.config.sections import Config
from iot_mqtt.app.node.configuration import Configuration
from iot_mqtt.app.node.live_keys import LiveKeys
from iot_mqtt.plugins.settings import PluginSettings
from tests.unit.admin.adminkit import FakeView, make_browser
from tests.unit.app.ctl.ctlkit import Ctl

Result = TypeVar("Result")


class FakePorts:
    """Ports that nobody can connect to."""

    def __init__(self) -> None:
        self.open_now: dict[str, Config] = {}

    async def prepare(self, name: str, config: Config) -> None:
        pass

    def open(self, name: str, config: Config) -> None:
        self.open_now[name] = config

    def close(self, name: str) -> None:
        del self.open_now[name]

    def infos(self, config: Config, layer_of: Callable[[str], str]) -> list[ListenerInfo]:
        return [
            ListenerInfo(
                name,
                one.enabled,
                one.protocol,
                one.host,
                one.port,
                one.secure,
                None,
                one.codec,
                layer_of(name),
                *([0] * 5),
            )
            for name, one in sorted(config.listeners.items())
        ]


class FakeCodecs:
    """Codecs that run with other settings than those that are written."""

    def __init__(self) -> None:
        self.waiting: list[str] = []

    def differing(self, written: Mapping[str, PluginSettings]) -> list[str]:
        return self.waiting

    def settle(self, written: Mapping[str, PluginSettings]) -> None:
        pass


class Site:
    """A configuration file, and who changes what came of it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = folder / "application.yaml"
        self.file.write_text("node: {data_dir: .}\nmqtt: {max_sessions: 100}\nauth: {jwt: {}}\n")
        loaded = self.read()
        self.desk = Configuration(loaded, LiveKeys(loaded.config), self._run)
        self.desk.ports = self.ports = FakePorts()
        self.desk.codecs = self.codecs = FakeCodecs()
        self.desk.read = self._read
        parts = (ConfigResources(self.desk), ListenerResources(self.desk))
        self.ctl = Ctl(monkeypatch, make_browser(FakeView(), further=parts))

    def read(self) -> LoadedConfig:
        return read_config(str(self.file), [], {})

    async def _read(self) -> LoadedConfig:
        return self.read()

    async def _run(self, call: Callable[[], Result]) -> Result:
        return call()

    def json(self, *arguments: str) -> Any:
        return json.loads("\n".join(self.ctl.lines(*arguments, "--json")))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def test_a_key_is_set_shown_and_taken_back(site: Site) -> None:
    """With each layer's word."""
    assert site.ctl.lines("config", "set", "mqtt.max_sessions=5", "log.level=debug") == [
        "mqtt.max_sessions: 100 -> 5",
        "log.level: info -> debug",
    ]
    shown = site.ctl.lines("config", "show", "mqtt.max_sessions")
    assert [line.split()[:3] for line in shown[1:4]] == [
        ["by", "default", "1000000"],
        ["by", "file", "100"],
        ["by", "changed", "5"],
    ]
    listed = {item["key"]: item for item in site.json("config", "list", "mqtt")}
    assert (list(listed), listed["mqtt.max_sessions"]["layer"]) == (["mqtt.max_sessions"], "changed")
    found = {item["key"] for item in site.json("config", "list", "--all", "--contains", "SESSIONS")}
    assert "mqtt.max_sessions" in found and all("sessions" in key for key in found)
    assert site.ctl.lines("config", "unset", "log.level", "mqtt.max_sessions")[-1] == "log.level: debug -> info"
    refused = site.ctl.run("config", "set", "mqtt.max_qos=1")
    assert refused.exit_code == 1 and "with a restart only" in refused.output
    twice = site.ctl.run("config", "set", "log.level=debug", "log.level=info")
    assert twice.exit_code == 2 and "log.level is set twice" in twice.output


def test_a_file_that_has_changed_is_compared_tried_and_read(site: Site) -> None:
    """What needs a restart is named until there is one."""
    assert site.ctl.lines("config", "diff", str(site.file)) == []
    site.file.write_text(
        "node: {data_dir: .}\nmqtt: {max_sessions: 7, max_qos: 1}\nlisteners: {ws: {enabled: false}}\n"
    )
    compared = site.ctl.run("config", "diff", str(site.file))
    lines = ["mqtt.max_qos: 2 -> 1", "mqtt.max_sessions: 100 -> 7"]
    assert compared.exit_code == 1 and sorted(compared.output.splitlines()) == [
        "listeners.ws.enabled: true -> false",
        *lines,
    ]
    site.ports.open_now["ws"] = Config()
    expected = [
        "mqtt.max_sessions: 100 -> 7",
        "listeners.ws: closed",
        "mqtt.max_qos: stays what it was until the node is restarted",
    ]
    assert site.ctl.lines("config", "reload", "--dry-run") == expected
    assert site.ports.open_now
    assert site.ctl.lines("config", "reload") == expected
    assert not site.ports.open_now
    site.file.write_text("mqtt: [")
    assert "is not YAML" in site.ctl.run("config", "reload").output


def test_a_key_that_waits_says_for_what(site: Site) -> None:
    """What a codec takes over when it is reloaded needs no restart."""
    site.codecs.waiting = ["acme.config", "acme.enabled"]
    assert site.ctl.lines("config", "reload") == [
        "plugins.acme.config: stays what it was until `iot-mqtt ctl plugins reload acme`, or the node is restarted",
        "plugins.acme.enabled: stays what it was until the node is restarted",
    ]


def test_a_listener_is_opened_listed_and_closed(site: Site) -> None:
    """Its keys are those of the configuration, sections and all."""
    opened = site.json("listeners", "open", "line7", "protocol=mqtt", "port=5020", "outbox.high=2000000")
    assert (opened["open"], opened["port"], opened["layer"]) == (True, 5020, "changed")
    assert site.ports.open_now["line7"].listeners["line7"].outbox.high == 2_000_000
    assert [line.split()[0] for line in site.ctl.lines("listeners", "list")] == [
        *("NAME", "gateway", "line7", "mqtt", "mqtts", "ws", "wss")
    ]
    assert site.ctl.lines("listeners", "close", "line7")
    assert site.ctl.run("listeners", "close", "line7").exit_code == 1
    assert site.ctl.run("listeners", "open", "line7", "port").exit_code == 2
    assert "unknown field" in site.ctl.run("listeners", "open", "line7", "prot=mqtt").output


@pytest.mark.parametrize("body", ["{}", '{"set": []}', '{"unset": [1]}', '{"sett": {}}', "[]", '{"set": {"": null}}'])
def test_rubbish_is_a_bad_request(site: Site, body: str) -> None:
    """Whatever it is."""
    browser = make_browser(FakeView(), further=(ConfigResources(site.desk),))
    assert browser.request("PATCH", "/api/v1/config", body.encode()).status == 400
