"""The uplink into Kafka, with real processes: Kafka dies, hangs, and the node's disk runs full, and nothing is lost.

A full-size run: ``UPLINK_AWAY=120 UPLINK_RATE=2000 pytest tests/system/test_uplink_kafka.py -k away``.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from systemkit import wire
from systemkit.dashboard import CHROMIUM, browse, buildable, person
from systemkit.durable import DurableClient
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess, Options
from systemkit.smalldisk import MIB, SmallDiskBroker
from systemkit.starting import StartBroker
from systemkit.waiting import AIR, wait_until
from systemkit.why import named

from tests.enginekit.kafka import KafkaServer
from tests.otlp import collecting

#: Seconds for which Kafka is away, each time, and messages a second meanwhile.
AWAY = float(os.environ.get("UPLINK_AWAY", "10"))
RATE = int(os.environ.get("UPLINK_RATE", "300"))
PUBLISHERS = 4
#: From trouble to a status that says so.
TELL_SECONDS = 20.0
#: An acknowledgement takes so long at most, Kafka or no Kafka.
ACK_SECONDS = 5.0

pytestmark = [
    pytest.mark.skipif(MOSQUITTO, reason="mosquitto has no uplink"),
    pytest.mark.timeout(180 + 8 * AWAY),
]


def settings(kafka: KafkaServer, topic: str) -> dict[str, object]:
    return {
        "uplink.kind": "kafka",
        "uplink.kafka.bootstrap_servers": kafka.address,
        "uplink.rules": f'[{{filter: "up/#", to: {topic}}}]',
        "uplink.commands.topic": "null",
        "mqtt.sys_interval": 0,
        "listeners.gateway.enabled": "false",
    }


def status(broker: BrokerProcess) -> dict[str, Any]:
    # As the process sees it, whose disk may be its own.
    token = Path(f"/proc/{broker.pid}/root{broker.data_dir}/admin.token").read_text().strip()
    found: dict[str, Any] = json.loads(broker.http("/api/v1/uplink", token=token))
    return found


@dataclass
class Load:
    """Publishers at QoS 1 that number what they publish, and how long acknowledgements take."""

    broker: BrokerProcess
    count: dict[str, int] = field(default_factory=dict)
    acked: dict[str, set[int]] = field(default_factory=dict)
    slowest: float = 0.0
    _sent_at: dict[tuple[str, int], float] = field(default_factory=dict)
    _over: bool = False

    async def run(self) -> None:
        clients = [
            DurableClient(f"p{n}", self.broker.ports["mqtt"], version=5, window=10_000) for n in range(PUBLISHERS)
        ]
        for client in clients:
            client.on_acked(partial(self._acked, client.client_id))
        running = [asyncio.create_task(client.run()) for client in clients]
        try:
            await asyncio.gather(*(client.connected() for client in clients))
            await asyncio.gather(*(self._publish(client) for client in clients))
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        assert [fault for client in clients for fault in client.faults] == []

    async def _publish(self, client: DurableClient) -> None:
        name, began = client.client_id, time.monotonic()
        while not self._over:
            sent = self.count.get(name, 0)
            due = int((time.monotonic() - began) * RATE / PUBLISHERS) - sent
            if due > 0:
                now = time.monotonic()
                self._sent_at.update(((name, number), now) for number in range(sent, sent + due))
                client.publish(f"up/{name}", [b'{"n": %d}' % number for number in range(sent, sent + due)], 1)
                self.count[name] = sent + due
            await asyncio.sleep(0.02)
        async with asyncio.timeout(30):
            while client.pending:  # noqa: ASYNC110 - of a client that knows no events
                await asyncio.sleep(0.02)

    def _acked(self, name: str, payload: bytes) -> None:
        number = json.loads(payload)["n"]
        self.acked.setdefault(name, set()).add(number)
        self.slowest = max(self.slowest, time.monotonic() - self._sent_at.pop((name, number)))

    def stop(self) -> None:
        self._over = True

    def check(self, kafka: KafkaServer, topic: str) -> None:
        """Everything that was acknowledged is in Kafka, in order for each key."""
        found: dict[str, list[int]] = {}
        ids: set[str] = set()
        twice = 0
        for one in kafka.read_all(topic, 120):
            line = json.loads(one.value or b"")
            if line["id"] in ids:
                twice += 1
                continue
            ids.add(line["id"])
            found.setdefault((one.key or b"").decode(), []).append(line["payload"]["n"])
        print(f"{len(ids)} messages, {twice} of them twice; slowest acknowledgement {self.slowest:.2f} s")
        assert found == {name: list(range(count)) for name, count in self.count.items()}
        assert all(self.acked[name] <= set(numbers) for name, numbers in found.items())


@contextmanager
def under_load(broker: BrokerProcess) -> Iterator[Load]:
    """Publishers in a thread of their own: Kafka has to be started in this one, with which it ends."""
    load = Load(broker)
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(lambda: asyncio.run(load.run()))
        try:
            yield load
        finally:
            load.stop()
            running.result()


def _away(broker: BrokerProcess, kafka: KafkaServer) -> None:
    """Kafka is killed, is back, hangs, and goes on."""
    for word, leave, come in (("killed", kafka.kill, kafka.start), ("hanging", kafka.stop, kafka.cont)):
        wait_until(partial(_drained, broker), 30)
        leave()
        began = time.monotonic()
        told = wait_until(lambda: status(broker)["state"] != "ok", TELL_SECONDS)
        print(f"{word}: told after {told:.1f} s: {status(broker)['trouble']}")
        named(broker, "p0", "kafka_down", kafka.address, "messages wait")
        time.sleep(max(0.0, AWAY - (time.monotonic() - began)))
        if word == "hanging":
            named(broker, "p0", "uplink_behind", "messages wait, the oldest for")
        assert int(status(broker)["lag_messages"]) > RATE * AWAY * 0.5, "the load was not what it should be"
        come()
        waiting = int(status(broker)["lag_messages"])
        took = wait_until(lambda: int(status(broker)["lag_messages"]) < RATE, 30 + 2 * AWAY)
        fast = (waiting / took + RATE) / RATE
        print(f"{word}: {waiting} waited, drained in {took:.1f} s, at {fast:.1f} times the input rate")
    wait_until(lambda: status(broker)["state"] == "ok", TELL_SECONDS)


def _drained(broker: BrokerProcess) -> bool:
    return int(status(broker)["lag_messages"]) < max(RATE, 100)


def _empty(broker: BrokerProcess) -> bool:
    return int(status(broker)["lag_messages"]) == 0


def test_kafka_goes_away_twice_and_nothing_is_lost(start_broker: StartBroker, kafka: KafkaServer) -> None:
    """Killed, then hanging: told in time, publishers notice nothing, all of it in order by itself."""
    topic = kafka.make_topic(f"away-{time.time_ns()}", 3)
    broker = start_broker(settings=settings(kafka, topic))
    with under_load(broker) as load:
        time.sleep(2)
        _away(broker, kafka)
    assert load.slowest < ACK_SECONDS + AIR, f"a publisher waited {load.slowest:.1f} s"
    wait_until(partial(_empty, broker), 30)
    load.check(kafka, topic)


def test_a_broker_that_starts_before_kafka_waits_for_it(start_broker: StartBroker, kafka: KafkaServer) -> None:
    """And is killed itself meanwhile: what was acknowledged goes up once Kafka is there."""
    topic = kafka.make_topic(f"late-{time.time_ns()}", 3)
    kafka.kill()
    broker = start_broker(settings=settings(kafka, topic))
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect("w")
        for number in range(50):
            client.publish("up/w", b"%d" % number, qos=1, packet_id=1)
            assert client.expect(wire.PUBACK).reason() == 0
    wait_until(lambda: "cannot be reached" in str(status(broker)["trouble"]), TELL_SECONDS)
    named(broker, "w", "kafka_down", "cannot be reached", "50 messages wait")
    broker.restart()
    kafka.start()
    wait_until(partial(_empty, broker), 20)
    assert [json.loads(one.value or b"")["payload"] for one in kafka.read_all(topic)] == list(range(50))
    wait_until(lambda: json.loads(broker.http("/health")) == {"status": "ok"}, TELL_SECONDS)


def test_topics_have_the_partitions_that_were_said(start_broker: StartBroker, kafka: KafkaServer) -> None:
    """Kafka would make them by itself, with a number of its own; of one that was there another number is told."""
    new, old = f"parts-{time.time_ns()}", kafka.make_topic(f"parts-old-{time.time_ns()}", 2)
    assert new not in kafka.topics()
    more = {
        "uplink.kafka.create_topics": "true",
        "uplink.kafka.partitions": 7,
        "uplink.rules": f'[{{filter: "up/old", to: {old}}}, {{filter: "up/#", to: {new}}}]',
    }
    broker = start_broker(settings=settings(kafka, new) | more)
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect("w")
        for topic in ("up/new", "up/old", "up/new"):
            client.publish(topic, b"1", qos=1, packet_id=1)
            assert client.expect(wire.PUBACK).reason() == 0
    wait_until(partial(_empty, broker), 20)
    assert len(kafka.partitions(new)) == 7 and len(kafka.read_all(new)) == 2
    assert len(kafka.partitions(old)) == 2 and len(kafka.read_all(old)) == 1
    told = [line for line in broker.log_text().splitlines() if "uplink.kafka.partitions" in line]
    assert len(told) == 1 and f"topic {old} has 2 partitions" in told[0]


def test_a_traced_record_has_its_context_as_a_header(start_broker: StartBroker, kafka: KafkaServer) -> None:
    """Which is that of the span that a collector is told of; a record of another client has none."""
    topic = kafka.make_topic(f"traced-{time.time_ns()}", 1)
    with collecting() as collector:
        traces = {
            "telemetry.traces.enabled": "true",
            "telemetry.traces.endpoint": collector.url,
            "telemetry.traces.clients": '["press-*"]',
        }
        broker = start_broker(settings=settings(kafka, topic) | traces)
        for name in ("other", "press-1"):
            with Plain(broker.ports["mqtt"], version=5) as client:
                client.connect(name)
                client.publish("up/w", b"1", qos=1, packet_id=1)
                assert client.expect(wire.PUBACK).reason() == 0
        wait_until(lambda: collector.named("send"), TELL_SECONDS)
        (send,), (receive,) = collector.named("send"), collector.named("receive")
        assert (send.trace_id, send.parent_span_id) == (receive.trace_id, receive.span_id)
        said = [dict(one.headers).get("traceparent") for one in kafka.read_all(topic)]
        assert said == [None, f"00-{send.trace_id.hex()}-{send.span_id.hex()}-01".encode()]


@pytest.mark.skipif(CHROMIUM is None or not buildable(), reason="no Chromium, or scripts/setup.sh web has not run")
def test_the_dashboard_shows_what_kafka_rejects_and_that_it_hangs(
    start_broker: StartBroker, kafka: KafkaServer
) -> None:
    """The record with its reason, and the alarm."""
    topic = kafka.make_topic(f"small-{time.time_ns()}", 1, max_message_bytes=20_000)
    dead = kafka.make_topic(f"dead-{time.time_ns()}", 1)
    broker = start_broker(settings=settings(kafka, topic) | {"uplink.kafka.dead_letters": dead})
    # What cannot be compressed below the topic's limit.
    _published(broker, b"1", random.Random(1).randbytes(40_000), b"2")
    wait_until(lambda: int(status(broker)["dead"]) == 1, TELL_SECONDS)
    seen = {**person(broker, "eve"), "topic": topic, "dead": dead}
    kafka.stop()
    try:
        _published(broker, b"3")
        wait_until(lambda: status(broker)["state"] != "ok", TELL_SECONDS)
        browse("kafka", seen)
    finally:
        kafka.cont()


def _published(broker: BrokerProcess, *payloads: bytes) -> None:
    """At QoS 1, each acknowledged."""
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect("w")
        for payload in payloads:
            client.publish("up/w", payload, qos=1, packet_id=1)
            assert client.expect(wire.PUBACK).reason() == 0


@pytest.fixture
def small_broker(tmp_path: Path, kafka: KafkaServer) -> Iterator[tuple[SmallDiskBroker, str]]:
    """A broker on a small disk, and its topic."""
    topic = kafka.make_topic(f"full-{time.time_ns()}", 3)
    more = {"log.disk_reserve": 16 * MIB}
    broker = SmallDiskBroker(tmp_path / "broker", Options(settings=settings(kafka, topic) | more))
    broker.start()
    try:
        yield broker, topic
    except BaseException:
        broker.reap()
        raise
    broker.close()


def test_kafka_is_away_until_the_disk_is_full(small_broker: tuple[SmallDiskBroker, str], kafka: KafkaServer) -> None:
    """Publishers are told (0x97) and nothing acknowledged is lost: it drains while the disk is full, too."""
    broker, topic = small_broker
    kafka.stop()
    acked: list[int] = []
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect("w")
        number, refused = 0, 0
        while not refused:
            assert number < 10_000, "it is never full"
            payload = b'{"n": %d, "fill": "%s"}' % (number, random.randbytes(8192).hex().encode())
            client.publish("up/w", payload, qos=1, packet_id=1)
            reason = client.expect(wire.PUBACK).reason()
            assert reason in (0, 0x97)
            if reason == 0:
                acked.append(number)
            else:
                refused += 1
            number += 1
        print(f"full after {len(acked)} messages, {broker.free():,} bytes free")
        wait_until(lambda: status(broker)["state"] == "alarm", TELL_SECONDS)
        named(broker, "w", "disk_full")
        kafka.cont()
        print(f"drained in {wait_until(partial(_empty, broker), 60):.1f} s, with {broker.free():,} bytes free")
        broker.resize(4 * broker.size)
        began = time.monotonic()
        while True:
            client.publish("up/w", b'{"n": %d}' % number, qos=1, packet_id=1)
            if client.expect(wire.PUBACK).reason() == 0:
                break
            assert time.monotonic() - began < 20, "publishers are still refused"
            time.sleep(0.1)
        acked.append(number)
    wait_until(partial(_empty, broker), 20)
    numbers = [json.loads(one.value or b"")["payload"]["n"] for one in kafka.read_all(topic, 60)]
    assert list(dict.fromkeys(numbers)) == acked
