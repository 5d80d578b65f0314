"""``uplink.ack: kafka`` with a real Kafka: an acknowledgement says that Kafka has it, and nobody else waits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import StartBroker
from test_uplink_kafka import settings

from tests.enginekit.kafka import KafkaServer

pytestmark = [pytest.mark.skipif(MOSQUITTO, reason="mosquitto has no uplink"), pytest.mark.timeout(300)]

#: So long a hanging Kafka is given to do what it must not do.
SILENCE = 2.0


@pytest.fixture
def topic(kafka: KafkaServer) -> str:
    return kafka.make_topic(f"ack-{time.time_ns()}", 1)


@pytest.fixture
def broker(start_broker: StartBroker, kafka: KafkaServer, topic: str) -> BrokerProcess:
    return start_broker(settings=settings(kafka, topic) | {"uplink.ack": "kafka"})


def arrived(kafka: KafkaServer, topic: str) -> list[object]:
    return [json.loads(one.value or b"")["payload"] for one in kafka.read_all(topic)]


def hanging(kafka: KafkaServer, during: Callable[[], None]) -> None:
    """Kafka stands still meanwhile, whatever comes of it."""
    kafka.stop()
    try:
        during()
    finally:
        kafka.cont()


@pytest.mark.parametrize(("qos", "answer"), [(1, wire.PUBACK), (2, wire.PUBREC)])
def test_what_is_acknowledged_is_in_kafka(
    broker: BrokerProcess, kafka: KafkaServer, topic: str, qos: int, answer: int
) -> None:
    """Not before, and at once after; who publishes something else, on another connection, does not wait."""
    with Plain(broker.ports["mqtt"], version=5) as client, Plain(broker.ports["mqtt"], version=5) as other:
        client.connect("w")
        other.connect("other")
        for number in range(20):
            client.publish("up/w", b"%d" % number, qos=qos, packet_id=number + 1)
            assert client.expect(answer).reason() == 0
            assert arrived(kafka, topic)[-1] == number

        def publish() -> None:
            client.publish("up/w", b"20", qos=qos, packet_id=21)
            other.publish("elsewhere", b"", qos=1, packet_id=1)
            other.expect(wire.PUBACK)
            client.expect_silence(SILENCE)

        hanging(kafka, publish)
        assert client.expect(answer).reason() == 0
    assert arrived(kafka, topic) == list(range(21))


def test_a_broker_that_dies_meanwhile_has_acknowledged_nothing(
    broker: BrokerProcess, kafka: KafkaServer, topic: str
) -> None:
    """What the log had goes up all the same; what the client sends again may be there twice, and is never missing."""

    def die() -> None:
        with Plain(broker.ports["mqtt"], version=5) as client:
            client.connect("w")
            for number in range(5):
                client.publish("up/w", b"%d" % number, qos=1, packet_id=number + 1)
            client.expect_silence(SILENCE)
            broker.kill()
        broker.start()

    hanging(kafka, die)
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect("w")
        for number in range(5):
            client.publish("up/w", b"%d" % number, qos=1, packet_id=number + 1)
            assert client.expect(wire.PUBACK).reason() == 0
    found = arrived(kafka, topic)
    assert list(dict.fromkeys(found)) == list(range(5))
    assert len(found) <= 10
