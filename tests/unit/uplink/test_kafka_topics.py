"""Topics that Kafka can never have: whose name it refuses, or takes for that of another one."""

from __future__ import annotations

import pytest

from iot_mqtt.ports.uplink import MadeTopic
from tests.unit.uplink.kafkakit import Kafka, Sending


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
