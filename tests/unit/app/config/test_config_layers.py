"""Four layers, the highest wins, and every one of them is checked."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from iot_mqtt.app.config import ConfigError, load_config, read_config
from iot_mqtt.app.config.effects import notes
from iot_mqtt.app.config.limits import Range, complaint


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(directory: Path, text: str) -> str:
    """A configuration file, by the name one would give it."""
    (directory / "application.yaml").write_text(text, encoding="utf-8")
    return "application.yaml"


def problems(path: str | None, sets: tuple[str, ...] = (), environ: dict[str, str] | None = None) -> list[str]:
    """What is said about a configuration that is refused."""
    with pytest.raises(ConfigError) as caught:
        load_config(path, sets, environ or {})
    return [str(problem) for problem in caught.value.problems]


def test_without_any_layer_the_defaults_of_the_design_hold(directory: Path) -> None:
    """1883, 8083 under /mqtt, 9600 and 18083, on loopback, anonymous."""
    config = load_config(None, (), {})
    listening = {name: (item.host, item.port) for name, item in config.enabled_listeners.items()}
    assert listening == {"mqtt": ("127.0.0.1", 1883), "ws": ("127.0.0.1", 8083), "gateway": ("127.0.0.1", 9600)}
    assert (config.admin.host, config.admin.port) == ("127.0.0.1", 18083)
    assert (config.listeners["ws"].path, config.listeners["gateway"].port) == ("/mqtt", 9600)
    assert (config.grid.kind, config.registry.kind, config.uplink.kind) == ("embedded", "none", "file")
    assert (config.auth.allow_anonymous, config.node.data_dir) == (True, str(directory / "data"))


def test_each_layer_wins_over_the_one_before(directory: Path) -> None:
    """Defaults, file, environment, command line."""
    path = write(directory, "mqtt: {max_qos: 1, max_inflight: 5, server_keep_alive: 7}")
    environ = {"IOT_MQTT__MQTT__MAX_INFLIGHT": "6", "IOT_MQTT__MQTT__SERVER_KEEP_ALIVE": "8"}
    mqtt = load_config(path, ("mqtt.server_keep_alive=9",), environ).mqtt
    assert (mqtt.receive_maximum, mqtt.max_qos, mqtt.max_inflight, mqtt.server_keep_alive) == (1024, 1, 6, 9)


def test_the_last_of_two_sets_wins(directory: Path) -> None:
    """As with any option that may be given again."""
    assert load_config(None, ("node.id=a", "node.id=b"), {}).node.id == "b"


@pytest.mark.parametrize(
    ("setting", "section", "name", "value"),
    [
        ("node.id=5", "node", "id", "5"),
        ("node.id=true", "node", "id", "true"),
        ("node.drain_seconds=5", "node", "drain_seconds", 5.0),
        ("admin.enabled=false", "admin", "enabled", False),
        ("admin.enabled=0", "admin", "enabled", False),
        ("admin.port=0", "admin", "port", 0),
        ("auth.users_file=", "auth", "users_file", None),
        ("auth.users_file=null", "auth", "users_file", None),
        ("mqtt.server_reference=a=b", "mqtt", "server_reference", "a=b"),
        (" admin.port =7", "admin", "port", 7),
    ],
)
def test_text_is_read_as_the_type_of_its_key(
    directory: Path, setting: str, section: str, name: str, value: object
) -> None:
    """``--set node.id=5`` names a node 5, ``--set admin.port=5`` is a number."""
    assert getattr(getattr(load_config(None, (setting,), {}), section), name) == value


@pytest.mark.parametrize("text", ["a:1,b:2", "a:1, b:2", "[a:1, b:2]", "['a:1', \"b:2\"]"])
def test_lists_of_hosts_may_be_written_the_usual_ways(directory: Path, text: str) -> None:
    """With commas, as ZooKeeper and Kafka have them, or as YAML."""
    assert read_config(None, (f"registry.zookeeper.hosts={text}",), {}).config.registry.zookeeper.hosts == (
        "a:1",
        "b:2",
    )


def test_a_whole_section_may_be_set_at_once(directory: Path) -> None:
    """A mapping is its keys."""
    listener = load_config(None, ("listeners.mqtt={port: 0, outbox: {low: 5}}",), {}).listeners["mqtt"]
    assert (listener.port, listener.outbox.low, listener.host) == (0, 5, "127.0.0.1")


def test_an_empty_file_and_empty_sections_are_fine(directory: Path) -> None:
    """That is what remains when everything is commented out."""
    assert load_config(write(directory, ""), (), {}) == load_config(None, (), {})
    assert load_config(write(directory, "node:\nlisteners:\n  mqtt:\n    tls:\n"), (), {}) == load_config(None, (), {})


def test_environment_of_others_is_left_alone(directory: Path) -> None:
    """Only two underscores after the name make a key."""
    environ = {"IOT_MQTT_NATIVE": "off", "IOT_MQTT_CTL_URL": "x", "HOME": "/", "NODE__ID": "x"}
    assert load_config(None, (), environ) == load_config(None, (), {})


def test_a_variable_with_one_underscore_too_few_is_no_other_one(directory: Path) -> None:
    """It would be passed over, and somebody meant it."""
    environ = {"IOT_MQTT_MQTT__MAX_QOS": "1", "IOT_MQTT_SERVICE_PORT": "x", "IOT_MQTT_NODE_ID": "x"}
    (problem,) = problems(None, (), environ)
    assert problem.startswith("IOT_MQTT_MQTT__MAX_QOS: is no key: two underscores")
    assert problem.endswith("did you mean IOT_MQTT__MQTT__MAX_QOS?")


def test_a_variable_that_is_a_key_but_for_its_underscores_is_told(directory: Path) -> None:
    """Not those that Kubernetes makes for a service that is called iot-mqtt, or ours."""
    environ = dict.fromkeys(("IOT_MQTT_MQTT_MAX_QOS", "IOT_MQTT_SERVICE_PORT", "IOT_MQTT_NATIVE", "MQTT_MAX_QOS"), "1")
    (note,) = notes(read_config(None, (), environ))
    assert str(note) == "IOT_MQTT_MQTT_MAX_QOS: is read by nobody; did you mean IOT_MQTT__MQTT__MAX_QOS?"


def test_relative_paths_start_where_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a file in its directory, others in the working directory."""
    (tmp_path / "etc").mkdir()
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "etc", "node: {data_dir: here}\nauth: {acl_file: acl}")
    config = read_config(f"etc/{path}", ("auth.acl_file=rules",), {}).config
    assert config.node.data_dir == str(tmp_path / "etc" / "here")
    assert config.auth.acl_file == (str(tmp_path / "rules"),)


def test_what_is_read_again_is_where_a_link_leads_now(tmp_path: Path) -> None:
    """Kubernetes replaces the files of a ConfigMap by turning a link of their folder."""
    for age in ("old", "new"):
        (tmp_path / age).mkdir()
        (tmp_path / age / "broker.yaml").write_text(f"node: {{id: {age}}}\n")
    (tmp_path / "..data").symlink_to("old")
    (tmp_path / "broker.yaml").symlink_to("..data/broker.yaml")
    assert read_config(str(tmp_path / "broker.yaml"), (), {}).config.node.id == "old"
    (tmp_path / "..turned").symlink_to("new")
    (tmp_path / "..turned").rename(tmp_path / "..data")
    assert read_config(str(tmp_path / "broker.yaml"), (), {}).config.node.id == "new"


def test_tls_listeners_are_on_once_they_have_a_certificate(directory: Path) -> None:
    """And stay off if that is written out."""
    assert read_config(None, ("listeners.wss.tls.cert=x",), {}).config.listeners["wss"].enabled
    off = ("listeners.wss.tls.cert=x", "listeners.wss.enabled=false")
    assert not read_config(None, off, {}).config.listeners["wss"].enabled


def test_a_file_of_users_ends_anonymous_access(directory: Path) -> None:
    """Unless it is written out; whoever keeps users means them."""
    assert not read_config(None, ("auth.users_file=u",), {}).config.auth.allow_anonymous
    both = ("auth.users_file=u", "auth.allow_anonymous=true")
    assert read_config(None, both, {}).config.auth.allow_anonymous


def test_a_listener_of_any_name_may_be_added(directory: Path) -> None:
    """It says what it speaks: a protocol, or a codec for frames."""
    sets = ("listeners.inside.protocol=mqtt", "listeners.inside.port=1884", "listeners.plc.codec=acme")
    listeners = read_config(None, sets, {}).config.listeners
    assert (listeners["inside"].protocol, listeners["inside"].port, listeners["inside"].enabled) == ("mqtt", 1884, True)
    assert (listeners["plc"].protocol, listeners["plc"].codec) == ("frames", "acme")


def test_the_configuration_cannot_be_changed(directory: Path) -> None:
    """It is read once."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        load_config(None, (), {}).node.id = "x"  # type: ignore[misc]


#: Nine levels of lists, each of nine times the one before.
BOMB = "log:\n  record:\n  - &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"  - &a{level} [{','.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 9)
)


def test_an_alias_stands_for_what_it_names(directory: Path) -> None:
    """What several ports have in common need not be written twice."""
    text = "listeners: {one: &port {protocol: mqtt, port: 0, auth_chain: [anonymous]}, two: *port}"
    config = read_config(str(write(directory, text)), (), {}).config
    assert config.listeners["one"] == config.listeners["two"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("node:\n  idd: x", "application.yaml:2:3: node.idd: unknown key; did you mean node.id?"),
        ("nod:\n  id: x", "application.yaml:2:3: nod.id: unknown key; did you mean node.id?"),
        ("max_qos: 1", "application.yaml:1:1: max_qos: unknown key; did you mean mqtt.max_qos?"),
        ("node: {id: 5}", "application.yaml:1:8: node.id: must be text, not 5; write it in quotes"),
        (
            "node:\n  drain_seconds: '5'",
            "application.yaml:2:3: node.drain_seconds: must be a number, not '5'; write it without quotes",
        ),
        ("admin: {port: 1.5}", "application.yaml:1:9: admin.port: must be a whole number, not 1.5"),
        ("admin: {port: true}", "application.yaml:1:9: admin.port: must be a whole number, not true"),
        ("admin: {enabled: 1}", "application.yaml:1:9: admin.enabled: must be true or false, not 1"),
        ("admin: {port: 65536}", "application.yaml:1:9: admin.port: must be 0 to 65535, not 65536"),
        ("admin: {port:}", "application.yaml:1:9: admin.port: must be a whole number, not null"),
        (
            "mqtt: {connect_timeout: .inf}",
            "application.yaml:1:8: mqtt.connect_timeout: must be a number, not inf",
        ),
        (
            "grid: {kind: ignit}",
            "grid.kind: must be one of embedded, ignite, memory, not 'ignit'; did you mean ignite?",
        ),
        (
            "mqtt: {shared_policy: random}",
            "must be one of round_robin, sticky, hash_client, hash_topic, least_inflight, not 'random'",
        ),
        (
            "listeners: {ws: {tls: {min_version: 1.2}}}",
            "application.yaml:1:24: listeners.ws.tls.min_version: must be one of 1.2, 1.3, not 1.2; write it in quotes",
        ),
        ("node: 5", "application.yaml:1:1: node: is a section: its keys go below it"),
        ("node: {id: {a: 1}}", "application.yaml:1:13: node.id.a: node.id has no keys below it; did you mean node.id?"),
        ("node: {id: a, id: b}", "application.yaml:1:15: node.id: written twice"),
        (
            "pipeline: {memory: 384m}",
            "application.yaml:1:12: pipeline.memory: must be 512m or more, with k, m or g, not '384m'",
        ),
        (
            "node: {id: a b}",
            "application.yaml:1:8: node.id: must be letters, digits, '.', '_' and '-', at most 64, not 'a b'",
        ),
        (
            "listeners: {ws: {path: mqtt}}",
            "application.yaml:1:18: listeners.ws.path: must be a path that starts with '/', not 'mqtt'",
        ),
        ("uplink: {rules: [a]}", "application.yaml:1:10: uplink.rules: must be a list of mappings, not a list"),
        ("node: [", "application.yaml:1:8: is not YAML: expected the node content, but found '<stream end>'"),
        ("- a", "application.yaml:1:1: must be a mapping of sections"),
        ("node: {id: !!python/name:os.system x}", "could not determine a constructor"),
        ("node: &a {b: *a}", "nested too deep"),
        ("node: {id: 2026-99-99}", "cannot be read"),
        (BOMB, "nested too deep: its aliases stand for more than 10000 values"),
        ("listeners: {mqtt: {port: 19:20}}", "listeners.mqtt.port: must be a whole number, not '19:20'"),
        ("listeners: {mqtt: {message_rate: 1:30.5}}", "message_rate: must be a number, not '1:30.5'"),
        ("[" * 5000, "nested too deep"),
        ("node: {id: " + "{a: " * 5000 + "}" * 5001, "nested too deep"),
        ("auth: {chain: " + "[" * 5000 + "]" * 5000 + "}", "nested too deep"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_place(directory: Path, text: str, said: str) -> None:
    """File, line, column, key, and what was meant."""
    (problem,) = problems(write(directory, text))[:1]
    assert said in problem


@pytest.mark.parametrize("key", ["node.id", "auth.chain", "listeners.mqtt", "events.webhooks", "admin.port"])
@pytest.mark.parametrize("begins", ["[", "{a: "])
def test_what_is_nested_without_end_is_refused(directory: Path, key: str, begins: str) -> None:
    """A line on the command line as well."""
    (problem, *_) = problems(None, (f"{key}={begins * 5000}",))
    assert problem.startswith(f"--set {key}")


def test_bytes_that_are_no_text_are_said_with_their_line(directory: Path) -> None:
    """An editor that writes in another encoding."""
    (directory / "application.yaml").write_bytes("node:\n  id: 'gr\u00fcn'\n".encode("latin-1"))
    (problem,) = problems("application.yaml")
    assert problem == "application.yaml:2: is not UTF-8"


def test_an_unknown_listener_is_a_typing_mistake_or_needs_to_say_more(directory: Path) -> None:
    """``mqt`` is not quietly a new port."""
    (problem,) = problems(write(directory, "listeners:\n  mqt: {port: 1}"))
    assert problem.startswith("application.yaml:2:9: listeners.mqt.port: unknown listener 'mqt'")
    assert problem.endswith("did you mean listeners.mqtt.port?")


def test_environment_and_command_line_are_named_as_such(directory: Path) -> None:
    """The variable, or the option, that has to be changed."""
    said = problems(None, ("admin.prt=1", "admin", "=x"), {"IOT_MQTT__NODE__IDD": "x", "IOT_MQTT__ADMIN__PORT": "no"})
    assert said == [
        "--set admin: must be KEY=VALUE",
        "--set =x: must be KEY=VALUE",
        "IOT_MQTT__ADMIN__PORT: admin.port: must be a whole number, not 'no'",
        "IOT_MQTT__NODE__IDD: node.idd: unknown key; did you mean node.id?",
        "--set admin.prt: unknown key; did you mean admin.port?",
    ]


def test_a_layer_that_does_not_win_is_checked_all_the_same(directory: Path) -> None:
    """A mistake must not lie in wait until somebody removes the option that hides it."""
    (problem,) = problems(write(directory, "admin: {port: x}"), ("admin.port=1",))
    assert problem.startswith("application.yaml:1:9: admin.port")


def test_everything_wrong_is_said_at_once(directory: Path) -> None:
    """No mending line by line."""
    assert len(problems(write(directory, "a: 1\nnode: {idd: 2}\nadmin: {port: x}"), ("b=1",))) == 4


def test_a_missing_file_is_one_problem(directory: Path) -> None:
    """With its name."""
    assert problems("gone.yaml") == ["gone.yaml: no such file or directory"]


def test_a_file_that_is_not_utf8_is_refused(directory: Path) -> None:
    """Rather than guessed at."""
    (directory / "application.yaml").write_bytes(b"node: {id: '\xff'}")
    assert len(problems("application.yaml")) == 1


@pytest.mark.parametrize(
    ("memory", "enough"),
    [
        ("511m", False), ("512m", True), ("599M", True), ("1000m", True), ("99m", False),
        ("524287k", False), ("524288k", True), ("530000K", True), ("1000000k", True), ("99999k", False),
        ("1g", True), ("16G", True), ("0g", False), ("512", False), ("512mb", False), ("-1g", False), ("٩g", False),
    ],
)  # fmt: skip
def test_spark_has_a_heap_that_it_takes(memory: str, enough: bool) -> None:
    """In each unit."""
    assert (complaint("pipeline.memory", memory) is None) == enough


@pytest.mark.parametrize(
    ("amount", "held"),
    [("1023k", False), ("1m", True), ("1024K", True), ("2g", True), ("2048M", True), ("2049m", False), ("3g", False)],
)
def test_a_range_knows_units(amount: str, held: bool) -> None:
    """Its bounds have some, and so has what is held against it, whichever they are."""
    bounds = Range("1m", "2g")
    assert bounds.holds(amount) == held
    assert str(bounds) == "1m to 2g, with k, m or g"
