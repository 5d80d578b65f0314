"""The thread that reads commands from Kafka outlives what librdkafka raises, also out of its own callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from iot_mqtt.uplink.inbox import consuming
from iot_mqtt.uplink.inbox.kafka import KafkaInbox
from iot_mqtt.uplink.inbox.life import Life
from iot_mqtt.uplink.inbox.settings import InboxSettings
from tests.contract.driving import Pump

PATIENCE = 20.0


class Unanswered:
    """In the place of the topic's identity: a question ends in an error that librdkafka itself raises."""

    def __init__(self, *_: object) -> None: ...

    def ask(self) -> str:
        Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}).list_topics("t", timeout=0.05)
        raise AssertionError("it has to raise")

    def look(self) -> str | None:
        return None


@pytest.fixture
def settings() -> Iterator[InboxSettings]:
    """A topic of a Kafka that librdkafka plays."""
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "nobody", "log_level": 0})
    producer.produce("t", b"{}")
    assert producer.flush(PATIENCE) == 0
    (broker,) = producer.list_topics(timeout=PATIENCE).brokers.values()
    yield InboxSettings({"bootstrap.servers": f"{broker.host}:{broker.port}"}, "t", dead_letters=None)
    # It plays for as long as its producer is there.
    producer.flush(0)


def through(_: Life, step: Callable[..., None], *told: Any) -> None:
    """A callback that guards nothing."""
    step(*told)


@pytest.mark.parametrize("guarded", [True, False], ids=["caught", "out-of-poll"])
def test_a_question_that_fails_when_partitions_come_ends_a_consumer_and_not_the_thread(
    settings: InboxSettings, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another consumer begins, and the thread still ends when it is told to. What no callback has caught comes out of
    ``poll`` as something that is no exception.
    """
    monkeypatch.setattr(consuming, "TopicIdentity", Unanswered)
    if not guarded:
        monkeypatch.setattr(Life, "_rebalanced", through)
    pump = Pump()
    inbox = KafkaInbox(settings, pump.cross, time.monotonic, time.time)
    # Nothing is read, so there is nothing to tell a reader.
    inbox.begin(None)  # type: ignore[arg-type]
    until = time.monotonic() + PATIENCE
    while not inbox.facts().restarts:
        pump.calls.get(timeout=until - time.monotonic())()
    assert "Failed to get metadata" in str(inbox.trouble)
    pump.run(inbox.close())
