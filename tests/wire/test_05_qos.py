"""QoS 0, 1 and 2 in both directions: exchanges, packet ids, DUP, flow control."""

from __future__ import annotations

import pytest

from . import packets
from .clauses import clauses
from .conftest import Broker
from .packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, V5, V31, V311
from .versions import any_qos, both, every


@clauses(
    "MQTT3-4.3.1-1",
    "MQTT5-4.3.1-1",
    "MQTT3-3.3.1-2",
    "MQTT5-3.3.1-2",
    "MQTT3-2.3.1-5",
    "MQTT5-2.2.1-2",
    "MQTT3-3.3.2-3",
    "MQTT5-3.3.2-3",
)
@every
def test_qos_0_arrives_once_without_id_and_dup(broker: Broker, version: int) -> None:
    """PUBLISH with QoS 0 and DUP 0, on its own topic."""
    topic = broker.topic()
    reader = broker.connect(version)
    reader.subscribe(topic, qos=2)
    broker.connect(version).publish(topic, "payload", qos=0)
    got = reader.message()
    assert (got.topic, got.payload, got.qos, got.dup, got.retain) == (topic, b"payload", 0, False, False)
    reader.no_message(0.1)


@clauses("MQTT3-4.3.2-1", "MQTT5-4.3.2-2", "MQTT5-4.3.2-3", "MQTT3-2.3.1-4", "MQTT5-2.2.1-4", "MQTT5-4.3.2-1")
@every
def test_qos_1_arrives_with_an_id_and_without_dup(broker: Broker, version: int) -> None:
    """A first delivery has DUP 0 and an id that is not 0."""
    topic = broker.topic()
    reader = broker.connect(version)
    reader.subscribe(topic, qos=1)
    broker.connect(version).publish(topic, "payload", qos=1)
    got = reader.message()
    assert (got.payload, got.qos, got.dup) == (b"payload", 1, False)
    assert got.packet_id > 0
    reader.no_message(0.1)


@clauses(
    "MQTT3-4.3.3-1",
    "MQTT5-4.3.3-2",
    "MQTT5-4.3.3-4",
    "MQTT5-3.6.2-1",
    "MQTT3-2.3.1-6",
    "MQTT5-2.2.1-5",
    "MQTT5-4.3.3-1",
)
@every
def test_qos_2_is_released_with_the_same_id(broker: Broker, version: int) -> None:
    """PUBLISH, PUBREC, PUBREL, PUBCOMP with one id."""
    topic = broker.topic()
    reader = broker.connect(version)
    reader.subscribe(topic, qos=2)
    broker.connect(version).publish(topic, "payload", qos=2)
    got = reader.message(acknowledge=False)
    assert (got.payload, got.qos, got.dup) == (b"payload", 2, False)
    reader.ack(PUBREC, got.packet_id)
    release = reader.expect(PUBREL)
    assert (release.packet_id, release.reason) == (got.packet_id, 0)
    reader.ack(PUBCOMP, got.packet_id)
    reader.no_message(0.1)


@clauses("MQTT3-3.3.1-3", "MQTT5-3.3.1-3", "MQTT5-4.3.2-5")
@both
def test_dup_of_the_publisher_is_not_passed_on(broker: Broker, version: int) -> None:
    """DUP says that this very packet is sent again, on this hop."""
    topic = broker.topic()
    reader = broker.connect(version)
    reader.subscribe(topic, qos=1)
    broker.connect(version).publish(topic, "x", qos=1, dup=True)
    assert not reader.message().dup


@clauses("MQTT3-4.3.2-2", "MQTT5-4.3.2-5")
@both
def test_after_puback_the_same_id_is_a_new_message(broker: Broker, version: int) -> None:
    """Even with DUP set."""
    topic = broker.topic()
    reader = broker.connect(version)
    reader.subscribe(topic, qos=1)
    publisher = broker.connect(version)
    for dup in (False, True):
        publisher.send(packets.publish(version, topic, b"x", qos=1, packet_id=9, dup=dup))
        assert publisher.expect(PUBACK).packet_id == 9
    reader.messages(2)


@clauses("MQTT3-4.3.3-2", "MQTT5-4.3.3-10")
@every
def test_a_repeated_qos_2_publish_is_delivered_once(broker: Broker, version: int) -> None:
    """Before PUBREL every copy gets a PUBREC, and subscribers get one message."""
    topic = broker.topic()
    reader = broker.connect(version)
    reader.subscribe(topic, qos=2)
    publisher = broker.connect(version)
    for dup in (False, True, True):
        publisher.send(packets.publish(version, topic, b"once", qos=2, packet_id=3, dup=dup))
        answer = publisher.expect(PUBREC)
        assert answer.packet_id == 3 and answer.reason in (0, 0x10)
    publisher.ack(PUBREL, 3)
    assert publisher.expect(PUBCOMP).packet_id == 3
    assert reader.message().payload == b"once"
    reader.no_message()


@clauses("MQTT3-4.3.3-2", "MQTT5-4.3.3-12")
@both
def test_after_pubcomp_the_same_id_is_a_new_message(broker: Broker, version: int) -> None:
    """The id is free again."""
    topic = broker.topic()
    reader = broker.connect(version)
    reader.subscribe(topic, qos=2)
    publisher = broker.connect(version)
    for payload in (b"1", b"2"):
        publisher.send(packets.publish(version, topic, payload, qos=2, packet_id=3))
        publisher.expect(PUBREC)
        publisher.ack(PUBREL, 3)
        publisher.expect(PUBCOMP)
    assert [message.payload for message in reader.messages(2)] == [b"1", b"2"]


@clauses("MQTT3-4.3.3-2", "MQTT5-4.3.3-11")
@both
def test_a_repeated_pubrel_gets_a_pubcomp_each_time(broker: Broker, version: int) -> None:
    """The second one may say that the id is unknown, but is answered."""
    publisher = broker.connect(version)
    publisher.publish(broker.topic(), "x", qos=2)
    publisher.ack(PUBREL, 1)
    answer = publisher.expect(PUBCOMP)
    assert answer.packet_id == 1 and answer.reason in (0, 0x92)


@clauses("MQTT5-4.3.3-4", "MQTT5-4.4.0-2")
def test_a_pubrec_with_an_error_ends_the_exchange(broker: Broker) -> None:
    """No PUBREL follows, and the message is not sent again."""
    topic = broker.topic()
    name = broker.name()
    reader = broker.durable(V5, name)
    reader.subscribe(topic, qos=2)
    broker.connect(V5).publish(topic, "unwanted", qos=2)
    got = reader.message(acknowledge=False)
    reader.ack(PUBREC, got.packet_id, 0x87)
    assert not [packet for packet in reader.quiet(0.3) if packet.kind == PUBREL]
    reader.drop()
    broker.resumed(V5, name).no_message(0.4)


@clauses("MQTT5-4.4.0-2")
def test_a_puback_with_an_error_acknowledges_all_the_same(broker: Broker) -> None:
    """The message is not sent again."""
    topic, name = broker.topic(), broker.name()
    reader = broker.durable(V5, name)
    reader.subscribe(topic, qos=1)
    broker.connect(V5).publish(topic, "unwanted", qos=1)
    reader.ack(PUBACK, reader.message(acknowledge=False).packet_id, 0x83)
    reader.ping()
    reader.drop()
    broker.resumed(V5, name).no_message(0.4)


@clauses("MQTT3-2.3.1-4", "MQTT5-2.2.1-4", "MQTT5-4.3.2-1", "MQTT5-4.3.3-1")
@both
def test_ids_in_flight_are_never_given_twice(broker: Broker, version: int) -> None:
    """Unacknowledged messages of QoS 1 and 2 have ids of their own."""
    topic = broker.topic()
    reader = broker.connect(version)
    reader.subscribe(topic, qos=2)
    publisher = broker.connect(version)
    for number in range(10):
        publisher.publish(topic, str(number), qos=1 + number % 2)
    ids = [message.packet_id for message in reader.messages(10, acknowledge=False)]
    assert len(set(ids)) == 10 and 0 not in ids


@clauses("MQTT5-3.3.4-9", "MQTT5-4.9.0-1", "MQTT5-4.9.0-2", "MQTT5-3.3.4-10", "MQTT5-4.9.0-3")
@pytest.mark.parametrize("maximum", [1, 3])
def test_the_receive_maximum_of_the_client_is_kept(broker: Broker, maximum: int) -> None:
    """No more than that many unacknowledged; QoS 0, pings and subscriptions are not held up by it."""
    topic = broker.topic()
    reader = broker.connect(V5, receive_maximum=maximum)
    reader.subscribe(topic, qos=2)
    publisher = broker.connect(V5)
    for number in range(maximum + 2):
        publisher.publish(topic, str(number), qos=1)
    first = reader.messages(maximum, acknowledge=False)
    reader.no_message()
    publisher.publish(topic, "zero", qos=0)
    assert reader.message().payload == b"zero"
    reader.ping()
    reader.subscribe(broker.topic())
    reader.ack(PUBACK, first[0].packet_id)
    assert reader.message(acknowledge=False).payload == str(maximum).encode()
    reader.no_message()


@clauses("MQTT5-3.3.4-9", "MQTT5-4.9.0-2")
def test_qos_2_holds_its_place_until_pubcomp(broker: Broker) -> None:
    """PUBREC does not free the place, PUBCOMP does."""
    topic = broker.topic()
    reader = broker.connect(V5, receive_maximum=1)
    reader.subscribe(topic, qos=2)
    publisher = broker.connect(V5)
    publisher.publish(topic, "1", qos=2)
    publisher.publish(topic, "2", qos=2)
    first = reader.message(acknowledge=False)
    reader.ack(PUBREC, first.packet_id)
    reader.expect(PUBREL)
    reader.no_message()
    reader.ack(PUBCOMP, first.packet_id)
    assert reader.message().payload == b"2"


@clauses("MQTT5-3.3.4-9", "MQTT5-4.4.0-2")
def test_a_pubrec_with_an_error_frees_the_place(broker: Broker) -> None:
    """The exchange is over, so the next message comes."""
    topic = broker.topic()
    reader = broker.connect(V5, receive_maximum=1)
    reader.subscribe(topic, qos=2)
    publisher = broker.connect(V5)
    publisher.publish(topic, "1", qos=2)
    publisher.publish(topic, "2", qos=2)
    reader.ack(PUBREC, reader.message(acknowledge=False).packet_id, 0x80)
    assert reader.message().payload == b"2"


@clauses("MQTT5-3.3.4-7")
@pytest.mark.variant("receive_maximum_2")
def test_a_client_that_exceeds_the_receive_maximum_is_disconnected(broker: Broker) -> None:
    """DISCONNECT 0x93. Only QoS 2 can show it, since QoS 1 is acknowledged as it comes."""
    client = broker.connect(V5)
    assert client.connack.properties.get("receive_maximum") == 2
    topic = broker.topic()
    client.send(*(packets.publish(V5, topic, b"x", qos=2, packet_id=number) for number in (1, 2, 3)))
    before = client.closed()
    said = [packet for packet in before if packet.kind == packets.DISCONNECT]
    assert [packet.reason for packet in said] == [0x93], f"got {', '.join(map(str, before))}"
    assert len([packet for packet in before if packet.kind == PUBREC]) <= 2


@clauses("MQTT5-3.3.4-7")
@pytest.mark.variant("receive_maximum_2")
def test_a_client_may_use_the_receive_maximum_again_and_again(broker: Broker) -> None:
    """PUBCOMP and PUBACK give the place back."""
    client = broker.connect(V5)
    for number in range(10):
        assert client.publish(broker.topic(), "x", qos=1 + number % 2) in (0, 0x10)


@clauses("MQTT5-3.4.2-1", "MQTT5-3.5.2-1")
@both
@pytest.mark.parametrize("qos", [1, 2])
def test_a_publish_that_nobody_wants_is_acknowledged(broker: Broker, version: int, qos: int) -> None:
    """Success, or in version 5 No matching subscribers."""
    assert broker.connect(version).publish(broker.topic(), "x", qos=qos) in (0, 0x10)


@clauses("MQTT3-3.8.4-6", "MQTT5-3.8.4-8", "MQTT5-4.8.2-3")
@both
@any_qos
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_the_lower_qos_of_message_and_subscription_counts(broker: Broker, version: int, qos: int, granted: int) -> None:
    """QoS is downgraded to the subscriber's, and never raised."""
    topic = broker.topic()
    reader = broker.connect(version)
    assert reader.subscribe(topic, qos=granted) == (granted,)
    broker.connect(version).publish(topic, "x", qos=qos)
    assert reader.message().qos == min(qos, granted)


@both
@any_qos
def test_an_empty_payload_arrives_empty(broker: Broker, version: int, qos: int) -> None:
    """A zero-length payload is a message."""
    topic = broker.topic()
    reader = broker.connect(version)
    reader.subscribe(topic, qos=qos)
    broker.connect(version).publish(topic, b"", qos=qos)
    assert reader.message().payload == b""


@both
@pytest.mark.parametrize("size", [127, 128, 16_383, 16_384, 200_000])
def test_payloads_of_every_length_of_length_arrive_whole(broker: Broker, version: int, size: int) -> None:
    """The remaining length takes one to three bytes here."""
    topic = broker.topic()
    payload = bytes(number % 251 for number in range(size))
    reader = broker.connect(version)
    reader.subscribe(topic, qos=1)
    broker.connect(version).publish(topic, payload, qos=1)
    assert reader.message().payload == payload


@pytest.mark.parametrize("writer", [V31, V311, V5])
@pytest.mark.parametrize("reader", [V31, V311, V5])
@any_qos
def test_messages_cross_versions(broker: Broker, writer: int, reader: int, qos: int) -> None:
    """Every version reaches every other at every QoS."""
    topic = broker.topic()
    receiver = broker.connect(reader)
    receiver.subscribe(topic, qos=qos)
    extra = {"user_property": [("k", "v")], "content_type": "t"} if writer == V5 else {}
    broker.connect(writer).publish(topic, "across", qos=qos, **extra)
    got = receiver.message()
    assert (got.payload, got.qos) == (b"across", qos)


@clauses("MQTT3-3.9.3-2", "MQTT5-3.2.2-9", "MQTT5-3.2.2-10")
@pytest.mark.variant("max_qos_1")
def test_a_lower_maximum_qos_is_announced_and_subscriptions_are_granted_at_it(broker: Broker) -> None:
    """A request for QoS 2 is taken, at QoS 1 or as asked; the CONNACK says 1."""
    client = broker.connect(V5)
    assert client.connack.properties.get("maximum_qos") == 1
    assert client.subscribe(broker.topic(), qos=2) in ((1,), (2,))


@clauses("MQTT5-3.2.2-9", "MQTT5-3.2.2-10", "MQTT5-3.2.2-11")
@pytest.mark.variant("max_qos_0")
def test_a_maximum_qos_of_0_is_announced_and_refuses_qos_1(broker: Broker) -> None:
    """Subscriptions are still taken at any requested QoS."""
    client = broker.connect(V5)
    assert client.connack.properties.get("maximum_qos") == 0
    assert client.subscribe(broker.topic(), qos=2)[0] in (0, 1, 2)
    client.send(packets.publish(V5, broker.topic(), b"x", qos=1, packet_id=5))
    broker.refused(client, 0x9B)


@clauses("MQTT3-4.5.0-1", "MQTT5-4.5.0-1")
@both
def test_a_message_reaches_every_subscriber(broker: Broker, version: int) -> None:
    """Ten subscribers, ten copies, the publisher's own among them."""
    topic = broker.topic()
    readers = [broker.connect(version) for _ in range(10)]
    for number, reader in enumerate(readers):
        reader.subscribe(topic, qos=number % 3)
    readers[0].publish(topic, "to all", qos=2)
    assert [reader.message().payload for reader in readers] == [b"to all"] * 10


@both
def test_many_packets_in_one_write_are_all_answered(broker: Broker, version: int) -> None:
    """A burst of QoS 1 gets its PUBACKs in order."""
    client = broker.connect(version)
    topic = broker.topic()
    client.send(*(packets.publish(version, topic, b"x", qos=1, packet_id=number) for number in range(1, 201)))
    assert [client.expect(PUBACK).packet_id for _ in range(200)] == list(range(1, 201))


@clauses("MQTT5-4.13.1-1")
def test_a_puback_that_answers_qos_2_does_not_break_the_broker(broker: Broker) -> None:
    """An acknowledgement of the wrong kind is ignored or a protocol error; others are served on."""
    topic = broker.topic()
    reader = broker.connect(V5)
    reader.subscribe(topic, qos=2)
    broker.connect(V5).publish(topic, "x", qos=2)
    reader.ack(PUBACK, reader.message(acknowledge=False).packet_id)
    answer = [packet for packet in reader.heard(0.3) if packet.kind == packets.DISCONNECT]
    assert all(packet.reason == 0x82 for packet in answer)
    broker.connect(V5).ping()


def test_a_message_is_not_sent_again_while_connected(broker: Broker) -> None:
    """An unacknowledged message waits for its acknowledgement or a new connection."""
    topic = broker.topic()
    reader = broker.connect(V5)
    reader.subscribe(topic, qos=1)
    broker.connect(V5).publish(topic, "x", qos=1)
    reader.message(acknowledge=False)
    assert not [packet for packet in reader.quiet(1.0) if packet.kind == PUBLISH]
