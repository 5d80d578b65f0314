"""The launcher's pure parts: the plan of a cluster, what a broker is told of it, and whose pid a pid is."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import stat
from dataclasses import replace
from pathlib import Path
from string import Template

import pytest
import yaml

from iot_mqtt.app.config import load_config
from iot_mqtt.app.engines import Cluster, EngineError, Places, Plan, snippet, topics
from iot_mqtt.app.engines.kinds import KINDS, argument_file
from iot_mqtt.app.engines.life import Life
from iot_mqtt.app.engines.plan import PORTS

ROOT = Path(__file__).parents[4]


@pytest.fixture
def checkout(tmp_path: Path) -> Places:
    """A checkout whose jars were made, with our own configuration files."""
    folder = tmp_path / "checkout"
    for kind in KINDS:
        jars = folder / "cluster" / "target" / "jars" / kind
        jars.mkdir(parents=True)
        for name in ("b.jar", "a.jar"):
            (jars / name).touch()
    (folder / "cluster" / "config").symlink_to(ROOT / "cluster" / "config")
    return Places(folder)


def prepared(plan: Plan, name: str, folder: Path, places: Places) -> list[str]:
    """Java's arguments for one server."""
    member = next(member for member in plan.members if member.name == name)
    return KINDS[member.kind].prepare(plan, member, folder, places)


def test_a_plan_survives_being_written(tmp_path: Path) -> None:
    """For nobody's eyes but the owner's."""
    plan = Plan.make(ignite=3, zookeeper=3, kafka=1, persistence=True)
    file = tmp_path / "cluster.json"
    plan.write(file)
    assert Plan.read(file) == plan
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [member.name for member in plan.members] == [
        *("zookeeper-1", "zookeeper-2", "zookeeper-3", "ignite-1", "ignite-2", "ignite-3", "kafka")
    ]
    assert plan.described() == "ignite x3, zookeeper x3, kafka x1, persistent"


def test_there_may_be_no_plan(tmp_path: Path) -> None:
    """Or one that this version cannot read, which is said."""
    file = tmp_path / "cluster.json"
    assert Plan.read(file) is None
    file.write_text('{"version": 99}')
    with pytest.raises(EngineError, match="another version"):
        Plan.read(file)
    file.write_text("{")
    with pytest.raises(EngineError, match="cannot read"):
        Plan.read(file)


def test_no_two_servers_are_given_one_port() -> None:
    """Nor one that clients are given by the kernel."""
    ports = [port for member in Plan.make(ignite=9, zookeeper=3, kafka=1).members for port in member.ports.values()]
    assert len(set(ports)) == len(ports) == 9 * 4 + 3 * 3 + 2
    assert all(20_000 <= port < 32_000 for port in ports)


def test_standard_ports_count_up_from_those_that_everybody_knows() -> None:
    """And they do not meet, with as many servers as there may be."""
    plan = Plan.make(ignite=9, zookeeper=3, kafka=1, standard_ports=True)
    assert plan.addresses("ignite")[:2] == ["127.0.0.1:10800", "127.0.0.1:10801"]
    assert plan.addresses("zookeeper") == ["127.0.0.1:2181", "127.0.0.1:2182", "127.0.0.1:2183"]
    ports = [port for member in plan.members for port in member.ports.values()]
    assert len(set(ports)) == len(ports)


def test_two_plans_have_two_tokens() -> None:
    """A gateway lets in the brokers of its own cluster."""
    one, other = Plan.make(ignite=1), Plan.make(ignite=1)
    assert one.token != other.token
    assert len(one.token) == 32


def test_a_broker_is_told_of_what_there_is(tmp_path: Path) -> None:
    """As a file and as options, which say the same."""
    plan = Plan.make(ignite=2, zookeeper=1, kafka=1, standard_ports=True)
    snippet.write(tmp_path / "broker.yaml", plan)
    assert yaml.safe_load((tmp_path / "broker.yaml").read_text()) == {
        "grid": {
            "kind": "ignite",
            "ignite": {
                "addresses": ["127.0.0.1:10800", "127.0.0.1:10801"],
                "gateway": ["127.0.0.1:10900", "127.0.0.1:10901"],
                "token": plan.token,
            },
        },
        "registry": {"kind": "zookeeper", "zookeeper": {"hosts": ["127.0.0.1:2181"]}},
        "uplink": {"kind": "kafka", "kafka": {"bootstrap_servers": ["127.0.0.1:9092"]}},
    }
    config = load_config(str(tmp_path / "broker.yaml"), ["node.id=node-1"])
    assert config.grid.ignite.gateway == ("127.0.0.1:10900", "127.0.0.1:10901")
    words = shlex.split(" ".join(snippet.options(plan)))
    assert words[::2] == ["--set"] * 8
    pairs = dict(word.split("=", 1) for word in words[1::2])
    assert {key: yaml.safe_load(value) for key, value in pairs.items()} == snippet.settings(plan)


def test_a_broker_is_not_told_of_what_there_is_not() -> None:
    """A directory with Kafka alone says nothing of a grid."""
    assert list(snippet.settings(Plan.make(kafka=1))) == ["uplink.kind", "uplink.kafka.bootstrap_servers"]


def test_the_topics_that_are_made_are_those_of_a_broker_that_is_told_nothing_else() -> None:
    """With an uplink to Kafka; one that only read them would wait for them."""
    told = load_config(None, ["uplink.kind=kafka"]).uplink
    named = {*(rule["to"] for rule in told.rules), told.commands.topic}
    assert set(topics.NAMES) == named | {told.commands.dead_letters, told.kafka.dead_letters}


def test_a_lone_zookeeper_is_no_ensemble(tmp_path: Path, checkout: Places) -> None:
    """Three are, and each has a number."""
    one = Plan.make(zookeeper=1, standard_ports=True)
    prepared(one, "zookeeper-1", tmp_path, checkout)
    assert "clientPort=2181" in (tmp_path / "zoo.cfg").read_text()
    assert "server." not in (tmp_path / "zoo.cfg").read_text()
    three = Plan.make(zookeeper=3, standard_ports=True)
    prepared(three, "zookeeper-2", tmp_path, checkout)
    lines = [line for line in (tmp_path / "zoo.cfg").read_text().splitlines() if line.startswith("server.")]
    assert lines == [f"server.{n + 1}=127.0.0.1:{2888 + n}:{3888 + n};127.0.0.1:{2181 + n}" for n in range(3)]
    assert (tmp_path / "data" / "myid").read_text() == "2\n"


def test_an_ignite_server_is_told_everything_by_properties(tmp_path: Path, checkout: Places) -> None:
    """Those that cluster/config/ignite-server.xml and the gateway read, and no others."""
    plan = Plan.make(ignite=2, standard_ports=True, persistence=True)
    arguments = prepared(plan, "ignite-2", tmp_path, checkout)
    properties = dict(word[2:].split("=", 1) for word in arguments if word.startswith("-Diot."))
    assert properties.pop("iot.ignite.work") == str(tmp_path / "work")
    assert properties == {
        "iot.ignite.name": "ignite-2",
        "iot.ignite.client.port": "10801",
        "iot.ignite.discovery.port": "11001",
        "iot.ignite.discovery.addresses": "127.0.0.1:11000,127.0.0.1:11001",
        "iot.ignite.communication.port": "11101",
        "iot.ignite.quorum": "1",
        "iot.ignite.region.bytes": str(256 * 1024**2),
        "iot.ignite.persistence": "true",
        "iot.gateway.host": "127.0.0.1",
        "iot.gateway.port": "10901",
        "iot.gateway.token": plan.token,
    }
    assert "--add-opens=java.base/java.nio=ALL-UNNAMED" in arguments
    known = set(re.findall(r"systemProperties\['(iot\.[\w.]+)'\]", checkout.template("ignite-server.xml")))
    assert {name for name in properties if name.startswith("iot.ignite.")} <= known


def test_who_is_not_told_how_to_sync_leaves_the_log_to_the_system(tmp_path: Path, checkout: Places) -> None:
    """``cluster up`` says nothing of it, so the last moments are not on the disk when the power goes."""
    plan = Plan.make(ignite=2, standard_ports=True, persistence=True)
    assert not any("iot.ignite.wal" in word for word in prepared(plan, "ignite-1", tmp_path, checkout))
    synced = Plan.make(ignite=2, standard_ports=True, persistence=True, synced=True)
    assert synced.described() == "ignite x2, persistent, synced"
    assert "-Diot.ignite.wal=FSYNC" in prepared(synced, "ignite-1", tmp_path, checkout)
    (mode,) = re.findall(r'"walMode" value="#\{(.*?)\}"', checkout.template("ignite-server.xml"))
    assert mode == "systemProperties['iot.ignite.wal'] ?: 'LOG_ONLY'"


@pytest.mark.parametrize(("servers", "quorum"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3)])
def test_three_ignite_servers_and_more_have_a_quorum(
    tmp_path: Path, checkout: Places, servers: int, quorum: int
) -> None:
    """Two have none: either goes on when the other is lost."""
    assert f"-Diot.ignite.quorum={quorum}" in prepared(Plan.make(ignite=servers), "ignite-1", tmp_path, checkout)


def test_kafka_keeps_the_identity_of_its_data(tmp_path: Path, checkout: Places) -> None:
    """It is written once; Kafka refuses data of another cluster."""
    plan = Plan.make(kafka=1)
    prepared(plan, "kafka", tmp_path, checkout)
    meta = tmp_path / "data" / "meta.properties"
    assert f"cluster.id={plan.kafka_id}\n" in meta.read_text()
    meta.write_text("written by Kafka since\n")
    prepared(plan, "kafka", tmp_path, checkout)
    assert meta.read_text() == "written by Kafka since\n"


def test_the_templates_are_filled_in_whole() -> None:
    """Every name in them is one that the launcher gives."""
    for name, given in (
        ("zoo.cfg", {"data", "servers"}),
        ("kafka.properties", {"node", "client", "controller", "data"}),
    ):
        text = (ROOT / "cluster" / "config" / name).read_text()
        assert {found["braced"] or found["named"] for found in Template.pattern.finditer(text)} == given


def test_every_kind_has_ports_and_a_client_port() -> None:
    """The tables of the kinds agree."""
    assert set(PORTS) == set(KINDS)
    assert all("client" in ports for ports in PORTS.values())


def test_the_class_path_is_the_same_each_time(tmp_path: Path, checkout: Places) -> None:
    """In the order of the names, which no directory guarantees."""
    arguments = prepared(Plan.make(kafka=1), "kafka", tmp_path, checkout)
    classes = arguments[arguments.index("-cp") + 1].split(":")
    assert [Path(name).name for name in classes] == ["a.jar", "b.jar"]


def test_an_archive_of_classes_is_used_where_there_is_one(tmp_path: Path, checkout: Places) -> None:
    """Or made, where that is asked for. Java does not say that one does not fit."""
    plan = Plan.make(kafka=1)
    assert not [one for one in prepared(plan, "kafka", tmp_path, checkout) if "Archive" in one]
    archive = checkout.archive("kafka")
    archive.parent.mkdir(parents=True)
    archive.touch()
    arguments = prepared(plan, "kafka", tmp_path, checkout)
    assert {f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off"} <= set(arguments)
    made = prepared(plan, "kafka", tmp_path, replace(checkout, making=tmp_path))
    assert [one for one in made if "Archive" in one] == [f"-XX:ArchiveClassesAtExit={tmp_path / 'kafka.jsa'}"]


def test_a_jar_of_ours_is_copied_by_what_is_in_it(tmp_path: Path, checkout: Places) -> None:
    """So an archive is good for all servers, and none reads from a jar that is made again."""
    jar = checkout.sources / "target" / "jars" / "ignite" / "iot-gateway.jar"

    def of(content: bytes, name: str) -> Path:
        jar.write_bytes(content)
        (tmp_path / name).mkdir(exist_ok=True)
        arguments = prepared(Plan.make(ignite=2), name, tmp_path / name, checkout)
        (found,) = (one for one in arguments[arguments.index("-cp") + 1].split(":") if one.endswith(jar.name))
        return Path(found)

    first = of(b"one", "ignite-1")
    assert first != jar
    assert of(b"one", "ignite-2") == first
    assert of(b"two", "ignite-1") != first
    assert first.read_bytes() == b"one"


def test_missing_jars_are_answered_with_the_command_that_makes_them(tmp_path: Path) -> None:
    """Which is a target of the Makefile."""
    with pytest.raises(EngineError, match="`make cluster-jars`"):
        Places(tmp_path).jars("ignite")
    assert re.search(r"^cluster-jars:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_arguments_reach_java_as_they_are() -> None:
    """Spaces, quotes and backslashes in a path included."""
    assert argument_file(["-Dx=a b", 'say "hi"', "C:\\x"]) == '"-Dx=a b"\n"say \\"hi\\""\n"C:\\\\x"\n'


def test_a_life_is_a_pid_and_its_start(tmp_path: Path) -> None:
    """A pid that was used again is somebody else's."""
    mine = Life.of(os.getpid())
    assert mine is not None and mine.alive and not mine.paused
    mine.write(tmp_path / "pid")
    assert Life.read(tmp_path / "pid") == mine
    for other in (mine._replace(started=mine.started - 1), mine._replace(boot="an earlier one")):
        assert not other.alive
        assert not other.signal(signal.SIGKILL)


@pytest.mark.parametrize("text", ["", "17", "[]", '["x", 1, "b"]', "null", '{"pid": 3}'])
def test_a_spoilt_pid_file_speaks_of_nobody(tmp_path: Path, text: str) -> None:
    """A kill -9 may come while it is written."""
    (tmp_path / "pid").write_text(text)
    assert Life.read(tmp_path / "pid") is None
    assert Life.read(tmp_path / "none") is None


def test_commands_on_no_cluster_say_how_to_make_one(tmp_path: Path) -> None:
    """And ``down`` has nothing to do."""
    cluster = Cluster(tmp_path, Places(tmp_path))
    assert cluster.planned() is None
    assert cluster.down() == []
    with pytest.raises(EngineError, match="iot-mqtt cluster up"):
        cluster.status()


def test_a_word_means_a_name_or_a_kind(tmp_path: Path) -> None:
    """Anything else is answered with what there is."""
    Plan.make(ignite=2, zookeeper=1).write(tmp_path / "cluster.json")
    cluster = Cluster(tmp_path, Places(tmp_path))
    assert [member.name for member in cluster.find("ignite-2")] == ["ignite-2"]
    assert [member.name for member in cluster.find("ignite")] == ["ignite-1", "ignite-2"]
    for word in ("ignite-3", "zookeeper-leader", "spark", "kafka"):
        with pytest.raises(EngineError, match=rf"there is no {word} now; there are zookeeper-1, ignite-1, ignite-2"):
            cluster.find(word)


def test_what_was_never_started_is_stopped(tmp_path: Path) -> None:
    """What has a pid file and no process is dead."""
    Plan.make(zookeeper=1, kafka=1).write(tmp_path / "cluster.json")
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "pid").write_text(json.dumps([os.getpid(), 1, "another boot"]))
    states = {one.member.name: (one.state, one.pid) for one in Cluster(tmp_path, Places(tmp_path)).status()}
    assert states == {"zookeeper-1": ("stopped", None), "kafka": ("dead", None)}
