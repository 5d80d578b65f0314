"""Commands from a real Kafka to MQTT devices through a served broker: once, over kills of both, and what is refused.

``COMMANDS`` and ``DEVICES`` make the crowd larger; ``KILL_SEED`` repeats a run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import Counter
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from systemkit.durable import DurableClient
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import StartBroker
from systemkit.waiting import all_connected, run_all, stop_all, wait_until

from tests.enginekit.kafka import KafkaServer

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto knows no commands")

COMMANDS = int(os.environ.get("COMMANDS", "300"))
DEVICES = int(os.environ.get("DEVICES", "10"))
FINAL = {"acked", "failed", "expired", "uncertain"}
PARTITIONS = 3
#: From trouble to an alarm.
TELL_SECONDS = 20.0
BAD = (b"not JSON", b'{"target": 5}', b'{"target": "d0/x", "boby": 1}', b'{"target": "nobody"}', b'{"target": "#"}')


class Topics:
    """Of one test: its commands, its dead letters, its group."""

    def __init__(self, kafka: KafkaServer) -> None:
        self.kafka = kafka
        name = uuid4().hex[:8]
        self.commands, self.dead, self.states = f"commands.{name}", f"dead.{name}", f"states.{name}"
        self.group = f"group-{name}"
        kafka.make_topic(self.commands, PARTITIONS)
        kafka.make_topic(self.dead, 1)
        kafka.make_topic(self.states, 1)
        self._producer = Producer({"bootstrap.servers": kafka.address})
        #: By partition, the names of commands in the order of their offsets; "" is a bad one.
        self.names: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}

    @property
    def settings(self) -> dict[str, object]:
        return {
            "uplink.kind": "kafka",
            "uplink.kafka.bootstrap_servers": f"[{self.kafka.address}]",
            "uplink.rules": f"[{{filter: status/#, to: {self.states}}}]",
            "uplink.commands.topic": self.commands,
            "uplink.commands.group": self.group,
            "uplink.commands.dead_letters": self.dead,
            "mqtt.sys_interval": 0,
            "listeners.gateway.enabled": "false",
        }

    def write(self, value: object, key: str = "", name: str = "", age: float = 0.0) -> None:
        """One record; bytes are written as they are."""
        data = value if isinstance(value, bytes) else json.dumps(value).encode()

        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset == len(self.names[partition])
            self.names[partition].append(name)

        written = round((time.time() - age) * 1000)
        self._producer.produce(self.commands, data, key.encode(), timestamp=written, on_delivery=delivered)

    def flush(self) -> None:
        assert self._producer.flush(30) == 0

    def kept(self) -> dict[int, int]:
        """The positions of the group."""
        consumer = Consumer({"bootstrap.servers": self.kafka.address, "group.id": self.group})
        try:
            asked = [TopicPartition(self.commands, partition) for partition in range(PARTITIONS)]
            return {one.partition: max(0, one.offset) for one in consumer.committed(asked, timeout=10)}
        finally:
            consumer.close()

    def settled(self) -> bool:
        return self.kept() == {partition: len(names) for partition, names in self.names.items()}


@pytest.fixture
def topics(kafka: KafkaServer) -> Topics:
    return Topics(kafka)


def call(broker: BrokerProcess, path: str) -> Any:
    token = (broker.data_dir / "admin.token").read_text().strip()
    return json.loads(broker.http(f"/api/v1/{path}", token=token))


def everything(broker: BrokerProcess) -> dict[str, dict[str, Any]]:
    """All commands by id."""
    found: dict[str, dict[str, Any]] = {}
    after = ""
    while True:
        page = call(broker, f"commands?limit=1000{after}")
        found |= {one["id"]: one for one in page["items"]}
        if page["after"] is None:
            return found
        after = f"&after={page['after']}"


def reading(broker: BrokerProcess) -> bool:
    """It has its partitions."""
    return len(call(broker, "uplink/commands")["partitions"]) == PARTITIONS


def alarmed(broker: BrokerProcess) -> bool:
    return any("commands" in alarm for alarm in json.loads(broker.http("/health")).get("alarms", ()))


class Crowd:
    """Devices that are there all the time, and what they got."""

    def __init__(self, port: int) -> None:
        self.came: Counter[str] = Counter()
        self.order: dict[str, list[str]] = {}
        self.devices = [
            DurableClient(f"d{number}", port, version=5, filters=((f"down/d{number}/#", 1),), on_delivery=self._came)
            for number in range(DEVICES)
        ]
        self._running: list[asyncio.Task[None]] = []

    def _came(self, device: str, topic: str, payload: bytes) -> None:
        name = json.loads(payload)["name"]
        self.came[name] += 1
        self.order.setdefault(device, []).append(name)

    async def __aenter__(self) -> Crowd:
        self._running = run_all(self.devices)
        await all_connected(self.devices)
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop_all(self._running)


async def _load(broker: BrokerProcess, topics: Topics, dice: random.Random, crowd: Crowd) -> dict[int, int]:
    """Commands, bad records between them, a kill in the middle; the positions that Kafka had then."""
    async with crowd:
        begun = COMMANDS // 3
        await asyncio.to_thread(_write, topics, range(begun))
        await asyncio.to_thread(wait_until, lambda: sum(topics.kept().values()) > 0, 30)
        sending = asyncio.create_task(asyncio.to_thread(_write, topics, range(begun, COMMANDS), 0.02))
        while len(crowd.came) < begun + 50:  # noqa: ASYNC110 - of a client that knows no events
            await asyncio.sleep(0.002)
        await asyncio.sleep(dice.uniform(0, 0.1))
        broker.kill()
        await sending
        kept = await asyncio.to_thread(topics.kept)
        await asyncio.to_thread(broker.start)
        await asyncio.to_thread(wait_until, topics.settled, 60)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = await asyncio.to_thread(everything, broker)
            if all(one["state"] in FINAL for one in found.values()):
                break
            await asyncio.sleep(0.2)
        await asyncio.sleep(0.5)
    return kept


def _write(topics: Topics, which: range, pause: float = 0.0) -> None:
    """So many commands, half of them with ids, and a bad record now and then; 20 at a time."""
    each = COMMANDS // len(BAD)
    for number in which:
        name, device = f"c{number}", f"d{number % DEVICES}"
        order: dict[str, object] = {"target": f"{device}/x", "body": {"name": name}}
        if number % 2:
            order["id"] = name
        topics.write(order, device, name)
        if number % each == 7:
            topics.write(BAD[number // each], device)
        if number % 20 == 19:
            topics.flush()
            time.sleep(pause)
    topics.flush()


@pytest.mark.timeout(300)
def test_each_command_arrives_once_over_a_kill(start_broker: StartBroker, topics: Topics) -> None:
    """Hundreds, with ids and without, kill -9 in the middle: once each or openly uncertain; bad ones are buried."""
    seed = int(os.environ.get("KILL_SEED", random.SystemRandom().randrange(1_000_000)))
    broker = start_broker(settings=topics.settings)
    wait_until(lambda: reading(broker), 30)
    crowd = Crowd(broker.ports["mqtt"])
    kept = asyncio.run(_load(broker, topics, random.Random(seed), crowd))
    info = call(broker, "uplink/commands")
    found = everything(broker)
    by_name = {json.loads(call(broker, f"commands/{name}")["body"])["name"]: one for name, one in _real(found)}
    states = Counter(one["state"] for one in by_name.values())
    print(
        f"KILL_SEED={seed} kept at the kill: {kept}; then {info['received']} read, {info['repeated']} repeated",
        dict(states),
    )
    assert len(_real(found)) == COMMANDS, "a record became two commands"
    assert by_name.keys() == {f"c{number}" for number in range(COMMANDS)}, "a command is nowhere"
    assert 0 < sum(kept.values()) < COMMANDS, "the kill did not come in the middle"
    assert info["repeated"] > 0 or info["received"] <= COMMANDS
    for name, one in by_name.items():
        times = crowd.came[name]
        assert one["state"] in ("acked", "uncertain"), (name, one)
        assert times == 1 or (times == 0 and one["state"] == "uncertain"), (name, times, one)
    for device, names in crowd.order.items():
        positions = [int(name[1:]) for name in names]
        assert positions == sorted(positions), f"{device}: out of order"
    buried = topics.kafka.read_all(topics.dead)
    assert {one.value for one in buried} == set(BAD)
    reasons = {one.value: dict(one.headers)["reason"].decode() for one in buried}
    assert reasons[b"not JSON"] == "the body is not JSON"
    assert "has no session here" in reasons[b'{"target": "nobody"}']


def _real(found: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Without the one that was for nobody."""
    return [(name, one) for name, one in found.items() if one["target"] != "nobody"]


def _device(broker: BrokerProcess, name: str) -> Plain:
    device = Plain(broker.ports["mqtt"], version=5)
    device.connect(name, clean=False, expiry=3600)
    device.subscribe((f"down/{name}/#", 1))
    return device


def test_a_command_that_has_waited_too_long_is_not_sent(start_broker: StartBroker, topics: Topics) -> None:
    """Its deadline counts from when it was written; it is told expired, and states go up to Kafka by a rule."""
    broker = start_broker(settings=topics.settings)
    wait_until(lambda: reading(broker), 30)
    with _device(broker, "d1") as device:
        topics.write({"target": "d1/x", "id": "late", "body": "late", "expires_in": 30}, age=600)
        topics.write({"target": "d1/x", "id": "good", "body": "good", "expires_in": 30}, age=5)
        topics.flush()
        assert device.expect_publication().payload == b"good"
    assert call(broker, "commands/late")["state"] == "expired"

    def told() -> set[tuple[str, str]]:
        states = [json.loads(one.value or b"")["payload"] for one in topics.kafka.read_all(topics.states)]
        return {(state["id"], state["state"]) for state in states}

    wait_until(lambda: {("late", "expired"), ("good", "queued"), ("good", "sent")} <= told(), 10)


@pytest.mark.timeout(180)
def test_a_kafka_that_is_away_costs_nothing_but_time(start_broker: StartBroker, topics: Topics) -> None:
    """Ready without it, an alarm within five seconds, killed once more and back: all commands arrive."""
    kafka = topics.kafka
    kafka.kill()
    broker = start_broker(settings=topics.settings)
    print(f"ready {broker.started_in:.1f} s after the start, without Kafka")
    took = wait_until(lambda: alarmed(broker), TELL_SECONDS)
    print(f"told after {took:.1f} s: {call(broker, 'uplink/commands')['trouble']}")
    kafka.start()
    wait_until(lambda: reading(broker) and not alarmed(broker), 30)
    with _device(broker, "d1") as device:
        topics.write({"target": "d1/x", "body": "first"})
        topics.flush()
        assert device.expect_publication().payload == b"first"
        kafka.kill()
        took = wait_until(lambda: alarmed(broker), TELL_SECONDS)
        print(f"told after {took:.1f} s: {call(broker, 'uplink/commands')['trouble']}")
        kafka.start()
        topics.write({"target": "d1/x", "body": "second"})
        topics.flush()
        began = time.monotonic()
        assert device.expect_publication().payload == b"second"
        print(f"there {time.monotonic() - began:.1f} s after Kafka was")
    wait_until(lambda: not alarmed(broker), 30)
    metrics = broker.metrics()
    assert metrics is not None
    assert (metrics["iot_mqtt_inbox_alarm"], metrics["iot_mqtt_inbox_accepted_commands_total"]) == (0.0, 2.0)
    # Its last positions are kept for a second at most when it stops, and Kafka has just started.
    wait_until(topics.settled, 30)
    assert broker.terminate() == 0
