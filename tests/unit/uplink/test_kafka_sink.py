"""The Kafka sink with its thread, over a Kafka in memory that ends producers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.uplink import Place, Record
from iot_mqtt.uplink.kafka import outlet, topics
from iot_mqtt.uplink.kafka.settings import KafkaSettings
from iot_mqtt.uplink.kafka.sink import KafkaSink
from tests.contract.driving import Pump
from tests.unit.uplink.kafkakit import Kafka

REFUSED = "Cluster authorization failed"


class Guarded(Kafka):
    """Without rights, each producer ends: the library says so once."""

    def __init__(self, *there: str) -> None:
        super().__init__(*there)
        self.has_rights = False
        self.has_said_so = False

    def make_producer(self, *_: object, **__: object) -> Guarded:
        self.has_said_so = False
        return self

    def poll(self, wait: float) -> None:
        if not (self.has_rights or self.has_said_so):
            self.has_said_so = True
            raise KafkaException(KafkaError(KafkaError._FATAL, REFUSED, fatal=True))


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Guarded:
    """For each producer and admin that is made."""
    kafka = Guarded("iot.readings")
    monkeypatch.setattr(outlet, "make_producer", kafka.make_producer)
    monkeypatch.setattr(topics, "make_admin", lambda _: kafka)
    return kafka


@pytest.fixture
def make(kafka: Guarded) -> Iterator[Callable[[Pump], KafkaSink]]:
    """Sinks, which end with the test."""
    sinks: list[KafkaSink] = []

    def made(pump: Pump) -> KafkaSink:
        sinks.append(KafkaSink(KafkaSettings(("kafka:9092",)), pump.cross, time.monotonic))
        return sinks[-1]

    yield made
    for sink in sinks:
        sink.abandon()


def test_what_is_sent_to_a_sink_that_has_failed_before_comes_back_and_goes_with_the_next_producer(
    kafka: Guarded, make: Callable[[Pump], KafkaSink]
) -> None:
    """Rights that come later are enough: the sender hears that it has to open anew, whenever the producer has ended."""
    pump = Pump()
    sink = make(pump)
    answers: list[BaseException | None] = []

    async def begin() -> None:
        await sink.open(Place("0.0a1b2c3d", 0))

    def send(position: int) -> None:
        sink.send([Record("iot.readings", "k", b"%d" % position, (), 0, position)], answers.append)

    pump.run(begin())
    pump.until(lambda: REFUSED in str(sink.trouble))
    send(0)
    pump.until(lambda: len(answers) == 1)
    assert isinstance(answers[0], Unavailable)
    assert REFUSED in str(answers[0])
    kafka.has_rights = True
    pump.run(begin())
    send(0)
    send(1)
    pump.until(lambda: len(answers) == 3)
    assert answers[1:] == [None, None]
    assert kafka.records == [("iot.readings", b"0"), ("iot.readings", b"1")]
