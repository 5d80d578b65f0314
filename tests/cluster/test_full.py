"""The grid runs full, in memory or on its disk: what is oldest makes room, whoever waits goes on, and a node starts."""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from systemkit import wire
from systemkit.plain import Plain
from systemkit.why import named

from iot_mqtt.app.engines import Places, Plan
from tests.cluster.nodes import BrokerNode, broker_settings, eventually
from tests.enginekit.servers import keeping
from tests.enginekit.smalldisk import small_disk, small_disks

MIB = 1 << 20
REGION_MB = 72
#: Bytes of a message, and how many are sent before their answers are read.
PAYLOAD = 64 * 1024
WINDOW = 8
QUOTA_EXCEEDED = 0x97
#: Without an answer for so long, a publisher is stuck.
PATIENCE = 20.0
#: Unlike each other: nothing of it can be kept once for several.
NOISE = random.Random(16).randbytes(PAYLOAD * 2)


#: Times that it is filled to the brim; the campaign does it ten times.
FILLS = int(os.environ.get("FULL_FILLS", "1"))
#: From the room to what is taken again.
RECOVERY_SECONDS = 30.0
#: Of servers with persistence; most of it is for their log of changes.
DISK_BYTES = 600 * MIB
#: Of a node that has its grid in its own process; and what it leaves alone.
OWN_DISK_BYTES = 160 * MIB
OWN_RESERVE = 48 * MIB
WAL_ARCHIVE = f"-Diot.ignite.wal.archive.bytes={96 * MIB}"


@contextmanager
def _on_ignite(folder: Path, plan: Plan) -> Iterator[BrokerNode]:
    """One node on one Ignite server whose room is small; everything else is as it is by default."""
    told = {**broker_settings(plan), "registry.kind": "static", "registry.static.nodes": json.dumps(["node-1"])}
    node = BrokerNode(folder / "node-1", "node-1", told)
    with keeping(folder / "servers", Places.find(), plan), _running(node):
        yield node


@contextmanager
def _running(node: BrokerNode) -> Iterator[BrokerNode]:
    try:
        node.start(timeout=2 * RECOVERY_SECONDS)
        yield node
    except BaseException:
        node.reap()
        raise
    node.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerNode]:
    """A node whose grid is in memory."""
    with _on_ignite(tmp_path_factory.mktemp("full"), replace(Plan.make(ignite=1), region_mb=REGION_MB)) as node:
        yield node


@pytest.fixture
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerNode]:
    """The same; or one whose grid is on a small disk, that of its server or its own."""
    if request.param == "memory":
        yield request.getfixturevalue("node")
    elif request.param == "embedded":
        node = BrokerNode(tmp_path / "node-1", "node-1", {"log.disk_reserve": OWN_RESERVE, "mqtt.sys_interval": 0})
        with small_disk(node.data_dir, OWN_DISK_BYTES), _running(node):
            yield node
    else:
        plan = replace(Plan.make(ignite=1, persistence=True), region_mb=96)
        with small_disks(tmp_path / "java", DISK_BYTES, WAL_ARCHIVE), _on_ignite(tmp_path, plan) as node:
            yield node


class Publisher:
    """Publishes at QoS 1, some at a time, and counts what became of it."""

    def __init__(self, node: BrokerNode, name: str) -> None:
        self.acked: list[int] = []
        self.refused = 0
        self._numbers = itertools.count(1)
        self._client = Plain(node.port, version=5, timeout=PATIENCE)
        self._client.connect(name)

    def send(self, topic: str, *, retain: bool = False, payload: bytes | None = None) -> int:
        """A window of messages, ``{}`` of the topic is their number; how many were taken."""
        numbers = [next(self._numbers) for _ in range(WINDOW)]
        for number in numbers:
            at = number * 61 % PAYLOAD
            data = b"%010d" % number + NOISE[at : at + PAYLOAD] if payload is None else payload
            self._client.publish(topic.format(number), data, qos=1, packet_id=number % 60_000 + 1, retain=retain)
        before = len(self.acked)
        for number in numbers:
            reason = self._client.expect(wire.PUBACK).reason()
            assert reason in (0, 0x10, QUOTA_EXCEEDED), f"{reason:#x}"
            if reason == QUOTA_EXCEEDED:
                self.refused += 1
            else:
                self.acked.append(number)
        return len(self.acked) - before


def test_the_oldest_messages_make_room_for_newer_ones(node: BrokerNode) -> None:
    """A session that is away for long is owed more than the grid can hold: it gets what is newest, all others go on."""
    with Plain(node.port, version=5) as keeper:
        keeper.connect("keeper", clean=False, expiry=3600)
        keeper.subscribe(("up/#", 1))
        keeper.disconnect()
    publisher = Publisher(node, "flood")
    began = time.monotonic()
    while len(publisher.acked) * PAYLOAD < 3 * REGION_MB * MIB:
        assert time.monotonic() - began < 120, f"{len(publisher.acked)} were taken, {publisher.refused} refused"
        if publisher.send("up/flood") < WINDOW:
            time.sleep(0.05)
    session = node.api("sessions/keeper")
    assert session["backlog"] + sum(session["dropped"].values()) == len(publisher.acked)
    assert session["backlog"] * PAYLOAD > REGION_MB * MIB // 4
    with Plain(node.port, version=5) as keeper:
        keeper.connect("keeper", clean=False, expiry=3600, receive_maximum=10)
        first = keeper.expect_publication()
        # Or a newer one, if another generation has made room since the question.
        assert int(first.payload[:10]) >= publisher.acked[-session["backlog"]]


def _fill(publisher: Publisher, topic: str) -> None:
    """Retain messages until nothing of several windows is taken: the log of before makes what room it can meanwhile."""
    refused = 0
    while refused < 6:
        assert len(publisher.acked) < 4 * REGION_MB * MIB // PAYLOAD
        if publisher.send(topic, retain=True):
            refused = 0
        else:
            refused += 1
            time.sleep(0.5)


def _retained(node: BrokerNode, count: int) -> set[str]:
    """The topics of so many retained messages, as a newcomer gets them."""
    found: set[str] = set()
    with Plain(node.port, version=5, timeout=PATIENCE) as reader:
        reader.connect("reader")
        reader.send(wire.subscribe(1, [("kept/#", 1)], version=5))
        while len(found) < count:
            got = reader.receive()
            assert got is not None
            # The answer comes among them.
            if got.kind == wire.PUBLISH:
                message = wire.publication(got, 5)
                reader.send(wire.ack(wire.PUBACK, message.packet_id))
                found.add(message.topic)
    return found


def _serve(node: BrokerNode) -> None:
    """A session begins, and gets what is for it."""
    with Plain(node.port, version=5, timeout=PATIENCE) as guest:
        guest.connect("guest", expiry=3600)
        guest.subscribe(("down/#", 1))
        guest.publish("down/line", b"still served")
        assert guest.expect_publication().payload == b"still served"


def _remove(node: BrokerNode, topics: set[str]) -> None:
    with Plain(node.port, version=5, timeout=PATIENCE) as cleaner:
        cleaner.connect("cleaner")
        for number, topic in enumerate(sorted(topics), 1):
            cleaner.publish(topic, b"", qos=1, packet_id=number, retain=True)
            assert cleaner.expect(wire.PUBACK).reason() in (0, 0x10)


def _recovers(node: BrokerNode) -> None:
    """It takes as much as before, after a moment."""
    publisher = Publisher(node, "again")
    began = time.monotonic()
    assert eventually(lambda: publisher.send("kept/{}", retain=True) == WINDOW, RECOVERY_SECONDS)
    print(f"taken again {time.monotonic() - began:.1f}s after the last removal")
    assert publisher.send("down/{}") == WINDOW
    _remove(node, {f"kept/{number}" for number in publisher.acked})


@pytest.mark.parametrize("small", ["embedded", "memory", "persistence"], indirect=True)
def test_a_node_starts_and_serves_while_the_grid_is_full(small: BrokerNode) -> None:
    """Retained messages make no room by themselves: publishers are told, sessions are served, removing them goes on.

    The log may have made a little room while the node was away. Whoever comes then is taken, until that is used up.
    """
    for fill in range(FILLS):
        before = Publisher(small, "before")
        _fill(before, f"kept/{fill}/before/{{}}")
        what = "disk" if "log.disk_reserve" in small.options.settings else "grid"
        while not any(alarm.startswith(f"{what} full") for alarm in small.api("status")["alarms"]):
            # It has made some room meanwhile.
            _fill(before, f"kept/{fill}/before/{{}}")
        named(small, "before", f"{what}_full", "is full")

        small.kill()
        small.start(timeout=2 * RECOVERY_SECONDS)

        after = Publisher(small, "after")
        _fill(after, f"kept/{fill}/after/{{}}")
        assert len(after.acked) < len(before.acked) // 2
        kept = {f"kept/{fill}/before/{number}" for number in before.acked}
        kept |= {f"kept/{fill}/after/{number}" for number in after.acked}
        assert _retained(small, len(kept)) == kept
        print(f"full with {len(kept)} acknowledged, all there; {before.refused + after.refused} refused")
        _serve(small)
        _remove(small, kept)
        _recovers(small)
