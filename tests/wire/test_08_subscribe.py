"""Subscriptions: options, overlap, replacement, identifiers, unsubscribing."""

from __future__ import annotations

import pytest

from . import packets
from .clauses import clauses
from .conftest import Broker
from .packets import PUBACK, PUBCOMP, PUBREC, PUBREL, V5
from .versions import both


@clauses("MQTT5-3.8.3-3")
def test_no_local_keeps_a_clients_own_messages_from_it(broker: Broker) -> None:
    """Others get them, and it gets those of others."""
    topic = broker.topic()
    client, other = broker.connect(V5), broker.connect(V5)
    client.subscribe(topic, no_local=1)
    other.subscribe(topic)
    client.publish(topic, "mine")
    assert other.message().payload == b"mine"
    other.publish(topic, "yours")
    assert client.message().payload == b"yours"
    client.no_message(0.1)


@clauses("MQTT5-3.8.3-3")
def test_no_local_is_of_one_subscription_and_not_of_its_neighbours(broker: Broker) -> None:
    """A second, overlapping subscription without no-local gets the message."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.subscribe(topic, no_local=1, identifier=1, qos=1)
    client.subscribe(f"{topic}/#", identifier=2)
    client.publish(topic, "mine", qos=1)
    got = client.message()
    assert (got.identifiers, got.qos) == ([2], 0)
    client.no_message()


@clauses("MQTT5-3.8.3-3")
def test_no_local_goes_by_client_id_across_a_reconnect(broker: Broker) -> None:
    """A message of the client's previous connection is still its own."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(V5, name)
    first.subscribe(topic, no_local=1, qos=1)
    first.disconnect()
    again = broker.resumed(V5, name)
    again.publish(topic, "mine", qos=1)
    again.no_message()


@clauses("MQTT5-3.3.4-2", "MQTT3-3.3.5-1", "MQTT5-3.3.4-3", "MQTT5-3.3.4-4", "MQTT5-3.3.4-5")
def test_overlapping_subscriptions_deliver_with_their_identifiers(broker: Broker) -> None:
    """One copy at the highest QoS with all identifiers, or a copy for each with its own."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.subscribe(topic, qos=0, identifier=1)
    client.subscribe(f"{topic}/#", qos=2, identifier=200)
    client.subscribe(topic.rsplit("/", 1)[0] + "/+", qos=1, identifier=30_000)
    broker.connect(V5).publish(topic, "x", qos=2)
    got = client.message()
    if len(got.identifiers) == 1:
        copies = [got, *client.messages(2)]
        assert sorted((copy.identifiers[0], copy.qos) for copy in copies) == [(1, 0), (200, 2), (30_000, 1)]
    else:
        assert (got.identifiers, got.qos) == ([1, 200, 30_000], 2)
    client.no_message(0.1)


@clauses("MQTT3-3.3.5-1", "MQTT5-3.3.4-2")
@both
def test_overlapping_subscriptions_respect_the_highest_qos(broker: Broker, version: int) -> None:
    """Of one or more copies, one has the highest QoS granted."""
    topic = broker.topic()
    client = broker.connect(version)
    client.subscribe(f"{topic}/#", qos=0)
    client.subscribe(topic, qos=2)
    broker.connect(version).publish(topic, "x", qos=2)
    copies = [client.message()]
    copies += [packet for packet in client.quiet(0.3) if packet.kind == packets.PUBLISH]
    assert 1 <= len(copies) <= 2
    assert max(copy.qos for copy in copies) == 2


@clauses("MQTT5-3.3.4-3")
def test_a_subscription_without_identifier_delivers_without_one(broker: Broker) -> None:
    """And an identifier is not left over from a subscription that was replaced."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.subscribe(topic, identifier=5)
    client.subscribe(topic)
    client.publish(topic, "x")
    assert client.message().identifiers == []


@clauses("MQTT5-3.3.4-3", "MQTT5-3.8.4-3")
def test_a_new_identifier_replaces_the_old_one(broker: Broker) -> None:
    """Subscribing again with another identifier."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.subscribe(topic, identifier=5)
    client.subscribe(topic, identifier=6)
    client.publish(topic, "x")
    assert client.message().identifiers == [6]


@clauses("MQTT5-3.3.4-3")
def test_an_identifier_belongs_to_every_filter_of_its_subscribe(broker: Broker) -> None:
    """One SUBSCRIBE, two filters, one identifier."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.subscribe(f"{topic}/a", f"{topic}/b", identifier=9)
    client.publish(f"{topic}/a", "x")
    client.publish(f"{topic}/b", "x")
    assert [packet.identifiers for packet in client.messages(2)] == [[9], [9]]


@clauses("MQTT5-3.3.4-3")
def test_identifiers_survive_with_the_session(broker: Broker) -> None:
    """A resumed session delivers with the identifiers it was given, to waiting messages as well."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(V5, name)
    first.subscribe(topic, qos=1, identifier=77)
    first.disconnect()
    publisher = broker.connect(V5)
    publisher.publish(topic, "waited", qos=1)
    again = broker.resumed(V5, name)
    publisher.publish(topic, "live", qos=1)
    assert [(packet.payload, packet.identifiers) for packet in again.messages(2)] == [
        (b"waited", [77]),
        (b"live", [77]),
    ]


@clauses("MQTT3-3.8.4-3", "MQTT5-3.8.4-3")
@both
def test_subscribing_again_replaces_the_subscription(broker: Broker, version: int) -> None:
    """One copy, at the QoS of the newer request."""
    topic = broker.topic()
    client = broker.connect(version)
    client.subscribe(topic, qos=0)
    client.subscribe(topic, qos=1)
    client.publish(topic, "x", qos=2)
    assert client.message().qos == 1
    client.no_message()


@clauses("MQTT3-3.8.4-3", "MQTT5-3.8.4-4")
@both
def test_replacing_a_subscription_loses_no_message(broker: Broker, version: int) -> None:
    """A publisher goes on while the subscriber subscribes again."""
    topic = broker.topic()
    client, publisher = broker.connect(version), broker.connect(version)
    client.subscribe(topic, qos=1)
    for number in range(30):
        publisher.send(packets.publish(version, topic, str(number).encode(), qos=1, packet_id=number + 1))
        if number % 10 == 5:
            client.subscribe(topic, qos=1)
    assert [int(message.payload) for message in client.messages(30)] == list(range(30))


@clauses("MQTT3-3.10.4-2", "MQTT5-3.10.4-2", "MQTT3-3.10.4-1", "MQTT5-3.10.4-1")
@both
def test_after_unsubscribing_nothing_more_comes(broker: Broker, version: int) -> None:
    """From the UNSUBACK on."""
    topic = broker.topic()
    client = broker.connect(version)
    client.subscribe(topic, qos=1)
    client.unsubscribe(topic)
    client.publish(topic, "x", qos=1)
    client.no_message()


@clauses("MQTT3-3.10.4-1", "MQTT5-3.10.4-1")
@both
def test_unsubscribing_compares_filters_character_by_character(broker: Broker, version: int) -> None:
    """A wildcard filter does not remove what it matches, and case counts."""
    topic = broker.topic("Level")
    client = broker.connect(version)
    client.subscribe(topic)
    reasons = client.unsubscribe(topic.rsplit("/", 1)[0] + "/+", topic.lower(), topic + "/")
    assert reasons in ((), (0x11, 0x11, 0x11))
    client.publish(topic, "x")
    assert client.message().payload == b"x"


@clauses("MQTT3-3.10.4-6", "MQTT5-3.10.4-6")
@both
def test_several_filters_are_unsubscribed_at_once(broker: Broker, version: int) -> None:
    """As if each had its own UNSUBSCRIBE."""
    topic = broker.topic()
    client = broker.connect(version)
    client.subscribe(f"{topic}/a", f"{topic}/b", f"{topic}/c")
    client.unsubscribe(f"{topic}/a", f"{topic}/c")
    for level in "abc":
        client.publish(f"{topic}/{level}", level)
    assert client.message().payload == b"b"
    client.no_message(0.1)


@clauses("MQTT3-3.10.4-3", "MQTT5-3.10.4-3")
@both
@pytest.mark.parametrize("qos", [1, 2])
def test_deliveries_under_way_are_finished_after_unsubscribing(broker: Broker, version: int, qos: int) -> None:
    """An exchange that has begun runs to its end."""
    topic, name = broker.topic(), broker.name()
    client = broker.durable(version, name)
    client.subscribe(topic, qos=qos)
    broker.connect(version).publish(topic, "begun", qos=qos)
    begun = client.message(acknowledge=False)
    client.unsubscribe(topic)
    if qos == 2:
        client.ack(PUBREC, begun.packet_id)
        assert client.expect(PUBREL).packet_id == begun.packet_id
        client.ack(PUBCOMP, begun.packet_id)
        return
    client.drop()
    again = broker.resumed(version, name)
    assert again.message().packet_id == begun.packet_id


@clauses("MQTT3-3.8.4-4", "MQTT5-3.8.4-5")
@both
def test_the_same_filter_twice_in_one_subscribe_counts_as_two_subscribes(broker: Broker, version: int) -> None:
    """The last one stands, and there is one code for each."""
    topic = broker.topic()
    client = broker.connect(version)
    assert client.subscribe((topic, 2), (topic, 1)) == (2, 1)
    client.publish(topic, "x", qos=2)
    assert client.message().qos == 1
    client.no_message(0.1)


@clauses("MQTT5-3.9.3-2", "MQTT5-4.7.1-1", "MQTT5-4.7.1-2", "MQTT3-4.7.1-2", "MQTT3-4.7.1-3")
@both
@pytest.mark.parametrize("bad", ["a/#/b", "a#", "#a", "a/b+", "+a", "a/+b/c", "##", "++"])
def test_misplaced_wildcards_are_refused(broker: Broker, version: int, bad: str) -> None:
    """Before version 5 a close or SUBACK 0x80; in 5 SUBACK 0x8F, or DISCONNECT with 0x8F or as malformed."""
    client = broker.connect(version)
    client.send(packets.subscribe(version, 1, [(bad, 0)]))
    answer = client.receive()
    if answer is None:
        assert version != V5 or broker.lenient, "closed without a DISCONNECT"
    elif answer.kind == packets.SUBACK:
        assert answer.reasons == ((0x8F,) if version == V5 else (0x80,)), str(answer)
    else:
        assert answer.kind == packets.DISCONNECT and answer.reason in (0x8F, 0x81, 0x82), str(answer)


@clauses("MQTT3-4.7.3-1", "MQTT5-4.7.3-1")
@both
def test_an_empty_filter_is_refused(broker: Broker, version: int) -> None:
    """The same answers as for a misplaced wildcard."""
    client = broker.connect(version)
    client.send(packets.subscribe(version, 1, [("", 0)]))
    answer = client.receive()
    if answer is not None and answer.kind == packets.SUBACK:
        assert answer.reasons[0] in (0x80, 0x8F)
    elif answer is not None:
        assert answer.kind == packets.DISCONNECT and answer.reason in (0x8F, 0x81, 0x82), str(answer)


@both
def test_a_subscribe_with_many_filters_is_answered_whole(broker: Broker, version: int) -> None:
    """Two thousand filters in one packet."""
    topic = broker.topic()
    client = broker.connect(version)
    assert client.subscribe(*(f"{topic}/{number}" for number in range(2000)), qos=1) == (1,) * 2000
    client.publish(f"{topic}/1999", "x", qos=1)
    assert client.message().payload == b"x"


@clauses("MQTT3-3.8.3-2", "MQTT3-4.7.1-2", "MQTT3-4.7.1-3", "MQTT5-4.7.1-1", "MQTT5-4.7.1-2")
@both
def test_wildcards_are_supported(broker: Broker, version: int) -> None:
    """Both kinds, alone and together."""
    topic = broker.topic()
    client = broker.connect(version)
    client.subscribe(f"{topic}/+/end", f"{topic}/deep/#")
    client.publish(f"{topic}/any/end", "plus")
    client.publish(f"{topic}/deep/a/b", "hash")
    client.publish(f"{topic}/any/other", "neither")
    assert [packet.payload for packet in client.messages(2)] == [b"plus", b"hash"]
    client.no_message(0.1)


@pytest.mark.variant("no_identifiers")
@clauses("MQTT5-3.9.3-2")
def test_identifiers_are_refused_where_they_are_not_available(broker: Broker) -> None:
    """CONNACK says so; a SUBSCRIBE with one is DISCONNECT 0xA1."""
    client = broker.connect(V5)
    assert client.connack.properties.get("subscription_identifier_available") == 0
    client.send(packets.subscribe(V5, 1, [(broker.topic(), 0)], subscription_identifier=1))
    broker.refused(client, 0xA1)


@pytest.mark.variant("no_wildcard")
@clauses("MQTT5-3.9.3-2", "MQTT3-3.8.3-2")
@both
def test_wildcards_are_refused_where_they_are_not_available(broker: Broker, version: int) -> None:
    """In version 5 SUBACK or DISCONNECT 0xA2, before that SUBACK 0x80."""
    client = broker.connect(version)
    client.send(packets.subscribe(version, 1, [(f"{broker.topic()}/#", 0)]))
    answer = client.receive()
    assert answer is not None
    if answer.kind == packets.SUBACK:
        assert answer.reasons == ((0xA2,) if version == V5 else (0x80,)), str(answer)
    else:
        assert answer.reason == 0xA2, str(answer)


def test_a_subscriber_of_its_own_topic_gets_suback_before_messages_it_waits_for(broker: Broker) -> None:
    """A SUBSCRIBE and a PUBLISH in one write."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.send(packets.subscribe(V5, 1, [(topic, 1)]), packets.publish(V5, topic, b"x", qos=1, packet_id=2))
    kinds = {client.expect(packets.SUBACK).kind, client.expect(PUBACK).kind, client.message().kind}
    assert kinds == {packets.SUBACK, PUBACK, packets.PUBLISH}
