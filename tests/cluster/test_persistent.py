"""Servers that keep their data on disk: the first start of all at once, and the start after a power loss."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from systemkit import wire
from systemkit.plain import Plain
from twisted.internet.endpoints import TCP4ClientEndpoint

from iot_mqtt.app.engines import Plan
from iot_mqtt.grid.ignite import IgniteGrid, IgniteSettings
from iot_mqtt.pipeline.clock import ReactorClock
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.cluster.engines import CommandLine, command_line
from tests.cluster.nodes import BrokerNode, broker_settings, eventually
from tests.contract.driving import ReactorPump
from tests.contract.ignitekit import address

SERVERS = ("ignite-1", "ignite-2", "ignite-3")
#: Complaints of a gateway in the log of its server that are no noise.
QUIET = 30
#: From when a command says that servers are there to a status that is right.
SETTLED_SECONDS = 10.0
#: From the last start after a power cut of everything to a session that has what it missed.
BACK_SECONDS = 30.0
#: A node's start waits for whatever was started after it, too.
START_SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """Three fresh servers, all started at the same moment; they keep their data unless told otherwise."""
    with command_line(tmp_path_factory.mktemp("persistent") / "cluster") as command:
        command("up", "--nodes", "3", "--zookeeper", "1", "--no-kafka")
        yield command


def settled(cluster: CommandLine) -> bool:
    """Whether each server is soon shown as it is: it runs, sees all, and lacks no copy."""
    deadline = time.monotonic() + SETTLED_SECONDS
    while True:
        status = cluster.status()
        found = [(status[name]["state"], status[name]["sees"], status[name]["copies_missing"]) for name in SERVERS]
        if found == [("running", 3, 0)] * 3:
            return True
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def lines(cluster: CommandLine, name: str) -> list[str]:
    """What it said, all of its lives."""
    return (cluster.folder / name / f"{name}.log").read_text(errors="replace").splitlines()


def test_fresh_servers_become_one_grid(cluster: CommandLine) -> None:
    """Each holds data, none ended on the way, and none asked for what another was asking for."""
    assert settled(cluster)
    for name in SERVERS:
        assert not re.search("another state change|history", "\n".join(lines(cluster, name)))


def test_a_server_that_dropped_out_comes_back_by_itself(cluster: CommandLine) -> None:
    """It stood still until the others gave it up; they need it no more, but it holds data."""
    before = cluster.pids()["ignite-3"]
    cluster("kill", "ignite-3", "--signal", "STOP")
    assert eventually(lambda: cluster.status()["ignite-1"]["sees"] == 2)
    cluster("kill", "ignite-3", "--signal", "CONT")
    assert eventually(lambda: cluster.pids()["ignite-3"] not in (before, None), 40)
    assert eventually(lambda: cluster.status()["ignite-3"]["sees"] == 3, 40)
    assert settled(cluster)


@contextmanager
def opened(cluster: CommandLine) -> Iterator[tuple[IgniteGrid, ReactorPump]]:
    """The grid, as a broker has it."""
    told, pump = yaml.safe_load(cluster.broker_file.read_text())["grid"]["ignite"], ReactorPump()
    settings = IgniteSettings(
        gateways=tuple(map(address, told["gateway"])),
        addresses=tuple(map(address, told["addresses"])),
        token=Path(told["token_file"]).read_text().strip() if "token_file" in told else told["token"],
    )
    grid = IgniteGrid(
        settings,
        pump.cross,
        lambda to, timeout: TCP4ClientEndpoint(pump.reactor, to.host, to.port, timeout),
        ReactorClock(pump.reactor),
    )
    pump.run(grid.open())
    pump.run(grid.identify(20, time.time_ns()))
    try:
        yield grid, pump
    finally:
        pump.run(grid.close())


def acknowledged(cluster: CommandLine) -> list[bytes]:
    """Keys of commits, the last of which was acknowledged a moment ago."""
    keys = [b"kept-%04d" % number for number in range(200)]
    with opened(cluster) as (grid, pump):
        for key in keys:
            batch = WriteBatch()
            for cache in (CacheName.SESSIONS, CacheName.LOG):
                batch.put(cache, key, key * 20)
            pump.run(grid.commit(batch))
    return keys


def test_after_a_power_loss_everything_is_there_again(cluster: CommandLine) -> None:
    """One server comes back first and waits for the others; none is started twice, and the status is right at once.
    What was acknowledged when all of them were killed is there.
    """
    keys = acknowledged(cluster)
    cluster("kill", "ignite")
    alone = cluster.run("start", "ignite-2", "--timeout", "2")
    assert alone.returncode == 1
    assert "ignite-2 is not ready after 2 s" in alone.stderr
    pid = cluster.pids()["ignite-2"]
    said = cluster("start")
    assert "ignite-2 is there" in said
    assert cluster.pids()["ignite-2"] == pid
    assert settled(cluster)
    assert cluster("start") == "running already\n"
    for name in SERVERS:
        assert len([line for line in lines(cluster, name) if " WARN iotmqtt." in line]) < QUIET, name
    with opened(cluster) as (grid, pump):
        for cache in (CacheName.SESSIONS, CacheName.LOG):
            assert pump.run(grid.get_many(cache, keys)) == [key * 20 for key in keys]


def test_after_a_power_cut_of_the_whole_site_all_is_back_by_itself(cluster: CommandLine, tmp_path: Path) -> None:
    """Servers, ZooKeeper and nodes are killed at once and started in any order: nobody has to do anything, and what was
    acknowledged is delivered, once.
    """
    plan = Plan.read(cluster.folder / "cluster.json")
    assert plan is not None
    nodes = [BrokerNode(tmp_path / name, name, broker_settings(plan)) for name in ("node-1", "node-2")]
    try:
        for node in nodes:
            node.start(START_SECONDS)
        with Plain(nodes[0].port, version=5) as reader:
            reader.connect("away", clean=False, expiry=3600)
            reader.subscribe(("site/#", 1))
            reader.disconnect()
        with Plain(nodes[1].port, version=5) as publisher:
            publisher.connect("publisher")
            for number in range(1, 51):
                publisher.publish("site/line", b"%d" % number, qos=1, packet_id=number)
                assert publisher.expect(wire.PUBACK).reason() == 0
        for node in nodes:
            node.kill()
        cluster("kill", "ignite")
        cluster("kill", "zookeeper")

        order = [*SERVERS, "zookeeper-1", "node-1", "node-2"]
        random.shuffle(order)
        with ThreadPoolExecutor(len(nodes)) as starters:
            starting = []
            for name in order:
                if found := [node for node in nodes if node.name == name]:
                    starting.append(starters.submit(found[0].start, START_SECONDS))
                else:
                    cluster.run("start", name, "--timeout", "0")
            began = time.monotonic()
            for one in starting:
                one.result()
        print(f"{order}: nodes serve after {time.monotonic() - began:.1f} s")
        with Plain(nodes[1].port, version=5, timeout=BACK_SECONDS) as reader:
            reader.connect("away", clean=False, expiry=3600)
            found_numbers = []
            for _ in range(50):
                message = reader.expect_publication()
                reader.send(wire.ack(wire.PUBACK, message.packet_id))
                found_numbers.append(int(message.payload))
            reader.expect_silence()
        taken = time.monotonic() - began
        print(f"all is back after {taken:.1f} s")
        assert found_numbers == list(range(1, 51))
        assert taken < BACK_SECONDS
    except BaseException:
        for node in nodes:
            node.reap()
        raise
    for node in nodes:
        node.close()
