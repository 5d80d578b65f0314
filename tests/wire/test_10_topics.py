"""Topic names and filters: matching, wildcards, `$`, characters, lengths."""

from __future__ import annotations

import pytest

from . import packets
from .clauses import clauses
from .conftest import Broker
from .versions import both, every

MATCHING = [
    ("a/b", "a/b", True),
    ("a/b", "a/c", False),
    ("a", "a/", False),
    ("a/", "a", False),
    ("/a", "a", False),
    ("a//b", "a/b", False),
    ("a//b", "a//b", True),
    ("+", "a", True),
    ("+", "a/b", False),
    ("+", "/a", False),
    ("+/+", "/a", True),
    ("/+", "/a", True),
    ("+", "", None),
    ("a/+", "a", False),
    ("a/+", "a/", True),
    ("a/+", "a/b", True),
    ("a/+", "a/b/c", False),
    ("a/+/c", "a/b/c", True),
    ("a/+/c", "a//c", True),
    ("+/b/+", "a/b/c", True),
    ("a/#", "a", True),
    ("a/#", "a/", True),
    ("a/#", "a/b/c/d", True),
    ("a/#", "ab", False),
    ("a/+/#", "a", False),
    ("a/+/#", "a/b", True),
    ("a/+/#", "a/b/c/d", True),
    ("#", "a/b/c", True),
    ("+/#", "a", True),
    ("A/b", "a/b", False),
    ("a b/c d", "a b/c d", True),
]


@clauses(
    "MQTT3-4.7.1-2",
    "MQTT3-4.7.1-3",
    "MQTT5-4.7.1-1",
    "MQTT5-4.7.1-2",
    "MQTT3-3.3.2-3",
    "MQTT5-3.3.2-3",
    "MQTT3-4.7.3-4",
    "MQTT5-4.7.3-4",
)
@both
@pytest.mark.parametrize(("pattern", "name", "matches"), [row for row in MATCHING if row[2] is not None])
def test_filters_match_topics_level_by_level(
    broker: Broker, version: int, pattern: str, name: str, matches: bool
) -> None:
    """Under a prefix of the test's own, both of them."""
    base = broker.topic()
    client = broker.connect(version)
    client.subscribe(f"{base}/{pattern}", f"{base}-end")
    client.publish(f"{base}/{name}", "x")
    client.publish(f"{base}-end", "end")
    got = [client.message().payload]
    if got != [b"end"]:
        got.append(client.message().payload)
    assert got == ([b"x", b"end"] if matches else [b"end"])


@clauses("MQTT3-4.7.2-1", "MQTT5-4.7.2-1")
@both
@pytest.mark.parametrize("pattern", ["#", "+/#", "+/{0}", "+/+", "/#"])
def test_filters_that_begin_with_a_wildcard_do_not_match_dollar_topics(
    broker: Broker, version: int, pattern: str
) -> None:
    """`$wire/x` is found by its name only."""
    level = broker.name()
    client = broker.connect(version)
    client.subscribe(pattern.format(level))
    named = broker.connect(version)
    named.subscribe(f"$wire{level}/{level}")
    named.publish(f"$wire{level}/{level}", "x", qos=1)
    assert named.message().payload == b"x"
    got = [packet for packet in client.quiet(0.2) if packet.kind == 3 and packet.topic.startswith("$")]
    assert not got


@clauses("MQTT3-4.7.2-1", "MQTT5-4.7.2-1")
@both
def test_wildcards_below_a_dollar_level_do_match(broker: Broker, version: int) -> None:
    """Only a wildcard in the first place is held back."""
    level = broker.name()
    client = broker.connect(version)
    client.subscribe(f"$wire{level}/#")
    client.subscribe(f"$wire{level}/+/b")
    client.publish(f"$wire{level}/a/b", "x", qos=1)
    assert client.message().payload == b"x"


@both
def test_dollar_inside_a_topic_is_nothing_special(broker: Broker, version: int) -> None:
    """`#` matches `a/$b`."""
    topic = broker.topic("$b")
    client = broker.connect(version)
    client.subscribe(topic.rsplit("/", 1)[0] + "/#")
    client.publish(topic, "x")
    assert client.message().topic == topic


@clauses("MQTT3-1.5.3-3", "MQTT5-1.5.4-3", "MQTT3-4.7.3-4", "MQTT5-4.7.3-4")
@both
def test_a_byte_order_mark_is_a_character_of_the_topic(broker: Broker, version: int) -> None:
    """U+FEFF is neither skipped nor stripped: with and without it are two topics."""
    plain = broker.topic("x")
    marked = plain[:-1] + "\ufeffx"
    client = broker.connect(version)
    client.subscribe(marked)
    client.publish(plain, "without")
    client.publish(marked, "with")
    got = client.message()
    assert (got.topic, got.payload) == (marked, b"with")


@clauses("MQTT3-4.7.3-4", "MQTT5-4.7.3-4")
@both
def test_topics_are_not_normalized(broker: Broker, version: int) -> None:
    """The composed and the decomposed form of one letter are two topics; dots and slashes stay."""
    base = broker.topic()
    client = broker.connect(version)
    client.subscribe(f"{base}/\u00e9", f"{base}/a/./b")
    for name in ("e\u0301", "\u00c9", "a/b", "a//b", "\u00e9", "a/./b"):
        client.publish(f"{base}/{name}", name)
    got = [packet.payload.decode() for packet in client.messages(2)]
    assert got == ["\u00e9", "a/./b"]


@both
@pytest.mark.parametrize("name", ["日本語", "\U0001f600", "a" * 200, "/" * 20, " ", "%$&?*"], ids=ascii)
def test_topics_may_have_any_characters(broker: Broker, version: int, name: str) -> None:
    """They are passed on unchanged."""
    topic = broker.topic(name)
    client = broker.connect(version)
    client.subscribe(topic, qos=1)
    client.publish(topic, "x", qos=1)
    assert client.message().topic == topic


@clauses("MQTT3-1.5.3-1", "MQTT5-1.5.4-1")
@both
@pytest.mark.parametrize("name", ["\uffff", "\ufdd0", "\x01", "\x7f", "\x9f"], ids=ascii)
def test_control_and_non_characters_are_passed_on_or_malformed(broker: Broker, version: int, name: str) -> None:
    """They SHOULD NOT be used, and a receiver may close for them; if it does not it passes them on unchanged."""
    topic = broker.topic(name)
    client = broker.connect(version)
    client.send(packets.subscribe(version, 1, [(topic, 0)]), packets.publish(version, topic, b"x"))
    answer = client.receive()
    if answer is not None and answer.kind == packets.SUBACK and answer.reasons[0] < 0x80:
        assert client.message().topic == topic
    elif answer is not None and answer.kind != packets.SUBACK:
        assert (answer.kind, answer.reason) in ((packets.DISCONNECT, 0x81), (packets.DISCONNECT, 0x8F)), str(answer)


@clauses("MQTT3-4.7.3-3", "MQTT5-4.7.3-3")
@both
def test_the_longest_topic_is_65535_bytes(broker: Broker, version: int) -> None:
    """It goes both ways, or is refused as a topic; it does not break anything."""
    topic = broker.topic()
    topic += "/" + "x" * (65_535 - len(topic) - 1)
    client = broker.connect(version)
    assert client.subscribe(topic) == (0,)
    client.publish(topic, "x")
    assert client.message().topic == topic


@clauses("MQTT3-4.7.1-1", "MQTT5-4.7.0-1")
@both
def test_a_topic_of_a_message_never_has_wildcards(broker: Broker, version: int) -> None:
    """A wildcard subscriber sees the names that were published."""
    base = broker.topic()
    client = broker.connect(version)
    client.subscribe(f"{base}/+/#")
    client.publish(f"{base}/one/two", "x")
    assert client.message().topic == f"{base}/one/two"


@every
def test_sys_topics_are_readable_by_name_and_not_by_hash(broker: Broker, version: int) -> None:
    """`$SYS/#` has something to say; `#` does not include it."""
    client = broker.connect(version)
    client.subscribe("$SYS/#")
    assert client.message(timeout=6).topic.startswith("$SYS/")


@clauses("MQTT3-4.7.2-1", "MQTT5-4.7.2-1")
@both
def test_hash_does_not_bring_sys_topics(broker: Broker, version: int) -> None:
    """Nor does `+/...`."""
    client = broker.connect(version)
    client.subscribe("#", "+/broker/#")
    assert not [packet for packet in client.quiet(1.3) if packet.kind == 3 and packet.topic.startswith("$")]
