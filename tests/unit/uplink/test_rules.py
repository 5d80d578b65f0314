"""``uplink.rules``: what can be written, what is said about mistakes, and which rule a message goes by."""

from __future__ import annotations

import time

import pytest

from iot_mqtt.ports.uplink import Mode
from iot_mqtt.topics.filters import overlaps
from iot_mqtt.uplink.rules import MAX_NAMES, MAX_TOPICS, MISSING, Facts, Rule, Rules, client_key, rule_of, rules_of
from iot_mqtt.uplink.rules.entry import MAX_RULES
from iot_mqtt.uplink.rules.patterns import MAX_TEXT, Pattern


def test_a_filter_is_enough() -> None:
    """Everything else has a default."""
    assert rule_of({"filter": "up/#"}) == Rule("up/#", "iot.readings", Mode.ALSO, "device")


def test_everything_can_be_said() -> None:
    """As it is written in the file, and written again as it was."""
    entry = {
        "filter": "+/x", "to": "Other.{gateway}_1", "key": "{client}/{topic[1]}", "qos": 1,
        "gateway": "line-*", "device": "press-?", "codec": "acme", "when": "values.t > 5",
    }  # fmt: skip
    rule = rule_of(entry)
    assert rule == Rule(
        "+/x", "Other.{gateway}_1", Mode.ALSO, "{client}/{topic[1]}", 1, "line-*", "press-?", "acme", "values.t > 5"
    )
    assert rule.entry() == entry
    only = {"filter": "a", "mode": "only"}
    assert rule_of(only).entry() == only


def test_a_rule_about_gateways_needs_no_filter() -> None:
    """Their readings are published below ``up/``."""
    assert rule_of({"device": "press-*"}).filter == "up/#"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "needs a filter"),
        ({"filter": 3}, "needs a filter"),
        ({"when": "qos == 1"}, "needs a filter"),
        ({"filter": "a/#/b"}, "filter 'a/#/b'"),
        ({"filter": "$share/g/a"}, "begins with \\$"),
        ({"filter": "$SYS/#"}, "begins with \\$"),
        ({"filter": "a", "topic": "b"}, "unknown key 'topic'; there are filter, gateway, device, codec, to, mode, key"),
        ({"filter": "a", "mode": "both"}, "mode must be one of also, only"),
        ({"filter": "a", "key": "hash"}, "key must be one of device, client, topic or a template"),
        ({"filter": "a", "key": "{hash}"}, "key: unknown field {hash}; there are {gateway}, {device}"),
        ({"filter": "a", "to": "a/b"}, "to must be letters"),
        ({"filter": "a", "to": ".."}, "to must be letters"),
        ({"filter": "a", "to": ".open"}, "to must be letters"),
        ({"filter": "a", "to": "x" * 250}, "at most 249"),
        ({"filter": "a", "to": "__consumer_offsets"}, "to must not begin with __"),
        ({"filter": "a", "to": 7}, "to must be a text"),
        ({"filter": "a", "to": "iot.{tag}"}, "to: unknown field {tag}; there are"),
        ({"filter": "a", "to": "iot.{topic[x]}"}, "to: unknown field"),
        ({"filter": "a", "to": "iot.{client"}, "has a brace without its other one"),
        ({"filter": "a", "to": "{client}"}, "must begin with a letter or digit of its own"),
        ({"filter": "a", "to": "_{client}"}, "must begin with a letter or digit of its own"),
        ({"filter": "a", "to": "iot/{client}"}, "around its fields"),
        ({"filter": "a", "qos": 3}, "qos must be 0, 1 or 2, not 3"),
        ({"filter": "a", "qos": True}, "qos must be 0, 1 or 2, not True"),
        ({"filter": "a", "qos": "1"}, "qos must be 0, 1 or 2, not '1'"),
        ({"filter": "a", "device": ""}, "device must not be empty"),
        ({"filter": "a", "device": 5}, "device must be a text"),
        ({"filter": "a", "when": "values.t >"}, "when: column 11: expected a name"),
        ({"filter": "a", "mode": "only", "when": "qos == 1"}, "mode only goes with filter and qos alone"),
        ({"filter": "a", "mode": "only", "device": "x"}, "mode only goes with filter and qos alone"),
    ],
)
def test_a_mistake_is_named(entry: dict[str, object], words: str) -> None:
    """With what would be right."""
    with pytest.raises(ValueError, match=words):
        rule_of(entry)


def test_all_mistakes_of_a_list_are_named() -> None:
    """With the numbers of the entries; the others are read."""
    rules, wrong = rules_of([{"filter": "a"}, {}, {"filter": "b", "qos": 9}])
    assert [rule.filter for rule in rules] == ["a"]
    assert [one.partition(":")[0] for one in wrong] == ["entry 2", "entry 3"]
    assert "at most" in rules_of([{"filter": "a"}] * (MAX_RULES + 1))[1][0]


def test_only_behind_a_condition_is_refused_where_it_matters() -> None:
    """Or whether subscribers get a message would depend on what it says, which nobody knows when it is published."""
    conditional = {"filter": "up/+/x", "when": "values.t > 5"}
    only = {"filter": "up/gw/#", "mode": "only"}
    assert "put this entry before it" in rules_of([conditional, only])[1][0]
    assert rules_of([only, conditional])[1] == []
    assert rules_of([conditional, {"filter": "audit/#", "mode": "only"}])[1] == []


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("a/b", "a/b", True), ("a/b", "a/c", False), ("a/+", "+/b", True), ("a/#", "a", True), ("a/#", "b/#", False),
        ("#", "x/y/z", True), ("a/+", "a", False), ("a/+/c", "a/b/#", True), ("a/b/c", "a/b", False),
        ("+", "a/#", True),
    ],
)  # fmt: skip
def test_filters_that_have_topics_in_common(one: str, other: str, common: bool) -> None:
    """Either way round."""
    assert overlaps(one, other) is overlaps(other, one) is common


def test_the_first_rule_that_matches_counts() -> None:
    """In the order in which they are written; filters that are there twice are read once."""
    rules = Rules([Rule("a/b", "one"), Rule("a/+", "two"), Rule("a/b", "three")])
    found = {topic: rule.to if (rule := rules.of(topic)) else None for topic in (b"a/b", b"a/c", b"b")}
    assert found == {b"a/b": "one", b"a/c": "two", b"b": None}
    assert rules.filters == ["a/b", "a/+"]


def test_a_rule_may_want_a_qos() -> None:
    """What was published with less goes by the next rule, or not up."""
    rules = Rules([Rule("a", "sure", Mode.ONLY, qos=1), Rule("a", "any", qos=0), Rule("b", qos=2)])
    assert [rule.to if (rule := rules.of(b"a", qos)) else None for qos in (0, 1, 2)] == ["any", "sure", "sure"]
    assert [rules.of(b"b", qos) is not None for qos in (0, 1, 2)] == [False, False, True]


def test_topics_that_are_remembered_are_bounded() -> None:
    """And found as before when they were forgotten."""
    rules = Rules([Rule("a/#", to="x.{client}")])
    for number in range(MAX_TOPICS + 10):
        assert rules.of(b"a/%d" % number) is rules.rules[0]
        rules.choose(b"a/%d" % number, facts(f"a/{number}"))
    assert len(rules._found[2]) <= MAX_TOPICS
    assert len(rules._mixed[1]) <= MAX_TOPICS
    assert rules.of(b"b") is None


# What a message says.

READING = {"gateway": "gw", "device": "press-1", "codec": "acme", "ts": 5, "values": {"t": 90, "unit": "C"}}


def facts(topic: str = "up/gw/press-1", payload: object = None, client: str = "gw", **reading: object) -> Facts:
    if payload is not None:
        return Facts(topic, client, 1, payload, None)
    made = {**READING, **reading}
    return Facts(topic, client, 1, made, made)


def chosen(rules: Rules, message: Facts) -> tuple[str, str] | None:
    found = rules.choose(message.topic.encode(), message)
    return None if found is None else (found.to, found.key)


def test_the_next_rule_is_tried_where_conditions_do_not_hold() -> None:
    """Until one takes the message; if none does it does not go up."""
    rules = Rules(
        [
            rule_of({"filter": "up/#", "when": "values.t > 80", "to": "hot"}),
            rule_of({"device": "press-*", "to": "presses"}),
            rule_of({"filter": "up/#", "when": "exists(payload.t)", "to": "plain"}),
        ]
    )
    assert chosen(rules, facts()) == ("hot", "gw/press-1")
    assert chosen(rules, facts(values={"t": 5})) == ("presses", "gw/press-1")
    assert chosen(rules, facts(device="saw", values={})) is None
    assert chosen(rules, facts("up/c/x", {"t": 1}, "c")) == ("plain", "c")
    assert [(rule.figures.matched, rule.figures.sent) for rule in rules.rules] == [(4, 1), (3, 1), (2, 1)]


def test_patterns_are_about_readings_alone() -> None:
    """What a client says of itself in a message of its own is not what a gateway says."""
    rules = Rules([rule_of({"filter": "up/#", "gateway": "*"})])
    assert chosen(rules, facts()) is not None
    assert chosen(rules, facts("up/gw/x", dict(READING), "gw")) is None


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("press-*", ["press-", "press-1", "press-\n"], ["Press-1", "a press-1", ""]),
        ("*-1", ["press-1", "-1", "-1-1"], ["press-12"]),
        ("p?e*s", ["press", "pre-s-s"], ["pres-", "ps"]),
        ("*a*b*", ["ab", "xaxbx", "aab"], ["ba"]),
        ("a*ab", ["aab", "aaab", "abab"], ["ab"]),
        ("[a]", ["[a]"], ["a"]),
        ("*", ["", "x" * 9999], []),
        ("5*", [5, 5.5], [True, None, [5], {}]),
    ],
)
def test_patterns_are_like_a_shells(pattern: str, yes: list[object], no: list[object]) -> None:
    """``*`` and ``?``, and nothing else; over the whole name."""
    made = Pattern(pattern)
    assert [one for one in yes if not made.matches(one)] == []
    assert [one for one in no if made.matches(one)] == []


def test_no_name_makes_a_pattern_slow() -> None:
    """It comes from a client, and is looked at in the reactor's thread."""
    made = Pattern("*a" * 60 + "*b")
    began = time.thread_time()
    assert not made.matches("a" * MAX_TEXT)
    assert not made.matches("a" * 1_000_000)
    assert time.thread_time() - began < 0.5


@pytest.mark.parametrize(
    ("to", "message", "name"),
    [
        ("x.{gateway}.{device}.{codec}", facts(), "x.gw.press-1.acme"),
        ("x.{gateway}.{device}.{codec}", facts("up/c", 1, "c"), "x.c.c.mqtt"),
        ("x.{topic}", facts("line/4/state", 1), "x.line.4.state"),
        ("x.{topic[1]}-{topic[7]}", facts("line/4//state", 1), "x.4-_"),
        ("x.{topic[2]}", facts("line/4//state", 1), "x._"),
        ("x.{client}", facts("a", 1, "ä b/c"), "x.__b.c"),
        ("x.{device}", facts(device="y" * 500), "x." + "y" * 247),
        ("x.{device}", facts(device=["a", 1]), "x.__a___1_"),
        ("x.{device}", facts(device="\ud800"), "x._"),
    ],
)
def test_a_topic_may_be_made_of_what_a_message_says(to: str, message: Facts, name: str) -> None:
    """In the alphabet of Kafka, whatever it says."""
    assert chosen(Rules([rule_of({"filter": "#", "to": to})]), message) == (name, *chosen_key(message))


def chosen_key(message: Facts) -> tuple[str]:
    device = message.reading["device"] if message.reading else None
    key = client_key(message.client) if message.reading is None else f"{message.client}/{device}"
    return (key.encode("utf-8", "replace").decode(),)


def test_a_key_may_be_made_of_what_a_message_says() -> None:
    """As it is said: a key has no alphabet."""
    rules = Rules([rule_of({"filter": "#", "key": "{topic[1]}/{device} é"})])
    assert chosen(rules, facts()) == ("iot.readings", "gw/press-1 é")
    assert chosen(rules, facts(device="\ud800")) == ("iot.readings", "gw/? é")


def test_names_that_clients_make_are_bounded() -> None:
    """What is too many goes to one topic more; nothing is lost, and it is told."""
    rules = Rules([rule_of({"filter": "#", "to": "x.{client}.y"})])
    names = {chosen(rules, facts("a", 1, f"c{number}")) for number in range(MAX_NAMES + 5)}
    assert len({name[0] for name in names if name is not None}) == MAX_NAMES + 1
    assert chosen(rules, facts("a", 1, "new")) == ("x.other.y", "new")
    assert chosen(rules, facts("a", 1, "c1")) == ("x.c1.y", "c1")
    assert "6 records went to the topic 'other'" in rules.notes()[0]


def test_no_client_can_name_a_topic_that_is_taken() -> None:
    """Neither another rule's, nor one that the platform reads commands from."""
    rules = Rules([rule_of({"filter": "a/#", "to": "iot.{client}"}), Rule("b", "iot.readings")], ["iot.commands"])
    for client in ("commands", "readings"):
        assert chosen(rules, facts("a/x", 1, client)) == ("iot.other", client)
    assert len(rules.notes()) == 1


@pytest.mark.parametrize(
    ("first", "second"), [("press_1", "press.1"), ("press.1", "press_1"), ("é", "."), ("a/b", "a_b")]
)
def test_names_that_kafka_takes_for_one_are_not_both_made(first: str, second: str) -> None:
    """To it '.' and '_' are the same letter, and a second such topic cannot be made; nor is it made again later."""
    rules = Rules([rule_of({"filter": "#", "to": "iot.by.{client}"})])
    name = chosen(rules, facts("a", 1, first))
    assert name is not None and name[0] != "iot.by.other"
    for _ in range(2):
        assert chosen(rules, facts("a", 1, second)) == ("iot.by.other", client_key(second))
        assert chosen(rules, facts("a", 1, first)) == name
    assert len(rules.notes()) == 1


@pytest.mark.parametrize("client", ["line_a", "line.a", "all_b", "all.b", "all_other", "all.other"])
def test_no_client_comes_before_a_topic_that_kafka_would_take_for_its_own(client: str) -> None:
    """A fixed one, a reserved one, and where another template sends what it turns away."""
    given = [
        rule_of({"filter": "a/#", "to": "iot.{client}"}),
        Rule("b", "iot.line.a"),
        rule_of({"filter": "c", "to": "iot.all.{client}"}),
    ]
    rules = Rules(given, ["iot.all.b"])
    assert chosen(rules, facts("a/x", 1, client)) == ("iot.other", client)


def test_a_client_may_be_called_other() -> None:
    """Its records are where those of others are that were turned away; nothing is wrong with that."""
    rules = Rules([rule_of({"filter": "#", "to": "iot.by.{client}"})])
    assert chosen(rules, facts("a", 1, "other")) == ("iot.by.other", "other")
    assert rules.notes() == ()


def test_a_payload_that_is_no_json_has_no_names() -> None:
    """But topic, client and QoS."""
    rules = Rules([rule_of({"filter": "#", "when": "exists(payload)"}), rule_of({"filter": "#", "when": "qos == 1"})])
    found = rules.choose(b"a", Facts("a", "c", 1, MISSING, None))
    assert found is not None
    assert found.rule is rules.rules[1]
