"""Retained messages: kept, replaced and removed; read page by page as far as the reader takes them."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.broker.publishing import retained_reading
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Ack, PacketType, Publish, Request, Suback, encode
from iot_mqtt.errors import ReasonCode
from iot_mqtt.pipeline import OutboxSettings
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.session.outbound import SENT_QOS1, SENT_QOS2
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import V5, V311, Node, subscribe

MANY = 1200


@pytest.fixture(scope="module")
def topics() -> list[str]:
    """More topics than two pages, in their order."""
    return [f"r/{number:05}" for number in range(MANY)]


def filled(topics: list[str], qos: int = 0, **options: OutboxSettings) -> Node:
    """A node with a retained message on each topic."""
    node = Node(**options)  # type: ignore[arg-type]
    writer = node.connect("writer")
    for start in range(0, len(topics), 500):
        for topic in topics[start : start + 500]:
            writer.wire.feed(
                encode(Publish(topic.encode(), topic.encode(), qos, True, False, qos and writer.next_id()), V5)
            )
        node.turn()
    return node


def names(messages: list[Publish]) -> list[str]:
    """Their topics."""
    return [message.topic.decode() for message in messages]


@pytest.mark.parametrize(
    ("handling", "first", "second"),
    [(0, [b"x"], [b"x"]), (1, [b"x"], []), (2, [], [])],
    ids=["always", "if-new", "never"],
)
@pytest.mark.parametrize("qos", [0, 1])
def test_retain_handling(handling: int, first: list[bytes], second: list[bytes], qos: int) -> None:
    """[MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11] With other options, too; and anew after unsubscribing."""
    node = Node()
    node.connect("writer").publish("t", b"x", qos=1, retain=True)
    reader = node.connect("reader")
    reader.subscribe("t", qos=qos, retain_handling=handling)
    assert reader.drain() == first
    reader.subscribe("t", qos=qos, retain_handling=handling, retain_as_published=True)
    assert reader.drain() == second
    reader.unsubscribe("t")
    reader.subscribe("t", qos=qos, retain_handling=handling)
    assert reader.drain() == first


def test_a_session_that_comes_back_does_not_get_them_again() -> None:
    """It had subscribed before; handling 1 knows that after a restart as well."""
    node = Node()
    node.connect("writer").publish("t", b"x", retain=True)
    node.connect("reader", clean=False, expiry=60).subscribe("t", retain_handling=1)
    node.restart()
    reader = node.connect("reader", clean=False, expiry=60)
    reader.subscribe("t", retain_handling=1)
    assert reader.payloads() == []


@pytest.mark.parametrize("version", [V311, V5], ids=["v3.1.1", "v5"])
@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("subscribed", [0, 1, 2])
def test_they_come_with_the_flag_at_the_lower_qos(version: ProtocolVersion, published: int, subscribed: int) -> None:
    """[MQTT-3.3.1-8] After SUBACK, to the new subscription only, whatever retain-as-published says."""
    node = Node()
    other = node.connect("other")
    other.subscribe("t")
    node.connect("writer").publish("t", b"x", qos=published, retain=True)
    other.take_all()
    reader = node.connect("reader", version)
    reader.send(subscribe(1, "t", qos=subscribed))
    suback, message = reader.take_all()
    assert isinstance(suback, Suback)
    assert isinstance(message, Publish)
    assert (message.retain, message.qos, message.dup) == (True, min(published, subscribed), False)
    assert other.take_all() == []


def test_each_filter_reads_for_itself_and_names_its_identifier() -> None:
    """Overlapping filters of one SUBSCRIBE give a copy each."""
    node = Node()
    node.connect("writer").publish("a/b", b"x", retain=True)
    reader = node.connect("reader")
    reader.subscribe("a/+", "#", "nothing", identifier=6)
    got = reader.messages()
    assert [message.properties.subscription_identifiers for message in got] == [(6,), (6,)]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_empty_payload_removes_and_the_last_message_stays(qos: int) -> None:
    """[MQTT-3.3.1-5] [MQTT-3.3.1-6] [MQTT-3.3.1-7] Also from the store; readers get the empty message as any other."""
    node = Node()
    live, writer = node.connect("live"), node.connect("writer")
    live.subscribe("t", qos=qos)
    writer.publish("t", b"1", b"2", qos=qos, retain=True)
    writer.publish("t", b"3", qos=qos)
    assert node.broker.publishing.retention.index.count == node.records(CacheName.RETAINED) == 1
    late = node.connect("late")
    late.subscribe("t", qos=qos)
    assert late.drain() == [b"2"]
    writer.publish("t", b"", qos=qos, retain=True)
    assert live.drain() == [b"1", b"2", b"3", b""]
    assert node.broker.publishing.retention.index.count == node.records(CacheName.RETAINED) == 0
    late.subscribe("t")
    assert late.payloads() == [b""]


def test_a_removal_that_was_not_committed_is_none_after_a_crash() -> None:
    """And nobody had been told that it was."""
    node = Node()
    writer = node.connect("writer")
    writer.publish("t", b"1", qos=1, retain=True)
    node.hold()
    assert writer.publish("t", b"", qos=1, retain=True) == []
    node.restart()
    reader = node.connect("reader")
    reader.subscribe("t")
    assert reader.payloads() == [b"1"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_it_is_committed_without_anything_else_happening(qos: int) -> None:
    """Nobody waits for the commit of a QoS 0 message, and yet it is not left lying about."""
    node = Node()
    node.connect("writer").publish("t", b"x", qos=qos, retain=True)
    assert node.records(CacheName.RETAINED) == 1
    node.clients[0].publish("t", b"", qos=qos, retain=True)
    assert node.records(CacheName.RETAINED) == 0


def test_an_expired_one_is_not_sent_and_is_forgotten() -> None:
    """[MQTT-3.3.2-5] When it is looked at; the others come."""
    node = Node()
    writer = node.connect("writer")
    writer.publish("t/1", b"short", retain=True, message_expiry_interval=5)
    writer.publish("t/2", b"long", retain=True)
    node.advance(6)
    reader = node.connect("reader")
    reader.subscribe("#")
    assert reader.payloads() == [b"long"]
    assert node.broker.publishing.retention.index.count == 1
    assert node.records(CacheName.RETAINED) == 1


def test_an_expiry_goes_on_over_a_restart() -> None:
    """By the wall clock."""
    node = Node()
    node.connect("writer").publish("t", b"x", retain=True, message_expiry_interval=30)
    node.advance(10)
    node.restart()
    node.advance(10)
    reader = node.connect("reader")
    reader.subscribe("t")
    assert [message.properties.message_expiry_interval for message in reader.messages()] == [10]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_more_than_a_page_comes_whole_and_in_order(topics: list[str], qos: int) -> None:
    """Each once."""
    node = filled(topics, qos=min(qos, 1))
    reader = node.connect("reader")
    reader.subscribe("r/#", qos=qos)
    assert reader.drain() == [topic.encode() for topic in topics]
    assert node.session("reader").readers is None


def test_reading_follows_the_window(topics: list[str]) -> None:
    """Never more than the window is under way, and the session keeps no more than that."""
    node = filled(topics, qos=1)
    reader = node.connect("reader", receive_maximum=10)
    reader.subscribe("r/#", qos=1)
    got: list[str] = []
    while messages := reader.messages():
        assert len(messages) <= 10
        assert node.session("reader").inflight_count <= 10
        got += names(messages)
        reader.ack(PacketType.PUBACK, *(message.packet_id for message in messages))
    assert got == topics


def test_reading_at_qos_0_follows_the_outbox(topics: list[str]) -> None:
    """One that does not read holds a page, not everything; it gets the rest when it reads on."""
    node = filled(topics, outbox=OutboxSettings(high_water=1000, low_water=100, hard_limit=10_000_000))
    reader = node.connect("reader")
    reader.wire.link.capacity = 0
    reader.send(subscribe(1, "r/#"))
    one_page = retained_reading.PAGE * len(b"\x30\x10\x00\x07r/00000\x00r/00000")
    assert 0 < reader.wire.channel.outbox.pending < one_page * 1.1
    reader.wire.link.drain()
    node.turn()
    assert names(reader.messages()) == topics
    assert node.dropped() == {}


def test_what_changes_while_a_slow_client_reads(topics: list[str]) -> None:
    """It gets what is there when it comes to it: what was removed is gone, what is new has come as it was published."""
    node = filled(topics[:8], qos=1)
    reader = node.connect("reader", receive_maximum=3)
    reader.subscribe("r/#", qos=1)
    writer = node.connect("other")
    writer.publish(topics[4], b"", retain=True)
    writer.publish(topics[5] + "x", b"new", qos=1, retain=True)
    kept = [topic.encode() for topic in topics[:8]]
    assert reader.drain() == [*kept[:3], b"", b"new", kept[3], *kept[5:]]


@pytest.mark.parametrize("way", ["unsubscribe", "end"])
def test_reading_ends_with_its_subscription(topics: list[str], way: str) -> None:
    """Nothing more is read; what is under way is still completed."""
    node = filled(topics[:20], qos=1)
    reader = node.connect("reader", receive_maximum=5)
    reader.subscribe("r/#", qos=1)
    if way == "unsubscribe":
        reader.unsubscribe("r/#")
        assert len(reader.drain()) == 5
        assert node.session("reader").readers is None
    else:
        reader.lose()
        node.advance(1)
        assert node.dropped() == {"session_ended": 5}


def test_a_durable_reader_goes_on_reading_after_a_reconnect(topics: list[str]) -> None:
    """From where it was; what was under way is repeated."""
    node = filled(topics[:20], qos=1)
    reader = node.connect("reader", expiry=60, receive_maximum=5)
    reader.subscribe("r/#", qos=1)
    assert names(reader.messages()) == topics[:5]
    reader.lose()
    reader = node.connect("reader", clean=False, expiry=60)
    assert reader.drain() == [topic.encode() for topic in topics[:20]]


def test_two_filters_are_read_one_after_the_other(topics: list[str]) -> None:
    """Through the same window."""
    node = filled(topics[:8], qos=1)
    reader = node.connect("reader", receive_maximum=3)
    reader.subscribe(Request("r/00001", 1), Request("r/+", 1), Request("r/00002", 1))
    assert reader.drain() == [b"r/00001", *(topic.encode() for topic in topics[:8]), b"r/00002"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_many_topics_are_read_in_the_order_in_which_they_were_asked_for(topics: list[str], qos: int) -> None:
    """One by one, at other QoS, with another in between that has wildcards; each once."""
    node = filled(topics[:40], qos=min(qos, 1))
    reader = node.connect("reader", receive_maximum=7)
    wanted = [*topics[10:40], "r/none", *topics[:10]]
    asked = [Request(topic, 0 if number % 9 == 8 else qos) for number, topic in enumerate(wanted)]
    reader.subscribe(*asked[:20], Request("r/+", qos), *asked[20:])
    expected = [*wanted[:20], *topics[:40], *(topic for topic in wanted[20:] if topic != "r/none")]
    assert reader.drain() == [topic.encode() for topic in expected]
    assert node.session("reader").readers is None


def test_of_many_topics_those_that_are_given_up_or_removed_do_not_come(topics: list[str]) -> None:
    """Nor what is asked for again before its turn, twice."""
    node = filled(topics[:12], qos=1)
    reader = node.connect("reader", receive_maximum=3)
    reader.subscribe(*topics[:12], qos=1)
    reader.unsubscribe(topics[4], topics[11])
    node.connect("other").publish(topics[5], b"", retain=True)
    reader.subscribe(topics[6], qos=1)
    left = [*topics[:4], *topics[7:11], topics[6]]
    assert sorted(reader.drain()) == sorted([b"", *(topic.encode() for topic in left)])


def test_topics_without_a_message_are_not_read(topics: list[str]) -> None:
    node = filled(topics[:1])
    reader = node.connect("reader")
    reader.wire.link.capacity = 0
    reader.send(subscribe(1, *topics[1:500], qos=1))
    assert node.session("reader").readers is None


@pytest.mark.parametrize(
    ("settings", "kept"),
    [(MqttSettings(max_retained_messages=2), 2), (MqttSettings(max_retained_bytes=8), 2)],
    ids=["messages", "bytes"],
)
def test_a_full_quota_is_told_and_does_not_retain(settings: MqttSettings, kept: int) -> None:
    """Who can be told that it is not retained is, and nobody gets it; of others it is delivered, and counted. Replacing
    and removing still work.
    """
    node = Node(settings)
    reader, writer = node.connect("reader"), node.connect("writer")
    old = node.connect("old", V311)
    reader.subscribe("#")
    reasons = []
    for topic in ("t/1", "t/2", "t/3"):
        (ack,) = writer.publish(topic, b"x", qos=1, retain=True)
        assert isinstance(ack, Ack)
        reasons.append(ack.reason)
    assert reasons == [ReasonCode.SUCCESS] * 2 + [ReasonCode.QUOTA_EXCEEDED]
    assert reader.payloads() == [b"x"] * 2
    assert node.broker.publishing.retention.index.count == node.records(CacheName.RETAINED) == kept
    assert node.dropped() == {}
    writer.publish("t/3", b"0", qos=0, retain=True)
    old.publish("t/3", b"1", qos=1, retain=True)
    assert reader.payloads() == [b"0", b"1"]
    assert node.dropped() == {"retained_quota": 2}
    writer.publish("t/1", b"y", retain=True)
    writer.publish("t/2", b"", retain=True)
    writer.publish("t/3", b"z", retain=True)
    assert sorted(message.payload for message in node.view.retained()) == [b"y", b"z"]


def test_one_that_is_too_large_for_its_reader_is_left_out() -> None:
    """[MQTT-3.1.2-25] At both QoS, and the others come."""
    node = Node()
    writer = node.connect("writer")
    for qos in (0, 1):
        writer.publish(f"t/{qos}", b"x" * 100, qos=qos, retain=True)
    writer.publish("t/2", b"small", retain=True)
    reader = node.connect("reader", maximum_packet_size=60)
    reader.subscribe("#", qos=1)
    assert reader.drain() == [b"small"]
    assert node.dropped() == {"too_large": 2}


@pytest.mark.parametrize(
    ("version", "options"),
    [(V311, {}), (V5, {}), (V5, {"maximum_packet_size": 1000}), (V5, {"topic_alias_maximum": 3})],
    ids=str,
)
def test_a_page_of_mixed_messages_is_written_at_once(version: ProtocolVersion, options: dict[str, Any]) -> None:
    """Each at its own QoS, with its properties, in order; ids go on where they were."""
    node = Node()
    writer = node.connect("writer")
    for number, qos in enumerate((1, 1, 0, 2, 1)):
        writer.publish(f"t/{number}", b"x", qos=qos, retain=True, content_type="c" * number)
    reader = node.connect("reader", version, **options)
    reader.send(subscribe(1, Request("t/#", 2), identifier=7 if version is V5 else None))
    assert list(node.session("reader").outbound.entries.values()) == [SENT_QOS1, SENT_QOS1, SENT_QOS2, SENT_QOS1]
    got = reader.messages()
    assert [(one.topic, one.qos, one.packet_id, one.retain) for one in got] == [
        (b"t/0", 1, 1, True),
        (b"t/1", 1, 2, True),
        (b"t/2", 0, 0, True),
        (b"t/3", 2, 3, True),
        (b"t/4", 1, 4, True),
    ]
    if version is V5:
        assert [one.properties.content_type or "" for one in got] == ["c" * number for number in range(5)]
        assert {one.properties.subscription_identifiers for one in got} == {(7,)}


@pytest.mark.parametrize("qos", [0, 1])
def test_a_page_ends_where_its_messages_are_many_bytes(qos: int) -> None:
    """However few they are: the outbox of one that does not read is not filled with five hundred of them."""
    node = Node(outbox=OutboxSettings(high_water=1000, low_water=100, hard_limit=10_000_000))
    writer = node.connect("writer")
    for number in range(12):
        writer.publish(f"t/{number:02}", bytes(60_000), qos=1, retain=True)
    reader = node.connect("reader")
    reader.wire.link.capacity = 0
    reader.send(subscribe(1, "t/#", qos=qos))
    assert 0 < reader.wire.channel.outbox.pending < retained_reading.PAGE_BYTES + 61_000
    reader.wire.link.drain()
    node.turn()
    assert len(reader.drain()) == 12
    assert node.dropped() == {}


def test_what_a_topic_had_meanwhile_is_not_written() -> None:
    """One record a topic and commit, what is retained in the end; a removal as well."""
    node = Node()
    writer = node.connect("writer")
    node.hold()
    writer.publish("first", b"x", qos=1, retain=True)  # what follows waits for its commit
    writer.publish("t", *(b"%d" % number for number in range(50)), qos=1, retain=True)
    for number in range(50):
        writer.publish("t", b"%d" % number, qos=1, retain=True)
    writer.publish("gone", b"x", qos=1, retain=True)
    writer.publish("gone", b"", qos=1, retain=True)
    assert node.store.waiting == 1 + 2
    node.release()
    assert node.records(CacheName.RETAINED) == 2
    node.restart()
    assert sorted(message.payload for message in node.view.retained()) == [b"49", b"x"]
