"""``uplink.rules``: what can be written, what is said about mistakes, and which rule a topic has."""

from __future__ import annotations

import pytest

from iot_mqtt.ports.uplink import Mode
from iot_mqtt.uplink.rules import MAX_TOPICS, Rule, Rules, rule_of


def test_a_filter_is_enough() -> None:
    """Everything else has a default."""
    assert rule_of({"filter": "up/#"}) == Rule("up/#", "iot.readings", Mode.ALSO, "device")


def test_everything_can_be_said() -> None:
    """As it is written in the file."""
    entry = {"filter": "+/x", "to": "Other.topic_1", "mode": "only", "key": "client"}
    assert rule_of(entry) == Rule("+/x", "Other.topic_1", Mode.ONLY, "client")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "needs a filter"),
        ({"filter": 3}, "needs a filter"),
        ({"filter": "a/#/b"}, "filter 'a/#/b'"),
        ({"filter": "$share/g/a"}, "begins with \\$"),
        ({"filter": "$SYS/#"}, "begins with \\$"),
        ({"filter": "a", "topic": "b"}, "unknown key 'topic'; there are filter, to, mode, key"),
        ({"filter": "a", "mode": "both"}, "mode must be one of also, only"),
        ({"filter": "a", "key": "hash"}, "key must be one of device, client, topic"),
        ({"filter": "a", "to": "a/b"}, "to must be letters"),
        ({"filter": "a", "to": ".."}, "to must be letters"),
        ({"filter": "a", "to": ".open"}, "to must be letters"),
        ({"filter": "a", "to": "x" * 250}, "at most 249"),
        ({"filter": "a", "to": 7}, "to must be a text"),
    ],
)
def test_a_mistake_is_named(entry: dict[str, object], words: str) -> None:
    """With what would be right."""
    with pytest.raises(ValueError, match=words):
        rule_of(entry)


def test_the_first_rule_that_matches_counts() -> None:
    """In the order in which they are written; filters that are there twice are read once."""
    rules = Rules([Rule("a/b", "one"), Rule("a/+", "two"), Rule("a/b", "three")])
    found = {topic: rule.to if (rule := rules.of(topic)) else None for topic in (b"a/b", b"a/c", b"b")}
    assert found == {b"a/b": "one", b"a/c": "two", b"b": None}
    assert rules.filters == ["a/b", "a/+"]


def test_topics_that_are_remembered_are_bounded() -> None:
    """And found as before when they were forgotten."""
    rules = Rules([Rule("a/#")])
    for number in range(MAX_TOPICS + 10):
        assert rules.of(b"a/%d" % number) is rules.rules[0]
    assert len(rules._found) <= MAX_TOPICS
    assert rules.of(b"b") is None
