"""Shared subscriptions."""

from __future__ import annotations

import time

import pytest

from . import packets
from .clauses import clauses
from .client import Client
from .conftest import Broker
from .packets import PUBACK, PUBLISH, PUBREC, V5, V311
from .versions import both


def gather(clients: list[Client], count: int, seconds: float = 5.0) -> list[list[packets.Packet]]:
    """What each client got, until ``count`` messages have come in all, acknowledged at QoS 1."""
    got: list[list[packets.Packet]] = [[] for _ in clients]
    end = time.monotonic() + seconds
    while sum(map(len, got)) < count and time.monotonic() < end:
        for client, mine in zip(clients, got, strict=True):
            for packet in client.quiet(0.02):
                if packet.kind == PUBLISH:
                    mine.append(packet)
                    if packet.qos == 1:
                        client.ack(PUBACK, packet.packet_id)
    return got


@clauses("MQTT5-4.8.2-1", "MQTT5-4.8.2-3")
@both
@pytest.mark.parametrize("qos", [0, 1])
def test_each_message_goes_to_one_member_of_the_group(broker: Broker, version: int, qos: int) -> None:
    """No message twice, none lost, and every member has a share of them."""
    topic, group = broker.topic(), broker.name()
    members = [broker.connect(version) for _ in range(3)]
    for member in members:
        assert member.subscribe(f"$share/{group}/{topic}", qos=qos) == (qos,)
    writer = broker.connect(version)
    for number in range(30):
        writer.publish(topic, str(number), qos=qos)
    got = gather(members, 30)
    assert sorted(int(packet.payload) for mine in got for packet in mine) == list(range(30))
    assert all(got)


@both
def test_two_groups_and_a_plain_subscription_each_get_every_message(broker: Broker, version: int) -> None:
    """Groups are independent of one another and of other subscriptions."""
    topic = broker.topic()
    readers = [broker.connect(version) for _ in range(3)]
    readers[0].subscribe(f"$share/{broker.name()}/{topic}", qos=1)
    readers[1].subscribe(f"$share/{broker.name()}/{topic}", qos=1)
    readers[2].subscribe(topic, qos=1)
    writer = broker.connect(version)
    for number in range(5):
        writer.publish(topic, str(number), qos=1)
    assert [[packet.payload for packet in mine] for mine in gather(readers, 15)] == [[b"0", b"1", b"2", b"3", b"4"]] * 3


@both
def test_a_client_may_have_a_shared_and_a_plain_subscription_to_one_filter(broker: Broker, version: int) -> None:
    """Two copies: the share of the group and its own."""
    topic = broker.topic()
    client = broker.connect(version)
    client.subscribe(f"$share/{broker.name()}/{topic}", topic, qos=1)
    client.publish(topic, "x", qos=1)
    client.messages(2)
    client.no_message(0.1)


@clauses("MQTT5-4.8.2-2")
@both
def test_shared_subscriptions_take_wildcards(broker: Broker, version: int) -> None:
    """The filter behind the share name is a filter like any other."""
    topic = broker.topic()
    client = broker.connect(version)
    client.subscribe(f"$share/{broker.name()}/{topic}/+/#")
    client.publish(f"{topic}/a/b", "x")
    assert client.message().topic == f"{topic}/a/b"


@clauses("MQTT5-4.8.2-3", "MQTT5-3.8.4-8")
def test_members_get_messages_at_their_own_qos(broker: Broker) -> None:
    """One member at QoS 0, one at QoS 1, messages at QoS 2."""
    topic, group = broker.topic(), broker.name()
    members = [broker.connect(V5), broker.connect(V5)]
    for qos, member in enumerate(members):
        member.subscribe(f"$share/{group}/{topic}", qos=qos)
    writer = broker.connect(V5)
    for number in range(10):
        writer.publish(topic, str(number), qos=2)
    got = gather(members, 10)
    assert {packet.qos for packet in got[0]} <= {0} and {packet.qos for packet in got[1]} <= {1}
    assert sum(map(len, got)) == 10


@both
def test_a_member_that_unsubscribes_gets_no_more(broker: Broker, version: int) -> None:
    """The others take its share."""
    topic, group = broker.topic(), broker.name()
    members = [broker.connect(version), broker.connect(version)]
    for member in members:
        member.subscribe(f"$share/{group}/{topic}", qos=1)
    assert members[0].unsubscribe(f"$share/{group}/{topic}") in ((), (0,))
    writer = broker.connect(version)
    for number in range(10):
        writer.publish(topic, str(number), qos=1)
    got = gather(members, 10)
    assert (len(got[0]), len(got[1])) == (0, 10)


@both
def test_a_member_that_leaves_is_passed_over(broker: Broker, version: int) -> None:
    """Its session has ended, so its share goes to the others."""
    topic, group = broker.topic(), broker.name()
    members = [broker.connect(version), broker.connect(version)]
    for member in members:
        member.subscribe(f"$share/{group}/{topic}", qos=1)
    members[0].disconnect()
    writer = broker.connect(version)
    for number in range(10):
        writer.publish(topic, str(number), qos=1)
    assert [int(packet.payload) for packet in gather(members[1:], 10)[0]] == list(range(10))


@clauses("MQTT5-3.3.4-3")
def test_a_shared_subscription_has_its_identifier(broker: Broker) -> None:
    """Subscription identifiers go with shared deliveries too."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.subscribe(f"$share/{broker.name()}/{topic}", identifier=12)
    client.publish(topic, "x")
    assert client.message().identifiers == [12]


@clauses("MQTT5-4.8.2-6", "MQTT5-4.4.0-2")
def test_a_message_that_a_member_refuses_goes_to_no_other(broker: Broker) -> None:
    """PUBACK and PUBREC with an error discard it."""
    topic, group = broker.topic(), broker.name()
    members = [broker.connect(V5), broker.connect(V5)]
    for member in members:
        member.subscribe(f"$share/{group}/{topic}", qos=2)
    writer = broker.connect(V5)
    for qos, kind in ((1, PUBACK), (2, PUBREC)):
        writer.publish(topic, "unwanted", qos=qos)
        found = [(member, packet) for member in members for packet in member.quiet(0.3) if packet.kind == PUBLISH]
        assert len(found) == 1
        found[0][0].ack(kind, found[0][1].packet_id, 0x80)
        for member in members:
            member.no_message()


@clauses("MQTT5-4.8.2-4")
def test_a_qos_2_delivery_is_finished_with_the_member_that_began_it(broker: Broker) -> None:
    """It reconnects and gets the same message again, the other member does not."""
    topic, group = broker.topic(), broker.name()
    names = [broker.name(), broker.name()]
    members = [broker.durable(V5, name) for name in names]
    for member in members:
        member.subscribe(f"$share/{group}/{topic}", qos=2)
    broker.connect(V5).publish(topic, "x", qos=2)
    got = [[packet for packet in member.quiet(0.3) if packet.kind == PUBLISH] for member in members]
    began = 0 if got[0] else 1
    assert len(got[began]) == 1 and not got[1 - began]
    members[began].drop()
    members[1 - began].no_message()
    again = broker.resumed(V5, names[began])
    resent = again.message()
    assert (resent.packet_id, resent.dup) == (got[began][0].packet_id, True)


@clauses("MQTT5-4.8.2-5")
def test_a_qos_2_delivery_that_began_goes_to_no_other_when_the_session_ends(broker: Broker) -> None:
    """Exactly once is kept by not trying again elsewhere."""
    topic, group = broker.topic(), broker.name()
    members = [broker.connect(V5), broker.connect(V5)]
    for member in members:
        member.subscribe(f"$share/{group}/{topic}", qos=2)
    broker.connect(V5).publish(topic, "x", qos=2)
    got = [[packet for packet in member.quiet(0.3) if packet.kind == PUBLISH] for member in members]
    began = 0 if got[0] else 1
    assert len(got[began]) == 1
    members[began].disconnect()
    members[1 - began].no_message(0.4)


@both
def test_the_share_name_does_not_hide_the_filter_from_dollar_rules(broker: Broker, version: int) -> None:
    """A publish to a topic that begins with $share is an ordinary topic or refused; nobody in the group gets it."""
    topic, group = broker.topic(), broker.name()
    client = broker.connect(version)
    client.subscribe(f"$share/{group}/{topic}")
    broker.connect(version).publish(f"$share/{group}/{topic}", "x")
    client.no_message()


@clauses("MQTT5-3.9.3-2")
@pytest.mark.variant("no_shared")
def test_shared_subscriptions_are_refused_where_they_are_not_available(broker: Broker) -> None:
    """CONNACK says 0; SUBACK or DISCONNECT 0x9E."""
    client = broker.connect(V5)
    assert client.connack.properties.get("shared_subscription_available") == 0
    client.send(packets.subscribe(V5, 1, [(f"$share/g/{broker.topic()}", 0)]))
    answer = client.receive()
    assert answer is not None and 0x9E in (answer.reason, *answer.reasons), str(answer)


def test_members_of_both_versions_share_one_group(broker: Broker) -> None:
    """A 3.1.1 and a v5 member divide the messages between them."""
    topic, group = broker.topic(), broker.name()
    members = [broker.connect(V5), broker.connect(V311)]
    for member in members:
        member.subscribe(f"$share/{group}/{topic}", qos=1)
    writer = broker.connect(V5)
    for number in range(10):
        writer.publish(topic, str(number), qos=1)
    assert sorted(int(packet.payload) for mine in gather(members, 10) for packet in mine) == list(range(10))


@clauses("MQTT3-4.4.0-1", "MQTT5-4.4.0-1")
@both
def test_the_only_member_gets_again_what_it_did_not_confirm(broker: Broker, version: int) -> None:
    """With DUP and the same ids, as without a group."""
    topic, group, name = broker.topic(), broker.name(), broker.name()
    first = broker.durable(version, name)
    first.subscribe(f"$share/{group}/{topic}", qos=1)
    writer = broker.connect(version)
    for number in range(3):
        writer.publish(topic, str(number), qos=1)
    before = first.messages(3, acknowledge=False)
    first.drop()
    after = broker.resumed(version, name).messages(3)
    assert [(one.packet_id, one.payload, one.dup) for one in after] == [
        (one.packet_id, one.payload, True) for one in before
    ]
