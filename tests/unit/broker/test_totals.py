"""Bounds of everything together: levels of topics, sessions, subscriptions."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Ack, Disconnect, Publish
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.limits import Limits, NoRoom
from iot_mqtt.session.queue import FLOOR
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import Node

V311, V5 = ProtocolVersion.V311, ProtocolVersion.V5
QUOTA = ReasonCode.QUOTA_EXCEEDED


@pytest.mark.parametrize("version", [V311, V5])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
def test_a_topic_has_no_more_levels_than_it_may(version: ProtocolVersion, qos: int, retain: bool) -> None:
    """Whoever publishes beyond is told 0x90 (3.x: closed); nobody gets it, and what came before is served."""
    node = Node(MqttSettings(max_topic_levels=3))
    reader, writer = node.connect("reader"), node.connect("writer", version)
    reader.subscribe("#", qos=2)
    packet_id = 7 if qos else 0
    for number in (1, 2):
        writer.send(Publish(b"a/b/c", b"fine", qos, retain, False, packet_id and packet_id + number))
    writer.send(Publish(b"a/b/c", b"last", 0), Publish(b"a/b/c/d", b"deep", qos, retain, False, packet_id))
    assert writer.closed
    assert set(reader.drain()) == {b"fine", b"last"}
    if version is V5:
        [farewell] = writer.take(Disconnect)
        assert farewell.reason is ReasonCode.TOPIC_NAME_INVALID
    assert node.counters.errors["TOPIC_NAME_INVALID"] == 1


def test_a_qos_2_message_that_was_refused_is_no_repetition() -> None:
    """When it comes again it is refused again, and not acknowledged."""
    node = Node(MqttSettings(max_topic_levels=3))
    for _ in range(2):
        writer = node.connect("writer", clean=False, expiry=60)
        writer.send(Publish(b"a/b/c/d", b"deep", 2, False, False, 7))
        assert [one.reason for one in writer.take(Disconnect)] == [ReasonCode.TOPIC_NAME_INVALID]


def test_there_are_no_more_sessions_than_there_may_be() -> None:
    """Who has one is let in, and takes it over; who has none is told 0x97, 3.1.1 is told 3."""
    node = Node(MqttSettings(max_sessions=3, max_kept_sessions=3))
    client, *_ = [node.connect(client_id) for client_id in ("a", "b", "c")]
    for version, reason in ((V5, QUOTA), (V311, ReasonCode.SERVER_UNAVAILABLE)):
        refused = node.connect("d", version)
        assert refused.connack is not None
        assert (refused.connack.reason, refused.closed) == (reason, True)
    again = node.connect("b")
    assert again.connack is not None and again.connack.reason is ReasonCode.SUCCESS
    client.lose()
    assert not node.connect("d").closed
    assert node.counters.connects_refused["QUOTA_EXCEEDED"] == 2


def test_what_is_kept_leaves_room_for_others() -> None:
    """Sessions that wait for nobody keep nobody out who wants none."""
    node = Node(MqttSettings(max_sessions=10))
    for number in range(9):
        node.connect(f"kept-{number}", expiry=3600).lose()
    refused = node.connect("more", expiry=3600)
    assert refused.connack is not None and refused.connack.reason is QUOTA
    assert not node.connect("clean").closed
    assert not node.connect("kept-3", clean=False, expiry=3600).closed
    assert node.broker.sessions.kept == 9
    node.clock.advance(4000)
    node.turn()
    assert node.broker.sessions.kept == 1
    node.restart()
    assert node.broker.sessions.kept == 1


def test_what_waits_for_all_sessions_is_bounded() -> None:
    """Whoever has his part takes no more, and his publisher is told; whoever has little takes it all the same."""
    part = b"x" * (FLOOR // 4)
    node = Node(MqttSettings(max_queued_bytes_in_all=2 * FLOOR), durable=False)
    writer = node.connect("writer")
    for name in ("hog", "late"):
        reader = node.connect(name, clean=False, expiry=600)
        reader.subscribe(name, qos=1)
        reader.lose()
    answers = [one for one in writer.publish("hog", *[part] * 9, qos=1) if isinstance(one, Ack)]
    assert [one.reason for one in answers][-2:] == [QUOTA] * 2
    writer.publish("late", *[part] * 9, qos=1)
    assert node.session("hog").dropped == {"queues_full": 2}
    assert node.session("late").dropped == {"queues_full": 6}
    assert node.broker.sessions.queued.bytes == node.session("hog").queue.bytes + node.session("late").queue.bytes
    back = node.connect("hog", clean=False, expiry=600)
    assert len(back.drain()) == 7
    assert node.broker.sessions.queued.bytes == node.session("late").queue.bytes
    node.connect("late")
    assert node.broker.sessions.queued.bytes == 0


@pytest.mark.parametrize("said", ["nothing", "CONNECT"])
def test_who_says_nothing_gives_way(said: str) -> None:
    """Of 50 that came after it, and only if it has not said who it is; those that give way are counted."""
    node = Node(MqttSettings(max_half_open=20))
    first = node.connect("first") if said == "CONNECT" else node.open()
    silent = [node.open() for _ in range(50)]
    assert first.closed is (said == "nothing")
    assert [one.closed for one in silent] == [True] * 40 + [False] * 10
    assert node.counters.errors["HALF_OPEN"] == 40 + first.closed
    assert len(node.broker.clients.half_open) == 10
    last = node.connect("last")
    assert last.connack is not None and last.connack.reason is ReasonCode.SUCCESS
    for one in silent:
        one.lose()
    assert len(node.broker.clients.half_open) == 0


def test_filters_have_no_more_bytes_than_they_may_have() -> None:
    """Of all clients, in whatever form: plain, shared, with wildcards. What is given up, or ends, makes room."""
    node = Node(MqttSettings(max_subscription_bytes=60))
    one, other = node.connect("one"), node.connect("other")
    for client, filter in ((one, "a" * 20), (other, "+/" + "b" * 18), (one, "$share/g/" + "c" * 11)):
        assert client.subscribe(filter).reasons == (ReasonCode.SUCCESS,)
    assert other.subscribe("d").reasons == (QUOTA,)
    assert one.subscribe("a" * 20).reasons == (ReasonCode.SUCCESS,)
    one.unsubscribe("$share/g/" + "c" * 11)
    assert other.subscribe("d" * 30).reasons == (ReasonCode.SUCCESS,)
    assert other.subscribe("e").reasons == (QUOTA,)
    other.disconnect()
    assert one.subscribe("e" * 39).reasons == (ReasonCode.SUCCESS,)
    assert one.subscribe("f").reasons == (ReasonCode.SUCCESS,)
    assert one.subscribe("g").reasons == (QUOTA,)
    one.disconnect()
    routes = node.broker.routing.routes
    assert (routes.subscription_count, routes.subscription_size) == (0, 0)


@pytest.mark.parametrize(
    ("settings", "limits", "why"),
    [
        (MqttSettings(max_subscriptions_per_client=1), None, NoRoom.CLIENT),
        (MqttSettings(), Limits(subscriptions=1), NoRoom.LIMITS),
        (MqttSettings(max_subscriptions=1), None, NoRoom.NODE),
        (MqttSettings(max_subscription_bytes=1), None, NoRoom.NODE_BYTES),
    ],
)
def test_what_refused_a_subscription_is_remembered(settings: MqttSettings, limits: Limits | None, why: NoRoom) -> None:
    """For whoever asks why the client gets nothing by it."""
    node = Node(settings)
    node.limits = lambda who: limits
    client = node.connect("c")
    assert client.subscribe("a", "b").reasons[1] == QUOTA
    (trouble,) = node.counters.recent.of("c")
    assert (trouble.code, trouble.topic, trouble.detail) == ("refused_subscription", "b", why)


def test_there_are_no_more_subscriptions_than_there_may_be() -> None:
    """Of all clients; one that is there may be replaced, and one that is given up makes room."""
    node = Node(MqttSettings(max_subscriptions=3))
    one, other = node.connect("one"), node.connect("other")
    one.subscribe("a", "b")
    other.subscribe("$share/g/c")
    for client, filter, reason in ((other, "d", QUOTA), (one, "a", ReasonCode.SUCCESS)):
        assert client.subscribe(filter).reasons == (reason,)
    one.unsubscribe("b")
    assert other.subscribe("d").reasons == (ReasonCode.SUCCESS,)
