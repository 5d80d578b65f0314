"""A Kafka in memory, for what the outlet does with the library's producer and admin."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from iot_mqtt.ports.uplink import Place, Record
from iot_mqtt.uplink.kafka import lone, outlet, topics
from iot_mqtt.uplink.kafka.outlet import Outlet
from iot_mqtt.uplink.kafka.settings import KafkaSettings

LIMIT = 1_000_000


class Kafka:
    """A broker with the rules about names that a real one has; what it is sent is in ``records``."""

    def __init__(self, *there: str, makes_by_itself: bool = False) -> None:
        self.topics = list(there)
        self.makes_by_itself = makes_by_itself
        self.records: list[tuple[str, bytes]] = []
        self.asked = 0
        #: What a policy of the operator does not let anybody make.
        self.forbidden = ""

    def make(self, name: str) -> KafkaError | None:
        """As the controller does."""
        if name in self.topics:
            return KafkaError(KafkaError.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if self.forbidden and self.forbidden in name:
            return KafkaError(KafkaError.POLICY_VIOLATION, "no such names")
        same = [one for one in self.topics if one.replace(".", "_") == name.replace(".", "_")]
        if same:
            return KafkaError(KafkaError.TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {same[0]}")
        self.topics.append(name)
        return None

    # As the library's admin.

    def create_topics(self, new: Sequence[Any], **_: object) -> dict[str, Any]:
        def result(name: str, _: float) -> None:
            if (error := self.make(name)) is not None:
                raise KafkaException(error)

        return {one.topic: SimpleNamespace(result=partial(result, one.topic)) for one in new}

    def describe_configs(self, resources: Sequence[Any], **_: object) -> dict[Any, Any]:
        # The library looks whether these are texts, and of nothing but that class.
        assert all(type(one.name) is str for one in resources)
        told = {"max.message.bytes": SimpleNamespace(value=str(LIMIT))}
        return {one: SimpleNamespace(result=lambda _: told) for one in resources}

    # As the library's producer.

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        self.asked += 1
        if topic is not None and self.makes_by_itself:
            self.make(topic)
        found = {name: SimpleNamespace(error=None, partitions={0: 0}) for name in self.topics}
        if topic is not None:
            missing = SimpleNamespace(error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), partitions={})
            found = {topic: found.get(topic, missing)}
        return SimpleNamespace(topics=found)

    def produce(self, topic: str, value: bytes, *_: object) -> None:
        assert topic in self.topics
        self.records.append((topic, value))

    def poll(self, wait: float) -> None:
        """Nothing went wrong."""

    def purge(self, *, blocking: bool) -> None:
        """Nothing is under way."""

    def __len__(self) -> int:
        return 0


class Sending:
    """An outlet, and a time that passes by itself."""

    def __init__(self, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, *, create_topics: bool) -> None:
        for module in (outlet, lone):
            monkeypatch.setattr(module, "make_producer", lambda *_, **__: kafka)
        monkeypatch.setattr(topics, "make_admin", lambda _: kafka)
        self.now = 0.0
        self.outlet = Outlet(KafkaSettings(("kafka:9092",), create_topics=create_topics), lambda: self.now)
        self.outlet.open(Place("0.0a1b2c3d", 0))
        self.position = 0

    def send(self, *names: str) -> int:
        """One record to each, in one batch, and half a minute; how many batches are safe."""
        records = []
        for name in names:
            records.append(Record(name, "k", b"%d" % self.position, (), 0, self.position))
            self.position += 1
        self.outlet.put(records)
        safe = 0
        for _ in range(300):
            self.now += 0.1
            safe += self.outlet.turn().safe
        return safe
