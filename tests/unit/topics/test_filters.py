"""Which topics and filters are valid, and which match: tables with the clauses they follow from."""

from __future__ import annotations

import pytest

from iot_mqtt.errors import Malformed, MqttError, ReasonCode, Refused
from iot_mqtt.topics import FilterSet, covers, is_wildcard, matches, parse_shared, validate_filter, validate_topic
from iot_mqtt.topics.filters import literal_prefix
from iot_mqtt.topics.trie import FilterTrie

# filter, topic, does it match, clause
MATCHES = [
    ("a", "a", True, "MQTT-4.7.3-4"),
    ("a", "b", False, "MQTT-4.7.3-4"),
    ("a", "A", False, "4.7.3: case sensitive"),
    ("ACCOUNTS", "Accounts", False, "4.7.3: case sensitive"),
    ("Accounts payable", "Accounts payable", True, "4.7.3: spaces"),
    ("a b", "a  b", False, "4.7.3: spaces"),
    (" a", "a", False, "4.7.3: spaces"),
    ("a/b", "a/b", True, "MQTT-4.7.3-4"),
    ("a/b", "a/b/c", False, "MQTT-4.7.3-4"),
    ("a/b/c", "a/b", False, "MQTT-4.7.3-4"),
    ("/", "/", True, "4.7.3: '/' alone is valid"),
    ("/", "a", False, "4.7.1.1: levels may be empty"),
    ("/finance", "/finance", True, "4.7.1.1: leading separator"),
    ("/finance", "finance", False, "4.7.1.1: leading separator"),
    ("finance", "/finance", False, "4.7.1.1: leading separator"),
    ("finance/", "finance", False, "4.7.1.1: trailing separator"),
    ("finance/", "finance/", True, "4.7.1.1: trailing separator"),
    ("a//b", "a//b", True, "4.7.1.1: adjacent separators"),
    ("a//b", "a/b", False, "4.7.1.1: adjacent separators"),
    ("größe/µ", "größe/µ", True, "MQTT-4.7.3-4"),
    ("e\u0301", "é", False, "MQTT-4.7.3-4 no normalisation"),
    ("\ufeffa", "a", False, "MQTT-1.5.4-3 no stripping of U+FEFF"),
    ("sport/tennis/player1/#", "sport/tennis/player1", True, "MQTT-4.7.1-1"),
    ("sport/tennis/player1/#", "sport/tennis/player1/ranking", True, "MQTT-4.7.1-1"),
    ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True, "MQTT-4.7.1-1"),
    ("sport/tennis/player1/#", "sport/tennis/player2", False, "MQTT-4.7.1-1"),
    ("sport/tennis/player1/#", "sport/tennis/player11", False, "MQTT-4.7.1-1"),
    ("sport/#", "sport", True, "4.7.1.2: includes the parent"),
    ("sport/#", "sport/", True, "MQTT-4.7.1-1"),
    ("sport/#", "sports", False, "MQTT-4.7.1-1"),
    ("#", "a", True, "MQTT-4.7.1-1"),
    ("#", "/", True, "MQTT-4.7.1-1"),
    ("#", "/a/b/c", True, "MQTT-4.7.1-1"),
    ("/#", "/a", True, "MQTT-4.7.1-1"),
    ("/#", "a", False, "MQTT-4.7.1-1"),
    ("/#", "/", True, "MQTT-4.7.1-1"),
    ("sport/tennis/+", "sport/tennis/player1", True, "MQTT-4.7.1-2"),
    ("sport/tennis/+", "sport/tennis/player1/ranking", False, "MQTT-4.7.1-2"),
    ("sport/tennis/+", "sport/tennis", False, "MQTT-4.7.1-2"),
    ("sport/+", "sport", False, "MQTT-4.7.1-2"),
    ("sport/+", "sport/", True, "MQTT-4.7.1-2"),
    ("+", "a", True, "MQTT-4.7.1-2"),
    ("+", "a/b", False, "MQTT-4.7.1-2"),
    ("+", "/finance", False, "MQTT-4.7.1-2"),
    ("/+", "/finance", True, "MQTT-4.7.1-2"),
    ("+/+", "/finance", True, "MQTT-4.7.1-2"),
    ("+/+", "a/b", True, "MQTT-4.7.1-2"),
    ("+/+", "a", False, "MQTT-4.7.1-2"),
    ("+/+", "/", True, "MQTT-4.7.1-2"),
    ("+/tennis/#", "sport/tennis", True, "MQTT-4.7.1-2"),
    ("+/tennis/#", "sport/tennis/a/b", True, "MQTT-4.7.1-2"),
    ("+/tennis/#", "sport/golf/a", False, "MQTT-4.7.1-2"),
    ("sport/+/player1", "sport/tennis/player1", True, "MQTT-4.7.1-2"),
    ("sport/+/player1", "sport/tennis/player2", False, "MQTT-4.7.1-2"),
    ("sport/+/player1", "sport//player1", True, "MQTT-4.7.1-2"),
    ("a/+/c/+/e", "a/b/c/d/e", True, "MQTT-4.7.1-2"),
    ("a/+/c/+/e", "a/b/c/d/f", False, "MQTT-4.7.1-2"),
    ("+/+/+", "a/b", False, "MQTT-4.7.1-2"),
    ("+/#", "a", True, "MQTT-4.7.1-2"),
    ("+/+/#", "a", False, "MQTT-4.7.1-2"),
    ("#", "$SYS/uptime", False, "MQTT-4.7.2-1"),
    ("#", "$", False, "MQTT-4.7.2-1"),
    ("+/uptime", "$SYS/uptime", False, "MQTT-4.7.2-1"),
    ("+/monitor/Clients", "$SYS/monitor/Clients", False, "MQTT-4.7.2-1"),
    ("+", "$SYS", False, "MQTT-4.7.2-1"),
    ("$SYS/#", "$SYS/monitor/Clients", True, "4.7.2"),
    ("$SYS/#", "$SYS", True, "4.7.2"),
    ("$SYS/monitor/+", "$SYS/monitor/Clients", True, "4.7.2"),
    ("$SYS/+", "$SYS/x/y", False, "4.7.2"),
    ("$SYS/#", "SYS/a", False, "4.7.2"),
    ("a/+", "a/$SYS", True, "MQTT-4.7.2-1 is about the first level only"),
    ("a/#", "a/$SYS/b", True, "MQTT-4.7.2-1 is about the first level only"),
    ("/#", "/$SYS", True, "MQTT-4.7.2-1 is about the first level only"),
]


@pytest.mark.parametrize(("filter", "topic", "expected", "clause"), MATCHES)
def test_a_filter_matches_exactly_what_the_clause_says(filter: str, topic: str, expected: bool, clause: str) -> None:
    """The table of sections 4.7.1 to 4.7.3 against the simple matcher."""
    assert matches(filter, topic) is expected, clause


@pytest.mark.parametrize(("filter", "topic", "expected", "clause"), MATCHES)
def test_the_trie_agrees_with_the_table(filter: str, topic: str, expected: bool, clause: str) -> None:
    """The same table against a trie that holds only this filter, and then nothing."""
    trie: FilterTrie[str] = FilterTrie()
    trie.put(filter, "here")
    assert trie.match(topic) == (["here"] if expected else []), clause
    assert trie.remove(filter)
    assert trie.match(topic) == []


@pytest.mark.parametrize(("filter", "topic", "expected", "clause"), MATCHES)
def test_a_set_of_filters_agrees_with_the_table(filter: str, topic: str, expected: bool, clause: str) -> None:
    """Among others that do and do not match."""
    others = ["#", "+/+", "$SYS/#", "sport/+/player1", "a", "/", "größe/µ"]
    everything = sorted({filter, *others})
    found = FilterSet(everything).match(topic)
    assert sorted(found) == [one for one in everything if matches(one, topic)], clause
    assert (filter in found) is expected, clause


BAD_FILTERS = [
    ("", "MQTT-4.7.3-1"),
    ("a\0b", "MQTT-4.7.3-2"),
    ("a\ud800", "MQTT-1.5.4-1"),
    ("x" * 65_536, "MQTT-4.7.3-3"),
    ("é" * 32_768, "MQTT-4.7.3-3: bytes, not characters"),
    ("sport/tennis#", "MQTT-4.7.1-1"),
    ("sport/tennis/#/ranking", "MQTT-4.7.1-1"),
    ("#/a", "MQTT-4.7.1-1"),
    ("##", "MQTT-4.7.1-1"),
    ("a/##", "MQTT-4.7.1-1"),
    ("a/#/", "MQTT-4.7.1-1"),
    ("a/#b", "MQTT-4.7.1-1"),
    ("sport+", "MQTT-4.7.1-2"),
    ("sport/+a", "MQTT-4.7.1-2"),
    ("++", "MQTT-4.7.1-2"),
    ("+/a+/b", "MQTT-4.7.1-2"),
    ("+#", "MQTT-4.7.1-1"),
    ("a/+#", "MQTT-4.7.1-1"),
    ("$share/", "MQTT-4.8.2-1"),
    ("$share//a", "MQTT-4.8.2-1"),
    ("$share/g", "MQTT-4.8.2-2"),
    ("$share/g/", "MQTT-4.8.2-2"),
    ("$share/+/a", "MQTT-4.8.2-2"),
    ("$share/g#/a", "MQTT-4.8.2-2"),
    ("$share/g/a+", "MQTT-4.7.1-2"),
    ("$share/g/#/a", "MQTT-4.7.1-1"),
]


@pytest.mark.parametrize(("filter", "clause"), BAD_FILTERS)
def test_a_filter_against_the_grammar_is_malformed(filter: str, clause: str) -> None:
    """Whoever sends it broke the protocol; the reason code names the filter."""
    with pytest.raises(Malformed) as caught:
        validate_filter(filter)
    assert caught.value.reason is ReasonCode.TOPIC_FILTER_INVALID, clause


@pytest.mark.parametrize(
    "filter",
    ["a", "/", "//", "#", "+", "+/+", "/#", "a/+/#", "$SYS/#", "$share", "$share/g/a", "$share/g//", "$share/g/#", "é"],
)
def test_a_filter_within_the_grammar_is_accepted(filter: str) -> None:
    """Nothing is refused that the specification allows."""
    validate_filter(filter)


BAD_TOPICS = [
    ("", "MQTT-4.7.3-1"),
    ("a/+", "MQTT-3.3.2-2"),
    ("a/#", "MQTT-3.3.2-2"),
    ("a+b", "MQTT-4.7.0-1"),
    ("a\0", "MQTT-4.7.3-2"),
    ("\udfff", "MQTT-1.5.4-1"),
    ("x" * 65_536, "MQTT-4.7.3-3"),
]


@pytest.mark.parametrize(("topic", "clause"), BAD_TOPICS)
def test_a_topic_against_the_grammar_is_malformed(topic: str, clause: str) -> None:
    """Wildcards, nothing at all, and text that MQTT does not allow."""
    with pytest.raises(Malformed) as caught:
        validate_topic(topic)
    assert caught.value.reason is ReasonCode.TOPIC_NAME_INVALID, clause


@pytest.mark.parametrize("topic", ["a", "/", "//a/", "$SYS/x", "$share/g/a", " ", "x" * 65_535])
def test_a_topic_within_the_grammar_is_accepted(topic: str) -> None:
    """Nothing is refused that the specification allows."""
    validate_topic(topic, max_levels=200)


def test_more_levels_than_the_limit_are_refused_not_malformed() -> None:
    """The limit is ours, so the peer broke no rule; share name and prefix are no levels."""
    validate_topic("a/b/c", max_levels=3)
    validate_filter("$share/g/a/b/c", max_levels=3)
    for validate, text in ((validate_topic, "a/b/c/d"), (validate_filter, "a/b/c/#"), (validate_filter, "///")):
        with pytest.raises(MqttError) as caught:
            validate(text, max_levels=3)
        assert type(caught.value) is Refused


def test_a_shared_filter_is_split_into_group_and_filter() -> None:
    """Only the exact prefix makes a filter shared; the filter keeps its own slashes."""
    assert parse_shared("$share/group/a/b") == ("group", "a/b")
    assert parse_shared("$share/g//") == ("g", "/")
    assert parse_shared("$share/g/$SYS/#") == ("g", "$SYS/#")
    assert parse_shared("$shared/g/a") is None
    assert parse_shared("$share") is None
    assert parse_shared("a/$share/g/b") is None


def test_the_literal_prefix_ends_before_the_slash_of_the_first_wildcard() -> None:
    """``a/#`` matches ``a`` too, so the slash is no part of it."""
    expected = {"a/b": "a/b", "a/#": "a", "a/b/+/c/#": "a/b", "#": "", "+/a": "", "/+": ""}
    assert {filter: literal_prefix(filter) for filter in expected} == expected
    assert [filter for filter in expected if not is_wildcard(filter)] == ["a/b"]


# outer, inner, does outer allow inner
COVERS = [
    ("a/b", "a/b", True),
    ("a/b", "a/c", False),
    ("a/b", "a/+", False),
    ("a/+", "a/b", True),
    ("a/+", "a/+", True),
    ("a/+", "a/#", False),
    ("a/+", "a", False),
    ("a/#", "a", True),
    ("a/#", "a/#", True),
    ("a/#", "a/+/b/#", True),
    ("a/#", "+/b", False),
    ("a/#", "#", False),
    ("#", "#", True),
    ("#", "+/+", True),
    ("#", "$SYS/#", False),
    ("+/x", "$SYS/x", False),
    ("$SYS/#", "$SYS/+", True),
    ("a/+/c", "a/b/#", False),
]


@pytest.mark.parametrize(("outer", "inner", "expected"), COVERS)
def test_a_filter_covers_another_if_it_matches_all_that_the_other_does(outer: str, inner: str, expected: bool) -> None:
    """What rights answer a SUBSCRIBE."""
    assert covers(outer, inner) is expected
