"""The configuration of a node that runs: keys and listeners that change, and what stays as it was."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from iot_mqtt.admin.configuration import ConfigRefused, InTheWay
from iot_mqtt.app.config import schema
from iot_mqtt.app.config.changed import file_of
from iot_mqtt.app.config.comparing import value_of
from iot_mqtt.app.config.limits import KEYS, is_live
from iot_mqtt.app.config.reading import LoadedConfig, read_config
from iot_mqtt.app.config.sections import Config, known_listeners
from iot_mqtt.app.node.service import Service
from iot_mqtt.broker.allowance import allowance_of
from iot_mqtt.codec import Connack, Connect, Decoder, Disconnect, Role, encode
from iot_mqtt.errors import ReasonCode
from iot_mqtt.plugins.info import PluginError
from iot_mqtt.ports.alarms import AlarmKind
from iot_mqtt.values import ProtocolVersion
from tests.unit.app.node.lifekit import Turning

FILE = {
    "node": {"id": "n", "data_dir": "data", "gc_threshold": 0, "drain_seconds": 1},
    "grid": {"kind": "memory"},
    "admin": {"port": 0},
    "uplink": {"kind": "none"},
    "listeners": {"mqtt": {"port": 0}, "ws": {"enabled": False}, "gateway": {"enabled": False}},
    "mqtt": {"max_sessions": 100},
}


class Running:
    """A node with a configuration file that tests write anew."""

    def __init__(self, folder: Path, turning: Turning) -> None:
        self.path = folder / "application.yaml"
        self.changed = file_of(str(folder / "data"))
        self.told: dict[str, Any] = yaml.safe_load(yaml.safe_dump(FILE))
        self.turning = turning
        self.sets: list[str] = []
        self.write()
        self.start()

    def write(self, **sections: Any) -> None:
        for name, section in sections.items():
            self.told[name] = {**self.told.get(name, {}), **section}
        self.path.write_text(yaml.safe_dump(self.told))

    def read(self) -> LoadedConfig:
        return read_config(str(self.path), self.sets, {})

    def start(self) -> None:
        loaded = self.read()
        Path(loaded.config.node.data_dir).mkdir(exist_ok=True)
        self.service = Service(loaded.config, self.turning.reactor, self.over, loaded, self.read)
        self.turning.run(self.service.start())
        self.desk = self.service.configuration

    def over(self, reason: str) -> None:
        raise AssertionError(reason)

    def stop(self) -> None:
        self.turning.run(self.service.stop())

    def run(self, doing: Any) -> Any:
        return self.turning.run(doing)

    def port(self, name: str) -> int:
        return self.service.ports[f"listeners.{name}"]

    def value(self, key: str) -> object:
        found = self.desk.key(key)
        assert found is not None
        return found.info.value


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    turning = Turning()
    pool = turning.reactor.getThreadPool()
    pool.start()
    running = Running(tmp_path, turning)
    yield running
    running.stop()
    pool.stop()
    assert turning.left == []


class Client:
    """A socket with a client of MQTT 5 at it."""

    def __init__(self, running: Running, port: int, name: str = "c") -> None:
        self._turning = running.turning
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setblocking(False)
        self._decoder = Decoder(role=Role.CLIENT, version=ProtocolVersion.V5)
        self.packets: list[Any] = []
        self.closed = False
        self._socket.sendall(encode(Connect(client_id=name, version=ProtocolVersion.V5), ProtocolVersion.V5))

    def get(self, kind: type) -> Any:
        self._turning.until(lambda: self._look(kind))
        return next(one for one in self.packets if isinstance(one, kind))

    def _look(self, kind: type) -> bool:
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return False
        self.closed = not data
        self.packets += self._decoder.feed(data)
        return self.closed or any(isinstance(one, kind) for one in self.packets)

    def close(self) -> None:
        self._socket.close()


def test_a_listener_is_opened_serves_and_is_closed_with_a_word_to_its_clients(running: Running) -> None:
    """And it is there again after a restart, unless it was closed."""
    told = running.run(running.desk.open_listener("line7", {"protocol": "mqtt", "message_rate": 5.0}))
    assert told.open and told.layer == "changed" and told.port == running.port("line7")
    client = Client(running, told.port)
    assert client.get(Connack).reason is ReasonCode.SUCCESS
    assert [one.connections for one in running.desk.listeners() if one.name == "line7"] == [1]
    with pytest.raises(InTheWay, match="open already"):
        running.run(running.desk.open_listener("line7", {}))

    running.stop()
    client.close()
    running.start()
    client = Client(running, running.port("line7"))
    client.get(Connack)
    assert running.run(running.desk.close_listener("line7"))
    assert client.get(Disconnect).reason is ReasonCode.ADMINISTRATIVE_ACTION
    assert "listeners.line7" not in running.service.ports
    assert not running.run(running.desk.close_listener("line7"))
    assert yaml.safe_load(running.changed.read_text()) is None
    client.close()


def test_a_listener_of_the_file_stays_closed_when_an_operator_has_closed_it(running: Running) -> None:
    """Over a restart, until he opens it again: as it is configured."""
    assert running.run(running.desk.close_listener("mqtt"))
    running.stop()
    running.start()
    assert running.service.ports.keys() == {"admin"}
    assert not next(one for one in running.desk.listeners() if one.name == "mqtt").open
    assert running.run(running.desk.open_listener("mqtt", {})).open
    client = Client(running, running.port("mqtt"))
    client.get(Connack)
    client.close()


@pytest.mark.parametrize(
    ("name", "told", "says"),
    [
        ("Line", {"protocol": "mqtt"}, "name of a listener"),
        ("line", {"protocol": "mqtt", "host": "0.0.0.0"}, "without authentication"),
        ("line", {"protocol": "mqtt", "port": 70_000}, "must be 0 to 65535"),
        ("line", {}, "codec or protocol"),
        ("line", {"codec": "nobody"}, "there is no plugin 'nobody'"),
        ("line", {"protocol": "mqtt", "tls": {"cert": "cert.pem", "key": "key.pem"}}, "must be an absolute path"),
        ("line", {"protocol": "mqtt", "tls": {"cert": "/no/cert.pem", "key": "/no/key.pem"}}, "does not exist"),
        ("line", {"protocol": "mqtt", "auth_chain": ["jwt"]}, "jwt"),
        ("line", {"protocol": "mqtt", "auth_chain": ["certificate"]}, "needs a restart"),
        ("line", {"protocol": "mqtt", "heartbeat": 5.0}, "has no effect"),
    ],
)
def test_what_the_configuration_refuses_is_refused_here_too(
    running: Running, name: str, told: dict[str, object], says: str
) -> None:
    """And nothing is kept of it."""
    ports = running.service.ports
    with pytest.raises(ConfigRefused, match=says):
        running.run(running.desk.open_listener(name, told))
    assert running.service.ports == ports
    assert running.desk.loaded is not None and running.desk.loaded.layers.changed == ()
    assert not running.changed.exists() or yaml.safe_load(running.changed.read_text()) is None


def test_a_port_that_somebody_has_is_told_and_opens_nothing(running: Running) -> None:
    """Of two that a file adds, neither is open then, and the file changes nothing else."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InTheWay, match="in use"):
            running.run(running.desk.open_listener("line", {"protocol": "mqtt", "port": port}))
        assert yaml.safe_load(running.changed.read_text()) is None
        line = {"protocol": "mqtt", "port": 0}
        running.write(listeners={"one": line, "two": {**line, "port": port}}, mqtt={"max_sessions": 5})
        with pytest.raises(InTheWay, match="in use"):
            running.run(running.desk.reload())
    assert running.service.ports.keys() == {"listeners.mqtt", "admin"}
    assert running.value("mqtt.max_sessions") == 100


def test_files_read_again_change_what_can_and_name_the_rest(running: Running) -> None:
    """What needs a restart stays what it was."""
    running.write(mqtt={"max_sessions": 7, "max_qos": 1}, listeners={"ws": {"port": 0}})
    dry = running.run(running.desk.reload(dry_run=True))
    assert running.value("mqtt.max_sessions") == 100 and "listeners.ws" not in running.service.ports
    told = running.run(running.desk.reload())
    assert told == dry
    assert [(one.key, one.before, one.now) for one in told.changed] == [("mqtt.max_sessions", 100, 7)]
    assert (told.opened, told.restart) == (("ws",), ("mqtt.max_qos",))
    settings = running.service.broker.settings
    assert (settings.max_sessions, settings.max_qos) == (7, 2)
    again = running.run(running.desk.reload())
    assert (again.changed, again.opened, again.restart) == ([], (), ("mqtt.max_qos",))
    running.write(listeners={"ws": {"enabled": False}})
    assert running.run(running.desk.reload()).closed == ("ws",)
    assert "listeners.ws" not in running.service.ports


def test_a_wrong_file_changes_nothing_at_all(running: Running) -> None:
    """Not even what is right in it."""
    running.write(mqtt={"max_sessions": 7}, doors={"max_conections": 1})
    with pytest.raises(ConfigRefused, match=r"did you mean doors\.max_connections"):
        running.run(running.desk.reload())
    assert running.service.broker.settings.max_sessions == 100


def test_a_codec_that_could_not_be_loaded_is_no_configuration_to_reload(running: Running) -> None:
    """A node that starts with it all the same has an alarm, and can still be changed."""
    running.write(plugins={"modbus": {"config": {"foo": 1}}})
    with pytest.raises(ConfigRefused, match=r"plugins\.modbus\.config: foo: there is no such key"):
        running.run(running.desk.reload())
    (alarm,) = running.desk.alarms
    assert alarm.kind is AlarmKind.CONFIGURATION
    running.stop()
    running.start()
    (found,) = [one.text for one in running.service.view.alarms if one.kind is AlarmKind.CODEC]
    assert found.startswith("codec modbus takes no connections: its configuration: foo: there is no such key")
    assert running.run(running.desk.change({"log.level": "warning"}, ())).changed


def test_what_is_written_for_a_codec_waits_for_its_reload(running: Running) -> None:
    """It is named by the key in the file, until the plugin has taken it over."""

    def waits() -> object:
        return running.run(running.desk.reload()).restart

    plugins = running.service.gateways.plugins
    running.write(plugins={"modbus": {"config": {"gateway": "mb2"}, "limits": {"stall": 2.0}}})
    assert waits() == waits() == ("plugins.modbus.config", "plugins.modbus.limits")
    running.run(plugins.reload("modbus"))
    assert waits() == ()
    running.write(plugins={"modbus": {"enabled": False}, "acme": {"isolation": "inline"}})
    assert waits() == ("plugins.acme", "plugins.modbus.config", "plugins.modbus.limits", "plugins.modbus.enabled")


def test_a_refused_reload_of_a_codec_is_over_when_it_is_written_as_it_runs(running: Running) -> None:
    """The reason is shown as long as the next start would have it."""

    def reason() -> str | None:
        return next(one.reason for one in plugins.info() if one.name == "modbus")

    plugins = running.service.gateways.plugins
    running.write(plugins={"modbus": {"config": {"foo": 1}}})
    with pytest.raises(PluginError, match="foo: there is no such key"):
        running.run(plugins.reload("modbus"))
    running.write(plugins={"modbus": {"config": {"gateway": "mb2"}}})
    running.run(running.desk.reload())
    assert "foo" in (reason() or "")
    running.write(plugins={"modbus": {}})
    running.run(running.desk.reload(dry_run=True))
    assert "foo" in (reason() or "")
    running.run(running.desk.reload())
    assert reason() is None


def test_a_list_of_keys_says_each_default(running: Running) -> None:
    """What differs from it is seen without asking for each key by itself."""
    keys = {one.key: one for one in running.desk.all_keys()}
    assert (keys["mqtt.max_sessions"].value, keys["mqtt.max_sessions"].default) == (100, Config().mqtt.max_sessions)
    assert keys["mqtt.max_inflight"].default == keys["mqtt.max_inflight"].value
    assert keys["listeners.mqtt.port"].default == Config().listeners["mqtt"].port


def test_a_changed_key_counts_at_once_and_after_a_restart_until_it_is_taken_back(running: Running) -> None:
    """It is a layer of its own, above the file."""
    told = running.run(running.desk.change({"mqtt.max_sessions": 1}, []))
    assert [(one.key, one.now) for one in told.changed] == [("mqtt.max_sessions", 1)]
    client, other = Client(running, running.port("mqtt"), "a"), Client(running, running.port("mqtt"), "b")
    assert {client.get(Connack).reason, other.get(Connack).reason} == {ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED}
    client.close()
    other.close()
    running.stop()
    running.start()
    found = running.desk.key("mqtt.max_sessions")
    assert found is not None and [(one.layer, one.value) for one in found.layers][1:] == [("file", 100), ("changed", 1)]
    running.run(running.desk.change({}, ["mqtt.max_sessions"]))
    assert running.service.broker.settings.max_sessions == 100
    with pytest.raises(ConfigRefused, match="nothing to take back"):
        running.run(running.desk.change({}, ["mqtt.max_sessions"]))


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("mqtt.max_qos", 1, "with a restart only"),
        ("mqtt.max_session", 1, "did you mean mqtt.max_sessions"),
        ("mqtt", {"max_sessions": 1}, "is a section"),
        ("mqtt.max_sessions", 0, "must be 1 or more"),
        ("mqtt.max_sessions", "many", "must be a whole number"),
        ("doors.flapping_ban", 5.0, "has no effect"),
        ("listeners.mqtt.port", 5, "with a restart only"),
    ],
)
def test_a_change_that_makes_no_sense_changes_nothing(running: Running, key: str, value: object, says: str) -> None:
    """Nor what is asked for beside it."""
    with pytest.raises(ConfigRefused, match=says):
        running.run(running.desk.change({"mqtt.connect_timeout": 3.0, key: value}, []))
    assert running.value("mqtt.connect_timeout") == 10.0 and not running.changed.exists()


def test_what_the_command_line_says_is_not_changed_behind_its_back(running: Running) -> None:
    """The change would be over with the next restart, and nothing would have told."""
    running.stop()
    running.sets = ["mqtt.max_sessions=9"]
    running.start()
    with pytest.raises(ConfigRefused, match=r"--set mqtt.max_sessions says 9, and counts above"):
        running.run(running.desk.change({"mqtt.max_sessions": 5}, []))


def test_each_key_that_may_change_is_what_it_says_in_force(running: Running) -> None:
    """Numbers and words of all of them at once; what parts have made of them is made anew."""
    others = {"log.level": "error", "auth.limits": [{"user": "u", "connections": 1}]}
    names = [*known_listeners()]
    values: dict[str, object] = dict(others)
    for key in schema.keys(names):
        value, known = value_of(running.service.live.config, key), KEYS.get(key)
        if key.startswith(("pipeline.", "log.disk_")):
            continue
        if is_live(key) and known is not None and isinstance(value, int | float) and not isinstance(value, bool):
            highest = known.range.highest if known.range is not None else None
            assert not isinstance(highest, str)
            values[key] = type(value)(min(value * 2 + 20, highest or 1e9))
    running.run(running.desk.change(values, []))
    service, config = running.service, running.service.live.config
    for key, value in values.items():
        assert key in others or value_of(config, key) == value
    assert len(values) > 50
    broker = service.broker
    assert broker.settings == config.mqtt
    assert broker.clients.allowance == allowance_of(config.mqtt)
    assert broker.clients.timeouts.seconds == config.mqtt.connect_timeout
    assert broker.sessions.queued.limit == config.mqtt.max_queued_bytes_in_all
    assert broker.clients.traffic.for_all
    assert service.accompanied.settings == config.devices
    running.run(running.desk.change({"log.level": "info"}, []))


@pytest.mark.parametrize("broken", ["nonsense: 1", "{", None], ids=["unknown-key", "no-yaml", "missing"])
@pytest.mark.parametrize("mended", ["reloaded", "as-it-was"])
def test_a_reload_that_is_refused_is_an_alarm_until_it_is_mended(
    running: Running, broken: str | None, mended: str
) -> None:
    """The node runs on, and would not come back after its next crash."""
    running.write(mqtt={"sys_interval": 7})  # it waits for a restart
    running.run(running.desk.reload())
    before = running.path.read_text()
    assert not running.service.view.alarms
    running.path.unlink()
    if broken is not None:
        running.path.write_text(broken)
    with pytest.raises(ConfigRefused):
        running.run(running.desk.reload())
    (alarm,) = running.service.view.alarms
    assert alarm.kind is AlarmKind.CONFIGURATION
    assert alarm.text.startswith("the configuration was not reloaded, and may keep the node from its next start: ")
    assert str(running.path) in alarm.text
    with pytest.raises(ConfigRefused):
        running.run(running.desk.reload(dry_run=True))
    running.run(running.desk.look())
    assert list(running.service.view.alarms) == [alarm]
    running.path.write_text(before)
    if mended == "reloaded":
        running.write(log={"level": "debug"})
        running.run(running.desk.look())
        assert list(running.service.view.alarms) == [alarm], "nobody has it read"
        running.run(running.desk.reload())
    else:
        running.run(running.desk.look())
    assert not running.service.view.alarms


def test_a_trial_that_is_refused_is_no_alarm(running: Running) -> None:
    """Whoever tries is told at once."""
    running.path.write_text("nonsense: 1")
    with pytest.raises(ConfigRefused):
        running.run(running.desk.reload(dry_run=True))
    assert not running.service.view.alarms
