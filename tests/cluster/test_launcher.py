"""``iot-mqtt cluster``: real servers started, shown, killed, started again and stopped from the command line."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import BrokerProcess, Options

from iot_mqtt.app.engines import Cluster, EngineError, Places, Plan
from iot_mqtt.app.engines.life import Life
from tests.cluster.conftest import StartServers
from tests.cluster.engines import CommandLine, command_line
from tests.contract import child
from tests.enginekit.servers import Server, Servers, running


def eventually(true: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def lives(folder: Path) -> list[Life]:
    """The processes that the pid files of a cluster speak of."""
    return [life for file in folder.glob("*/pid") if (life := Life.read(file))]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """Two Ignite servers and a ZooKeeper server, started by ``cluster up``."""
    with command_line(tmp_path_factory.mktemp("launcher") / "cluster") as command:
        command("up", "--nodes", "2", "--zookeeper", "1", "--no-kafka", "--memory")
        yield command


def test_up_writes_what_a_broker_needs(cluster: CommandLine) -> None:
    """Addresses, gateways, token and ZooKeeper, readable by the owner only."""
    status = cluster.status()
    written = yaml.safe_load(cluster.broker_file.read_text())
    grid = written["grid"]["ignite"]
    assert written["grid"]["kind"] == "ignite"
    assert grid["addresses"] == [f"127.0.0.1:{status[name]['ports']['client']}" for name in ("ignite-1", "ignite-2")]
    assert grid["gateway"] == [f"127.0.0.1:{status[name]['ports']['gateway']}" for name in ("ignite-1", "ignite-2")]
    assert len(grid["token"]) == 32
    assert written["registry"]["kind"] == "zookeeper"
    assert written["registry"]["zookeeper"]["hosts"] == [f"127.0.0.1:{status['zookeeper-1']['ports']['client']}"]
    assert "uplink" not in written
    assert stat.S_IMODE(cluster.broker_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(cluster.folder.stat().st_mode) == 0o700


def test_servers_have_their_classes_from_archives(cluster: CommandLine) -> None:
    """Java takes one that does not fit for none, and says nothing: it must be seen that it is there."""
    places = Places.find()
    for name, status in cluster.status().items():
        mapped = Path(f"/proc/{status['pid']}/maps").read_text()
        assert str(places.archive(name.partition("-")[0])) in mapped


def test_status_shows_what_each_server_is(cluster: CommandLine) -> None:
    """As JSON for programs and as a table for people."""
    status = cluster.status()
    keys = ("state", "role", "sees", "copies_missing")
    assert {name: tuple(item[key] for key in keys) for name, item in status.items()} == {
        "zookeeper-1": ("running", "standalone", None, None),
        "ignite-1": ("running", "server", 2, 0),
        "ignite-2": ("running", "server", 2, 0),
    }
    lines = cluster("status").splitlines()
    assert lines[0].split() == ["NAME", "STATE", "ROLE", "SEES", "MISSING", "PID", "PORTS"]
    assert [line.split()[0] for line in lines[1:]] == list(status)


def test_the_token_is_in_nobodys_list_of_processes(cluster: CommandLine) -> None:
    """It reaches Java in a file."""
    token = yaml.safe_load(cluster.broker_file.read_text())["grid"]["ignite"]["token"]
    for name, pid in cluster.pids().items():
        assert token not in Path(f"/proc/{pid}/cmdline").read_text(), name


def test_up_again_starts_nothing(cluster: CommandLine) -> None:
    """It says what runs, and prints what a broker needs once more."""
    before = cluster.pids()
    said = cluster("up")
    assert said.startswith("running already: zookeeper-1, ignite-1, ignite-2\n")
    assert f"--config {cluster.broker_file} --set node.id=node-1" in said
    assert "--set 'grid.kind=ignite'" in said
    assert cluster.pids() == before


def test_up_does_not_make_another_cluster_of_one_that_is_there(cluster: CommandLine) -> None:
    """Nobody's data is taken for other data."""
    before = cluster.pids()
    refused = cluster.run("up", "--nodes", "3")
    assert refused.returncode == 1
    assert "has another cluster (ignite x2, zookeeper x1)" in refused.stderr
    assert cluster.pids() == before


def test_a_killed_server_is_dead_until_it_is_started_again(cluster: CommandLine) -> None:
    """On the same ports, and back among the others."""
    before = cluster.status()
    assert cluster("kill", "ignite-2") == "SIGKILL to ignite-2\n"
    killed = cluster.status()["ignite-2"]
    assert (killed["state"], killed["alive"], killed["pid"]) == ("dead", False, None)
    assert cluster.run("kill", "ignite-2").returncode == 1
    cluster("start", "ignite-2")
    after = cluster.status()
    assert (after["ignite-2"]["state"], after["ignite-2"]["sees"]) == ("running", 2)
    assert after["ignite-2"]["ports"] == before["ignite-2"]["ports"]
    assert after["ignite-1"]["pid"] == before["ignite-1"]["pid"]
    assert cluster("start") == "running already\n"


def test_a_stopped_server_is_silent_until_it_continues(cluster: CommandLine) -> None:
    """``--signal STOP``, then ``--signal CONT``; by role, as ``zookeeper-standalone``."""
    cluster("kill", "zookeeper-standalone", "--signal", "STOP")
    assert cluster.status()["zookeeper-1"]["state"] == "paused"
    cluster("kill", "zookeeper-1", "--signal", "CONT")
    assert cluster.status()["zookeeper-1"]["state"] == "running"


def test_a_word_that_means_no_server_is_answered_with_those_that_there_are(cluster: CommandLine) -> None:
    """And exit code 1."""
    wrong = cluster.run("kill", "ignite-7")
    assert wrong.returncode == 1
    assert "there are zookeeper-1, ignite-1, ignite-2" in wrong.stderr


def test_down_ends_every_process_and_up_finds_the_ports_again(cluster: CommandLine) -> None:
    """Stopped is not dead: nobody expects them to run."""
    ports = {name: item["ports"] for name, item in cluster.status().items()}
    processes = lives(cluster.folder)
    assert len(processes) == 3
    logs = [cluster.folder / name / f"{name}.log" for name in ("ignite-1", "ignite-2")]
    before = [log.stat().st_size for log in logs]
    assert cluster("down") == "stopped: zookeeper-1, ignite-1, ignite-2\n"
    for log, size in zip(logs, before, strict=True):
        assert not re.search(r"(WARN|ERROR) iotmqtt", log.read_text(errors="replace")[size:]), "nobody need worry"
    assert not any(life.alive for life in processes)
    status = cluster.status()
    assert {item["state"] for item in status.values()} == {"stopped"}
    assert {name: item["ports"] for name, item in status.items()} == ports
    assert cluster("down") == "nothing was running\n"


def test_ctrl_c_leaves_what_was_started_and_an_ensemble_elects_another_leader(tmp_path: Path) -> None:
    """The second ``up`` finds the servers of the first; ``kill zookeeper-leader`` is followed by an election. Three
    ZooKeeper servers are what there is unless told otherwise.
    """
    with command_line(tmp_path / "cluster") as cluster:
        options = ("--nodes", "1", "--no-kafka", "--memory")
        interrupted = subprocess.Popen(
            cluster.arguments("up", *options), start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert eventually(lambda: len(lives(cluster.folder)) == 4)
        os.killpg(interrupted.pid, signal.SIGINT)
        interrupted.communicate()
        assert interrupted.returncode != 0
        processes = lives(cluster.folder)
        assert all(life.alive for life in processes)

        cluster("up")
        assert lives(cluster.folder) == processes

        def leaders() -> list[str]:
            return [name for name, item in cluster.status().items() if item["role"] == "leader"]

        assert eventually(lambda: len(leaders()) == 1)
        (first,) = leaders()
        assert cluster("kill", "zookeeper-leader") == f"SIGKILL to {first}\n"
        assert eventually(lambda: len(leaders()) == 1)
        assert leaders() != [first]
        cluster("start", first)
        assert cluster.status()[first]["role"] == "follower"


def test_servers_of_a_killed_test_session_are_killed(tmp_path: Path) -> None:
    """By the kernel, so that not even SIGKILL of the session leaves one behind."""
    session = subprocess.Popen(child.command("tests.cluster.session", str(tmp_path)), stdout=subprocess.PIPE)
    try:
        assert session.stdout is not None and session.stdout.readline() == b"up\n"
        (server,) = lives(tmp_path)
        assert server.alive
    finally:
        session.kill()
        session.communicate()
    assert eventually(lambda: not server.alive)


def test_kafka_comes_back_after_a_kill(kafka: Server) -> None:
    """It answers for metadata as broker and controller, on the data of before."""
    assert kafka.role == "controller"
    kafka.restart()
    assert kafka.role == "controller"


def test_a_persistent_grid_is_active_after_its_first_start_and_its_second(start_servers: StartServers) -> None:
    """The launcher activates it when all of its servers are there."""
    servers = start_servers(ignite=1, persistence=True)
    assert [server.role for server in servers.ignite] == ["server"]
    servers.ignite[0].restart()
    assert [server.role for server in servers.ignite] == ["server"]


def test_what_a_test_breaks_is_mended_for_the_next_one(ignites: Servers) -> None:
    """Killed servers run again, and paused ones are replaced."""
    one, other = ignites.ignite
    one.kill()
    ignites.heal()
    assert [one.role, other.role] == ["server", "server"]


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    """The end of its log is in the error, and what was started beside it is ended."""
    data = tmp_path / "zookeeper-1" / "data"
    data.mkdir(parents=True)
    (data / "version-2").write_text("a file where ZooKeeper wants a directory")
    with (
        pytest.raises(EngineError, match=r"(?s)zookeeper-1 ended instead of getting ready.*version-2"),
        running(tmp_path, zookeeper=1, kafka=1),
    ):
        pass
    assert not any(life.alive for life in lives(tmp_path))


def test_a_port_that_somebody_else_has_is_named(tmp_path: Path) -> None:
    """With the way out."""
    cluster = Cluster(tmp_path, Places.find(), die_with_parent=True)
    plan = Plan.make(zookeeper=1)
    port = plan.members[0].ports["client"]
    with socket.create_server(("127.0.0.1", port)), pytest.raises(EngineError, match=f"port {port} .client of zook"):
        cluster.up(plan)


def test_what_goes_up_is_in_the_kafka_that_up_has_started(tmp_path: Path) -> None:
    """A broker with the file that ``up`` has written, and nothing else about an uplink. It has no alarm: commands are
    read, too.
    """
    with command_line(tmp_path / "cluster") as cluster:
        cluster("up", "--nodes", "1", "--zookeeper", "1", "--kafka", "--memory")
        written = yaml.safe_load(cluster.broker_file.read_text())
        address = f"127.0.0.1:{cluster.status()['kafka']['ports']['client']}"
        assert written["uplink"] == {"kind": "kafka", "kafka": {"bootstrap_servers": [address]}}
        broker = BrokerProcess(tmp_path / "broker", Options(settings={"node.id": "node-1", "mqtt.sys_interval": 0}))
        # Which a broker reads where it is started.
        broker.folder.mkdir()
        (broker.folder / "application.yaml").write_bytes(cluster.broker_file.read_bytes())
        broker.start()
        try:
            with Plain(broker.ports["mqtt"], version=5) as client:
                client.connect("press-7")
                client.publish("up/press-7/values", b'{"seq": 1}', qos=1, packet_id=1)
                assert client.expect(wire.PUBACK).reason() == 0
            assert json.loads(first_record(address, "iot.readings"))["payload"] == {"seq": 1}
            assert eventually(lambda: len(_api(broker, "uplink/commands")["partitions"]) == 3), "commands are read"
            assert json.loads(broker.http("/health")) == {"status": "ok"}
        finally:
            broker.close()


def _api(broker: BrokerProcess, path: str) -> Any:
    token = (broker.data_dir / "admin.token").read_text().strip()
    return json.loads(broker.http(f"/api/v1/{path}", token=token))


def first_record(address: str, topic: str) -> bytes:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "tests",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.subscribe([topic])
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                return message.value() or b""
        raise AssertionError(f"nothing came to {topic}")
    finally:
        consumer.close()
