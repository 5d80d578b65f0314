"""Shared subscriptions: each message to one member, and to another one when that member goes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import PacketType
from iot_mqtt.pipeline import OutboxSettings
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import V5, V311, Client, Node

FILTER = "$share/g/t"
NUMBERS = [b"%d" % number for number in range(12)]


def members(node: Node, count: int, qos: int = 1, expiry: int | None = None) -> list[Client]:
    """So many members, named m0, m1 …"""
    found = []
    for number in range(count):
        member = node.connect(f"m{number}", clean=expiry is None, expiry=expiry)
        member.subscribe(FILTER, qos=qos)
        found.append(member)
    return found


@pytest.mark.parametrize("expiry", [None, 60], ids=["clean", "durable"])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("together", [False, True], ids=["one-by-one", "run"])
def test_each_message_goes_to_exactly_one_member_in_turn(qos: int, expiry: int | None, together: bool) -> None:
    """[MQTT-4.8.2-4] Nobody more than one ahead, and every member sees them in order [MQTT-4.6.0-6]."""
    node = Node()
    group, writer = members(node, 3, qos, expiry), node.connect("writer")
    for run in [NUMBERS] if together else [[number] for number in NUMBERS]:
        writer.publish("t", *run, qos=qos)
    got = [member.drain() for member in group]
    assert sorted(payload for part in got for payload in part) == sorted(NUMBERS)
    assert [len(part) for part in got] == [4, 4, 4]
    assert all(part == sorted(part, key=int) for part in got)


def test_two_groups_and_a_plain_subscriber_get_one_each() -> None:
    """Groups divide among their own members only; a filter of the same name in another group is another one."""
    node = Node()
    readers = {name: node.connect(name) for name in ("plain", "g1", "g2")}
    readers["plain"].subscribe("t")
    readers["g1"].subscribe("$share/g1/t")
    readers["g2"].subscribe("$share/g2/t")
    node.connect("writer").publish("t", b"x")
    assert {name: reader.payloads() for name, reader in readers.items()} == {name: [b"x"] for name in readers}


def test_a_member_that_is_a_plain_subscriber_too_gets_both_copies() -> None:
    """Shared and plain subscriptions do not overlap."""
    node = Node()
    reader = node.connect("reader")
    reader.subscribe("t", FILTER)
    node.connect("writer").publish("t", b"x")
    assert reader.payloads() == [b"x", b"x"]


def test_members_get_a_message_at_their_own_qos() -> None:
    """[MQTT-4.8.2-3] The picked member's subscription counts, with its identifier."""
    node = Node()
    low, high = node.connect("low"), node.connect("high", V311)
    low.subscribe(FILTER, qos=0, identifier=8)
    high.subscribe(FILTER, qos=2)
    node.connect("writer").publish("t", *NUMBERS[:4], qos=1)
    got = low.messages()
    assert [(one.qos, one.properties.subscription_identifiers) for one in got] == [(0, (8,))] * 2
    assert [one.qos for one in high.messages()] == [1, 1]


def test_a_connected_member_comes_before_one_that_is_away() -> None:
    """Messages wait for an absent member only when all are absent."""
    node = Node()
    group, writer = members(node, 2, expiry=60), node.connect("writer")
    group[0].lose()
    writer.publish("t", *NUMBERS[:4], qos=1)
    assert group[1].drain() == NUMBERS[:4]
    group[1].lose()
    writer.publish("t", *NUMBERS[4:8], qos=1)
    back = [node.connect(f"m{number}", clean=False, expiry=60).drain() for number in range(2)]
    assert sorted(back[0] + back[1]) == NUMBERS[4:8]
    assert node.dropped() == {}


def test_a_message_that_no_member_can_be_kept_for_is_counted() -> None:
    """QoS 0 for a group whose members are all away."""
    node = Node()
    members(node, 1, expiry=60)[0].lose()
    node.connect("writer").publish("t", b"x")
    assert node.dropped() == {"offline_qos0": 1}


@pytest.mark.parametrize("leaves", ["loses", "disconnects", "taken over", "expires"])
def test_what_a_vanished_member_did_not_acknowledge_goes_to_another(leaves: str) -> None:
    """[MQTT-4.8.2-6] Sent or still waiting behind its window; acknowledged ones stay with it."""
    node = Node()
    expiry = 5 if leaves == "expires" else None
    gone = node.connect("gone", clean=expiry is None, expiry=expiry, receive_maximum=3)
    gone.subscribe(FILTER, qos=1)
    node.connect("writer").publish("t", *NUMBERS[:6], qos=1)
    sent = gone.messages()
    assert [one.payload for one in sent] == NUMBERS[:3]
    gone.ack(PacketType.PUBACK, sent[0].packet_id)
    (heir,) = members(node, 1)
    if leaves == "disconnects":
        gone.disconnect()
    elif leaves == "taken over":
        node.connect("gone")
    else:
        gone.lose()
    got = heir.messages()
    assert sorted(one.payload for one in got) == NUMBERS[1:6]
    assert not any(one.dup for one in got)
    assert node.dropped() == {}


@pytest.mark.parametrize("limits", [{}, {"topic_alias_maximum": 3}, {"maximum_packet_size": 5000}], ids=str)
@pytest.mark.parametrize("qos", [0, 1])
def test_what_another_gets_has_the_time_that_is_left(qos: int, limits: dict[str, Any]) -> None:
    """[MQTT-3.3.2-6] Whole seconds, and never more."""
    node = Node()
    gone = node.connect("gone")
    gone.subscribe(FILTER, qos=1)
    node.connect("writer").publish("t", b"x", qos=1, message_expiry_interval=10)
    heir = node.connect("heir", **limits)
    heir.subscribe(FILTER, qos=qos)
    node.advance(3.4)
    gone.lose()
    (message,) = heir.messages()
    assert message.properties.message_expiry_interval == 6


def test_what_an_expired_member_had_is_safe_with_its_heir_at_once() -> None:
    """The heir keeps what it gets, and nobody has to do anything for that to be committed."""
    node = Node()
    members(node, 1, expiry=5)
    node.connect("writer").publish("t", *NUMBERS[:3], qos=1)
    heir = node.connect("heir", clean=False, expiry=60)
    heir.subscribe(FILTER, qos=1)
    node.clients[0].lose()
    node.advance(6)
    assert heir.drain() == NUMBERS[:3]
    assert node.store.latest == node.store.committed


def test_an_expired_message_is_not_passed_on() -> None:
    """Its time ran while the member was away; a member at QoS 0 does not get it either."""
    node = Node()
    away = node.connect("away", clean=False, expiry=60)
    away.subscribe(FILTER, qos=1)
    node.connect("writer").publish("t", b"x", qos=1, message_expiry_interval=5)
    away.lose()
    node.advance(6)
    heir = node.connect("heir")
    heir.subscribe(FILTER, qos=0)
    assert heir.payloads() == []
    assert node.dropped() == {"expired": 1}


def test_a_qos_2_exchange_that_began_is_not_continued_with_another() -> None:
    """[MQTT-4.8.2-5] What was sent is lost with its session and counted; what was not goes on."""
    node = Node()
    gone = node.connect("gone", receive_maximum=2)
    gone.subscribe(FILTER, qos=2)
    node.connect("writer").publish("t", *NUMBERS[:4], qos=2)
    (heir,) = members(node, 1, qos=2)
    gone.lose()
    assert heir.payloads() == NUMBERS[2:4]
    assert node.dropped() == {"session_ended": 2}


def test_the_last_member_takes_its_messages_along() -> None:
    """There is nobody to pass them on to."""
    node = Node()
    (only,) = members(node, 1)
    node.connect("writer").publish("t", *NUMBERS[:3], qos=1)
    only.lose()
    assert node.dropped() == {"session_ended": 3}


def test_a_member_whose_outbox_is_full_is_passed_over() -> None:
    """One that reads comes first."""
    node = Node(outbox=OutboxSettings(high_water=100, low_water=10, hard_limit=100_000))
    slow, quick = members(node, 2)
    slow.subscribe("stuff")
    slow.wire.link.capacity = 0
    writer = node.connect("writer")
    writer.publish("stuff", b"x" * 200)
    writer.publish("t", *NUMBERS[:6], qos=1)
    assert quick.payloads() == NUMBERS[:6]


@pytest.mark.parametrize(
    ("policy", "shares"),
    [("round_robin", [4, 4, 4]), ("sticky", [0, 0, 12]), ("hash_client", [0, 0, 12]), ("least_inflight", [4, 4, 4])],
)
def test_the_policy_is_a_setting(policy: str, shares: list[int]) -> None:
    """How the messages of one publisher divide among three members that acknowledge nothing."""
    node = Node(MqttSettings(shared_policy=policy))
    group, writer = members(node, 3), node.connect("writer")
    for number in NUMBERS:
        writer.publish("t", number, qos=1)
    assert sorted(len(member.payloads()) for member in group) == shares


@pytest.mark.parametrize("version", [V311, V5], ids=["v3.1.1", "v5"])
def test_retained_messages_are_not_sent_to_a_group(version: ProtocolVersion) -> None:
    """[MQTT-3.8.4-4] Whoever joins."""
    node = Node()
    node.connect("writer").publish("t", b"x", retain=True)
    member = node.connect("member", version)
    member.subscribe(FILTER)
    assert member.payloads() == []


def test_a_run_over_many_members_is_counted_once_per_message() -> None:
    """One receiver each, whoever it is."""
    node = Node()
    group = members(node, 5)
    node.connect("writer").publish("t", *NUMBERS, qos=1)
    assert node.counters.messages_matched == len(NUMBERS)
    assert Counter(len(member.drain()) for member in group) == {2: 3, 3: 2}
    assert node.counters.messages_delivered == len(NUMBERS)
