"""Asking for a replay: forms, rights, the user property of MQTT 5, and what a client may call it afterwards."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.settings import LogUse, MqttSettings
from iot_mqtt.codec import Properties, Request, Suback, Subscribe
from iot_mqtt.errors import Malformed, ReasonCode, Refused
from iot_mqtt.topics import parse_replay, validate_filter
from tests.doubles.rights import Ruled
from tests.unit.broker.harness import V311, Client, Node
from tests.unit.broker.logreaders import check, durable, numbers, publish

INVALID, FORBIDDEN = ReasonCode.TOPIC_FILTER_INVALID, ReasonCode.NOT_AUTHORIZED
RECORDED = LogUse(record=("#",))


def since(client: Client, begin: str, *filters: str, qos: int = 1, retain_handling: int = 0) -> tuple[int, ...]:
    """SUBSCRIBE with the user property, and its reasons."""
    requests = tuple(Request(one, qos, retain_handling=retain_handling) for one in filters)
    properties = Properties(user_properties=(("other", "x"), ("replay", begin)))
    client.send(Subscribe(client.next_id(), requests, properties))
    (suback,) = client.take(Suback)
    return suback.reasons


@pytest.mark.parametrize(
    "filter",
    [
        "$replay/",
        "$replay/1h",
        "$replay/1h/",
        "$replay//t",
        "$replay/yesterday/t",
        "$replay/1y/t",
        "$replay/-5/t",
        "$replay/1.5h/t",
        "$replay/+/t",
        "$replay/2026-13-01/t",
        "$replay/2026-11-21T08:00:00+25:00/t",
        "$replay/123456789012345678901/t",
        "$replay/1234567890s/t",
        "$replay/٣/t",
        "$replay/1h/$share/g/t",
        "$replay/1h/$replay/1h/t",
        "$share/g/$replay/1h/t",
    ],
)
def test_what_is_no_replay_is_refused(filter: str) -> None:
    """In SUBACK, with 0x8F or what 3.1.1 has; the others of the packet are served."""
    node = Node()
    assert node.connect("five").subscribe(filter, "t", qos=1).reasons == (INVALID, 1)
    assert node.connect("three", V311).subscribe(filter, "t", qos=1).reasons == (ReasonCode.UNSPECIFIED_ERROR, 1)


def test_the_user_property_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many filters a packet has: it may have many properties, too."""
    asked: list[str] = []
    named = Properties.named

    def counted(properties: Properties, name: str) -> list[str]:
        asked.append(name)
        return named(properties, name)

    monkeypatch.setattr(Properties, "named", counted)
    node = Node(log_use=RECORDED)
    assert since(node.connect("c"), "1h", *(f"t/{number}" for number in range(10))) == (1,) * 10
    assert asked.count("replay") == 1


def test_the_inner_filter_is_a_filter_like_any() -> None:
    """Its wildcards and its levels are checked, those of the beginning are none."""
    validate_filter("$replay/2026-11-21T08:00:00+02:00/a/+/#")
    validate_filter("$replay/1h/" + "a/" * 9 + "a", max_levels=10)
    for wrong in ("a#", "#/a", "a/b+", "a\0"):
        with pytest.raises(Malformed):
            validate_filter(f"$replay/1h/{wrong}")
    with pytest.raises(Refused):
        validate_filter("$replay/1h/" + "a/" * 10 + "a", max_levels=10)
    assert parse_replay("$replay/1h/a/b") == ("1h", "a/b")
    assert parse_replay("$replays/1h/a") is None
    assert parse_replay("a/$replay/1h/a") is None


def test_wildcards_that_are_not_offered() -> None:
    """A plus in a time is not one of them."""
    node = Node(MqttSettings(wildcard_available=False), log_use=RECORDED)
    client = node.connect("c")
    when = "2026-11-21T08:00:00+02:00"
    refused = ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
    assert client.subscribe(f"$replay/{when}/t", f"$replay/{when}/+", qos=1).reasons == (1, refused)


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ("allow read #", False),
        ("allow replay #", False),
        ("allow read #\nallow replay #", True),
        ("allow all #", True),
        ("allow read a/#\nallow replay a/b", True),
        ("allow read a/b\nallow replay a/c", False),
        ("deny replay a/b\nallow all #", False),
        ("deny read a/b\nallow all #", False),
        ("deny replay +/b\nallow all #", False),
        ("deny replay a/c\nallow all #", True),
    ],
)
def test_it_needs_a_right_of_its_own(rules: str, allowed: bool) -> None:
    """And the right to subscribe; both are held against the inner filter."""
    node = Node(authorizer=Ruled(rules), log_use=RECORDED)
    client = node.connect("c")
    expected = 1 if allowed else FORBIDDEN
    assert client.subscribe("$replay/1h/a/b", qos=1).reasons == (expected,)
    assert since(client, "1h", "a/b") == (expected,)
    assert bool(node.counters.denied) != allowed
    old = node.connect("old", V311)
    assert old.subscribe("$replay/1h/a/b", qos=1).reasons == (1 if allowed else ReasonCode.UNSPECIFIED_ERROR,)


def test_without_rules_whoever_was_let_in_may() -> None:
    """As with everything else."""
    assert Node(log_use=RECORDED).connect("c").subscribe("$replay/1h/a/b", qos=2).reasons == (2,)


def test_the_property_makes_every_plain_filter_a_replay() -> None:
    """Shared ones are refused, and one that names its own beginning has that."""
    node = Node(log_use=RECORDED)
    publish(node, 0, 2, "a")
    publish(node, 2, 4, "b")
    publish(node, 4, 6, "c")
    client = node.connect("c")
    own = f"$replay/{node.log.end}/c"
    assert since(client, "0", "a", "$share/g/a", own, "b") == (1, INVALID, 1, 1)
    assert sorted(client.drain()) == numbers(0, 4)
    assert since(client, "whenever", "a", "d") == (INVALID, INVALID)
    assert since(client, "1h", "x" * 65_530) == (INVALID,)


def test_unsubscribing_takes_the_plain_filter() -> None:
    """The name that the client gave it."""
    node = Node(log_use=RECORDED)
    publish(node, 0, 2)
    client = durable(node)
    assert since(client, "0", "t") == (1,)
    assert client.drain() == numbers(0, 2)
    node.restart()
    client = durable(node)
    publish(node, 2, 3)
    assert client.drain() == numbers(2, 3)
    assert client.unsubscribe("t").reasons == (ReasonCode.SUCCESS,)
    publish(node, 3, 4)
    assert client.drain() == []
    assert client.unsubscribe("t").reasons == (ReasonCode.NO_SUBSCRIPTION_EXISTED,)
    node.restart()
    assert durable(node).drain() == []


def test_the_same_filter_is_the_same_subscription() -> None:
    """[MQTT-3.8.4-3] With the property and without: one replaces the other, and never are there two copies."""
    node = Node(MqttSettings(max_subscriptions_per_client=1), log_use=RECORDED)
    client = durable(node)
    client.subscribe("t", qos=1)
    publish(node, 0, 2)
    assert client.drain() == numbers(0, 2)
    assert since(client, "0", "t") == (1,)
    publish(node, 2, 3)
    assert client.drain() == numbers(0, 3)
    assert since(client, "1h", "t") == (1,)
    assert client.drain() == numbers(0, 3)
    assert client.subscribe("t", qos=1).reasons == (1,)
    publish(node, 3, 4)
    assert client.drain() == numbers(3, 4)
    assert list(node.session("reader").subscriptions) == ["t"]
    check(node)


def test_retained_messages_after_a_replay_of_the_same_filter() -> None:
    """It is no new subscription, whatever it was before."""
    node = Node(log_use=RECORDED)
    node.connect("writer").publish("t", b"kept", qos=1, retain=True)
    client = durable(node)
    assert since(client, str(node.log.end), "t") == (1,)
    assert client.subscribe("t", qos=1, retain_handling=1).reasons == (1,)
    assert client.drain() == []


def test_a_filter_that_names_its_beginning_is_one_of_its_own() -> None:
    """Neither replaces a plain one nor is taken away with it."""
    node = Node(log_use=RECORDED)
    client = durable(node)
    client.subscribe("t", "$replay/0/t", qos=1)
    assert client.unsubscribe("t").reasons == (ReasonCode.SUCCESS,)
    assert client.unsubscribe("t").reasons == (ReasonCode.NO_SUBSCRIPTION_EXISTED,)
    publish(node, 0, 1)
    assert client.drain() == numbers(0, 1)
    assert client.unsubscribe("$replay/0/t").reasons == (ReasonCode.SUCCESS,)
