"""Topics that Kafka can never have: whose name it refuses, or takes for that of another one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from iot_mqtt.ports.uplink import MadeTopic, Place, Record
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


def made(name: str) -> MadeTopic:
    return MadeTopic(name, "iot.by.other")


@pytest.mark.parametrize(("create_topics", "makes_by_itself"), [(True, False), (False, True), (False, False)])
def test_what_is_for_a_name_that_kafka_takes_for_another_goes_to_the_rules_other(
    monkeypatch: pytest.MonkeyPatch, *, create_topics: bool, makes_by_itself: bool
) -> None:
    """Whoever makes topics: in order, with what is for other topics behind it, and the operator is told."""
    kafka = Kafka("iot.by.press_1", "iot.readings", "iot.by.other", makes_by_itself=makes_by_itself)
    it = Sending(kafka, monkeypatch, create_topics=create_topics)
    assert it.send(made("iot.by.press_1"), made("iot.by.press.1"), made("iot.by.press.1"), "iot.readings") == 1
    assert it.send(made("iot.by.press.1")) == 1
    assert kafka.records == [
        ("iot.by.press_1", b"0"),
        ("iot.by.other", b"1"),
        ("iot.by.other", b"2"),
        ("iot.readings", b"3"),
        ("iot.by.other", b"4"),
    ]
    assert it.outlet.trouble() is None
    (note,) = it.outlet.notes
    assert "iot.by.press.1" in note
    assert "iot.by.press_1" in note
    assert "iot.by.other" in note


def test_what_was_found_out_of_a_name_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each record: a client may publish many."""
    kafka = Kafka("iot.by.press_1", "iot.by.other")
    it = Sending(kafka, monkeypatch, create_topics=True)
    it.send(made("iot.by.press.1"))
    asked = kafka.asked
    assert it.send(*[made("iot.by.press.1")] * 100) == 1
    assert kafka.asked == asked


def test_a_name_that_is_forbidden_goes_to_the_rules_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy of Kafka's operator is for ever, too."""
    kafka = Kafka("iot.by.other")
    kafka.forbidden = "evil"
    it = Sending(kafka, monkeypatch, create_topics=True)
    assert it.send(made("iot.by.evil"), made("iot.by.good")) == 1
    assert kafka.records == [("iot.by.other", b"0"), ("iot.by.good", b"1")]


@pytest.mark.parametrize("create_topics", [True, False])
def test_a_name_of_the_operators_is_waited_for_and_what_is_in_its_way_is_told(
    monkeypatch: pytest.MonkeyPatch, *, create_topics: bool
) -> None:
    """No client has made it, and nothing else may be done with its records; not that somebody should make it."""
    kafka = Kafka("iot.line_a")
    it = Sending(kafka, monkeypatch, create_topics=create_topics)
    assert it.send("iot.line.a") == 0
    trouble = it.outlet.trouble()
    assert trouble is not None
    assert "topic iot.line.a cannot be made in Kafka" in trouble
    assert "collides with existing topic: iot.line_a" in trouble
    kafka.topics = ["iot.line.a"]
    assert it.send("iot.line.a") == 2
    assert it.outlet.trouble() is None


def test_a_topic_that_is_only_missing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's as well: somebody can make it."""
    kafka = Kafka("iot.by.other")
    it = Sending(kafka, monkeypatch, create_topics=False)
    assert it.send(made("iot.by.press-1")) == 0
    assert "kafka-topics.sh --create --topic iot.by.press-1" in str(it.outlet.trouble())
    kafka.topics.append("iot.by.press-1")
    assert it.send(made("iot.by.press-1")) == 2
    assert [topic for topic, _ in kafka.records] == ["iot.by.press-1"] * 2
