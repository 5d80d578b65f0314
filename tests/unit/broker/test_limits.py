"""What is said of an identity is kept to: each limit with its answer, its counter, and while clients are in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import ConnectWill, PacketType, Publish
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal
from iot_mqtt.ports.limits import Limits
from iot_mqtt.values import Message, ProtocolVersion
from tests.unit.broker.harness import V5, V311, Client, Node, run

QUOTA = ReasonCode.QUOTA_EXCEEDED


class ByName:
    """Everybody is who he says."""

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        return Principal(attempt.client_id, attempt.username, attempt.username is None)


def by_user(**of: Limits) -> Callable[[Principal], Limits | None]:
    return lambda who: of.get(who.owner or "nobody")


def limited(limits: Limits | None, settings: MqttSettings | None = None, *, durable: bool = True) -> Node:
    """A node where the user ann has these limits."""
    of = {} if limits is None else {"ann": limits}
    return Node(settings, authenticator=ByName(), limits=by_user(**of), durable=durable)


def test_a_session_is_kept_for_no_longer_and_its_client_is_told() -> None:
    """CONNACK says how long; DISCONNECT cannot make it longer; 3.x gets as much."""
    node = limited(Limits(session_expiry=60))
    ann = node.connect("a", clean=False, expiry=600, username="ann")
    assert ann.connack is not None and ann.connack.properties.session_expiry_interval == 60
    ann.disconnect(session_expiry_interval=6000)
    node.advance(59)
    assert node.broker.sessions.get("a") is not None
    node.advance(2)
    assert node.broker.sessions.get("a") is None
    node.connect("a3", V311, clean=False, username="ann").lose()
    bob = node.connect("b", clean=False, expiry=600, username="bob")
    assert bob.connack is not None and bob.connack.properties.session_expiry_interval is None
    node.advance(61)
    assert node.broker.sessions.get("a3") is None and node.broker.sessions.get("b") is not None


def test_more_may_be_said_than_the_keys_of_mqtt_say() -> None:
    node = limited(Limits(session_expiry=600, inflight=50), MqttSettings(session_expiry_interval=60, max_inflight=5))
    ann = node.connect("a", clean=False, expiry=6000, username="ann")
    assert ann.connack is not None and ann.connack.properties.session_expiry_interval == 600
    assert node.session("a").outbound.limit == 50


def test_the_window_is_bounded_both_ways() -> None:
    """CONNACK has the Receive Maximum; what goes to the client stops there, and goes on behind its answers."""
    node = limited(Limits(inflight=2))
    ann = node.connect("a", username="ann", receive_maximum=10)
    assert ann.connack is not None and ann.connack.properties.receive_maximum == 2
    ann.subscribe("t", qos=1)
    bob = node.connect("b", username="bob")
    assert bob.connack is not None and bob.connack.properties.receive_maximum == 1024
    bob.publish("t", b"1", b"2", b"3", qos=1)
    got = ann.messages()
    assert len(got) == 2
    ann.ack(PacketType.PUBACK, *(one.packet_id for one in got))
    assert ann.payloads() == [b"3"]
    node.connect("r", clean=False, expiry=60).subscribe("kept", qos=1)
    node.hold()
    ann.publish("kept", b"1", b"2", b"3", qos=1)
    assert ann.farewell is ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


@pytest.mark.parametrize(
    ("limits", "reason"), [(Limits(queue_messages=1), "queue_full"), (Limits(queue_bytes=5), "queue_bytes")]
)
def test_what_waits_in_memory_is_bounded(limits: Limits, reason: str) -> None:
    """What comes later is dropped and counted, as with mqtt.max_queued_*."""
    node = limited(limits, durable=False)
    ann = node.connect("a", clean=False, expiry=600, username="ann")
    ann.subscribe("t", qos=1)
    ann.lose()
    bob = node.connect("b")
    bob.publish("t", b"1234", qos=1)
    (answer,) = bob.publish("t", b"5678", qos=1)
    assert answer.reason is QUOTA  # type: ignore[union-attr]
    assert node.dropped() == {reason: 1}


@pytest.mark.parametrize("version", [None, V311])
def test_a_session_has_so_many_subscriptions(version: object) -> None:
    node = limited(Limits(subscriptions=2))
    ann = node.connect("a", username="ann") if version is None else node.connect("a", V311, username="ann")
    refused = QUOTA if version is None else ReasonCode.UNSPECIFIED_ERROR
    assert ann.subscribe("a", "b", "c").reasons == (0, 0, refused)
    assert ann.subscribe("b", qos=1).reasons == (1,)
    assert node.counters.limited == {"subscriptions": 1}


def refusal(client: Client) -> ReasonCode:
    assert client.connack is not None and client.closed
    return client.connack.reason


def test_a_user_has_so_many_connections() -> None:
    """One more is refused; who takes his own place is not, nor who comes when another has left."""
    node = limited(Limits(connections=2))
    first = node.connect("1", username="ann")
    node.connect("2", username="ann")
    assert refusal(node.connect("3", username="ann")) is QUOTA
    assert refusal(node.connect("3", V311, username="ann")) is ReasonCode.SERVER_UNAVAILABLE
    assert node.counters.limited == {"connections": 2}
    assert node.counters.connects_refused == {"QUOTA_EXCEEDED": 2}
    again = node.connect("2", username="ann")
    assert not again.closed
    node.connect("other", username="bob")
    first.lose()
    assert not node.connect("3", username="ann").closed
    assert node.broker.clients.connections.by_owner == {"ann": 2, "bob": 1}


def test_a_user_has_so_many_sessions_connected_or_not() -> None:
    """Also those that were there when the node started; the session that is there is resumed."""
    node = limited(Limits(sessions=2))
    node.connect("1", clean=False, expiry=600, username="ann").lose()
    node.connect("2", clean=False, expiry=600, username="ann").lose()
    node.restart()
    assert node.broker.sessions.by_owner == {"ann": 2}
    assert refusal(node.connect("3", username="ann")) is QUOTA
    assert node.counters.limited == {"sessions": 1}
    one = node.connect("1", clean=False, expiry=0, username="ann")
    assert one.connack is not None and one.connack.session_present
    one.lose()
    assert not node.connect("3", username="ann").closed
    assert node.broker.sessions.by_owner == {"ann": 2}


def test_what_is_elsewhere_counts() -> None:
    node = limited(Limits(connections=3, sessions=4))
    node.broker.clients.limiting.elsewhere = lambda owner: (2, 2) if owner == "ann" else (0, 0)
    node.connect("1", username="ann")
    assert refusal(node.connect("2", username="ann")) is QUOTA


def test_none_at_all_may_be_said() -> None:
    node = limited(Limits(connections=0))
    assert refusal(node.connect("1", username="ann")) is QUOTA
    assert not node.connect("1", username="bob").closed


def test_who_brings_no_client_id_is_asked_about_by_the_one_that_it_gets() -> None:
    asked: list[str] = []
    node = Node(limits=lambda who: asked.append(who.client_id))
    node.connect("")
    assert asked == ["auto-1"]


def test_what_is_said_later_holds_for_who_is_in() -> None:
    """Window, queue and subscriptions at once, both ways; what CONNACK said stays until the next one."""
    node = limited(None, durable=False)
    ann = node.connect("a", clean=False, expiry=600, username="ann", receive_maximum=9)
    ann.subscribe("t", qos=1)
    bob = node.connect("b", username="bob")
    node.limits = by_user(ann=Limits(inflight=1, queue_messages=1, subscriptions=1, session_expiry=1))
    node.broker.clients.limiting.changed()
    node.turn()
    session = node.kept_session("a")
    assert (session.outbound.limit, session.queue.max_messages, session.inbound.maximum) == (1, 1, 1024)
    assert session.expiry_interval == 600
    bob.publish("t", b"1", b"2", b"3", qos=1)
    assert (ann.payloads(), node.dropped()) == ([b"1"], {"queue_full": 1})
    assert ann.subscribe("u").reasons == (QUOTA,)
    node.limits = by_user()
    node.broker.clients.limiting.changed()
    node.turn()
    assert ann.payloads() == [b"2"]
    assert session.queue.max_messages == node.settings.max_queued_messages
    assert ann.subscribe("u").reasons == (0,)


def used(node: Node, user: str) -> tuple[int, int]:
    return node.broker.publishing.retention.use.of(user)


def retained(node: Node) -> list[bytes]:
    return sorted(message.topic for message in node.view.retained())


@pytest.mark.parametrize("qos", [1, 2])
def test_a_user_retains_so_many_messages(qos: int) -> None:
    """One more is refused as a whole; a topic of its own is replaced, and one that is removed makes room."""
    node = limited(Limits(retained_messages=2))
    reader = node.connect("reader")
    reader.subscribe("#", retain_as_published=True)
    ann = node.connect("a", username="ann")
    for topic in ("1", "2"):
        ann.publish(topic, b"x", qos=qos, retain=True)
    assert len(reader.payloads()) == 2
    (answer,) = ann.publish("3", b"x", qos=qos, retain=True)
    assert answer.reason is QUOTA and not reader.payloads()  # type: ignore[union-attr]
    assert node.counters.limited == {"retained": 1} and node.counters.messages_refused == {"retained_quota": 1}
    ann.publish("2", b"longer", qos=qos, retain=True)
    ann.publish("1", b"", qos=qos, retain=True)
    ann.publish("3", b"x", qos=qos, retain=True)
    assert retained(node) == [b"2", b"3"]
    assert used(node, "ann") == (2, 1 + 6 + 1 + 1)
    bob = node.connect("b", username="bob")
    assert bob.publish("4", b"x", qos=1, retain=True)[0].reason is ReasonCode.SUCCESS  # type: ignore[union-attr]


@pytest.mark.parametrize("version", [V5, V311])
def test_who_cannot_be_told_is_not_retained(version: ProtocolVersion) -> None:
    """QoS 0, and 3.x: the message goes to its receivers, and is counted as not retained; in a batch, too."""
    node = limited(Limits(retained_messages=2))
    reader = node.connect("reader")
    reader.subscribe("#")
    ann = node.connect("a", version, username="ann")
    qos = 0 if version is V5 else 1
    ann.send(*(Publish(b"t/%d" % number, b"x", qos, True, packet_id=number * qos) for number in range(1, 5)))
    assert len(reader.payloads()) == 4 and not ann.closed
    assert retained(node) == [b"t/1", b"t/2"]
    assert node.dropped() == {"retained_quota": 2}


def test_bytes_are_bounded_too() -> None:
    node = limited(Limits(retained_bytes=10))
    ann = node.connect("a", username="ann")
    ann.publish("1", b"x" * 8, qos=1, retain=True)
    assert ann.publish("2", b"x", qos=1, retain=True)[0].reason is QUOTA  # type: ignore[union-attr]
    ann.publish("1", b"x" * 4, qos=1, retain=True)
    assert ann.publish("2", b"x" * 4, qos=1, retain=True)[0].reason is not QUOTA  # type: ignore[union-attr]


def test_what_is_retained_counts_after_a_restart_and_until_others_replace_it() -> None:
    """By anybody, one by one or together; anonymous clients are one user."""
    node = Node(authenticator=ByName(), limits=by_user(nobody=Limits(retained_messages=2)))
    node.connect("a").publish("1", b"x", qos=1, retain=True)
    node.connect("b").publish("2", b"x", qos=1, retain=True)
    node.restart()
    assert used(node, "") == (2, 4)
    again = node.connect("a")
    assert again.publish("3", b"x", qos=1, retain=True)[0].reason is QUOTA  # type: ignore[union-attr]
    bob = node.connect("bob", username="bob")
    bob.send(*(Publish(b"%d" % number, b"x", 1, True, packet_id=number) for number in range(1, 3)))
    assert used(node, "") == (0, 0)
    assert again.publish("3", b"x", qos=1, retain=True)[0].reason is not QUOTA  # type: ignore[union-attr]


def test_a_will_counts_like_a_publish() -> None:
    """It goes to its receivers, and is not retained."""
    node = limited(Limits(retained_messages=0))
    node.connect("a", username="ann", will=ConnectWill(b"w", b"x", 1, True)).lose()
    assert retained(node) == [] and node.dropped() == {"retained_quota": 1}


def test_what_is_published_in_a_users_name_counts_like_his() -> None:
    """He need not have been here, and what is said of him now counts; what is the node's own counts for nobody."""
    limits = {"ann": Limits(retained_messages=2)}
    node = Node(authenticator=ByName(), limits=lambda who: limits.get(who.owner))

    def publish(topic: bytes, user: str | None = "ann") -> object:
        (found,) = run(node.view.publish_all([Message(topic, b"x", 1, retain=True)], user))
        return found

    for topic in (b"1", b"2"):
        publish(topic)
    refused = publish(b"3")
    assert isinstance(refused, Refused) and refused.reason is QUOTA and "ann" in refused.detail
    with pytest.raises(Refused):
        run(node.view.publish(Message(b"3", b"x", 1, retain=True), "ann"))
    assert node.counters.limited == {"retained": 2}
    publish(b"3", None)
    publish(b"4", "bob")
    assert retained(node) == [b"1", b"2", b"3", b"4"] and used(node, "ann")[0] == 2
    limits["ann"] = Limits(retained_messages=3)
    ann = node.connect("a", username="ann")
    publish(b"5")
    assert used(node, "ann")[0] == 3
    assert ann.publish("6", b"x", qos=1, retain=True)[0].reason is QUOTA  # type: ignore[union-attr]
    limits.clear()
    # What was said when it came counts, until it is told of something else.
    assert publish(b"6") is not None and b"6" not in retained(node)
    ann.lose()
    publish(b"6")
    assert b"6" in retained(node)
