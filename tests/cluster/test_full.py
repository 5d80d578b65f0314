"""The memory of the grid runs full: what is oldest makes room, whoever waits goes on, and a node starts."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from systemkit import wire
from systemkit.plain import Plain
from systemkit.why import named

from iot_mqtt.app.engines import Places, Plan
from tests.cluster.nodes import BrokerNode, broker_settings, eventually
from tests.enginekit.servers import keeping

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


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerNode]:
    """One node on one Ignite server whose memory is small; everything else is as it is by default."""
    folder = tmp_path_factory.mktemp("full")
    plan = replace(Plan.make(ignite=1), region_mb=REGION_MB)
    with keeping(folder / "servers", Places.find(), plan):
        told = {**broker_settings(plan), "registry.kind": "static", "registry.static.nodes": json.dumps(["node-1"])}
        node = BrokerNode(folder / "node-1", "node-1", told)
        try:
            node.start()
            yield node
        except BaseException:
            node.reap()
            raise
        node.close()


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


def test_a_node_starts_and_serves_while_the_grid_is_full(node: BrokerNode) -> None:
    """Retained messages make no room by themselves: publishers are told, sessions are served, removing them goes on."""
    publisher = Publisher(node, "keeper-of-much")
    refused = 0
    while refused < 6:
        assert len(publisher.acked) < 4 * REGION_MB * MIB // PAYLOAD
        if publisher.send("kept/{}", retain=True):
            refused = 0
        else:
            # The log of before makes what room it can.
            refused += 1
            time.sleep(0.5)
    assert any("grid" in alarm for alarm in node.api("status")["alarms"])
    named(node, "keeper-of-much", "grid_full", "bytes are used")

    node.restart(kill=True)

    with Plain(node.port, version=5) as guest:
        guest.connect("guest", clean=False, expiry=3600)
        guest.subscribe(("down/#", 1))
        guest.publish("kept/late", NOISE[:PAYLOAD], qos=1, packet_id=1, retain=True)
        assert guest.expect(wire.PUBACK).reason() == QUOTA_EXCEEDED
    cleaner = Publisher(node, "cleaner")
    while len(cleaner.acked) + cleaner.refused < len(publisher.acked) + publisher.refused:
        cleaner.send("kept/{}", retain=True, payload=b"")
    assert not cleaner.refused
    again = Publisher(node, "again")
    assert eventually(lambda: again.send("kept/{}", retain=True) == WINDOW)
    assert again.send("down/{}") == WINDOW
