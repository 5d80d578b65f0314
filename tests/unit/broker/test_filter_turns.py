"""However many filters come at once, a turn serves a part of them; what a client sends keeps its order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Ack, Pingreq, Publish, Suback, Unsuback, Unsubscribe, encode
from iot_mqtt.errors import ReasonCode
from tests.unit.broker.harness import V5, Client, Node, subscribe

#: What a turn may serve: twice some milliseconds, before its end and at its end.
MOST = 1_500
FILTERS = [f"f/{number}" for number in range(3_000)]


def send(client: Client, *filters: str, qos: int = 0) -> None:
    """SUBSCRIBE; the turn does not end."""
    client.wire.feed(encode(subscribe(client.next_id(), *filters, qos=qos), V5))


def passing(node: Node) -> Iterator[None]:
    """Turn after turn, none of which changes more subscriptions than a turn may."""
    before, going_on = 0, True
    while going_on:
        yield
        going_on = node.one_turn()
        now = node.broker.routing.routes.subscription_count
        assert abs(now - before) < MOST
        before = now


@pytest.mark.parametrize("kept", [False, True])
def test_filters_of_all_clients_that_subscribe_at_once_take_their_turns(kept: bool) -> None:
    """One packet of many, and packets of many clients; who asks for one filter is not kept waiting for all of them."""
    node = Node()
    heavy = [node.connect(f"c{number}", clean=not kept, expiry=60 * kept) for number in range(5)]
    light = node.connect("light")
    for client in heavy:
        send(client, *FILTERS[:1_000])
    send(heavy[0], *FILTERS[1_000:])
    send(light, "light")
    turns = passing(node)
    for _ in range(4):
        next(turns)
    assert light.take(Suback)
    assert not any(client.take(Suback) for client in heavy)
    assert len(list(turns)) > 8
    assert [len(one.reasons) for client in heavy for one in client.take(Suback)] == [1_000, 2_000, *[1_000] * 4]
    assert node.broker.routing.routes.subscription_count == 1_000 * 4 + 3_000 + 1


def test_what_is_sent_behind_it_waits() -> None:
    """Its answer comes first, and what it publishes comes to it."""
    node = Node()
    client = node.connect("c")
    send(client, *FILTERS)
    client.wire.feed(encode(Publish(b"f/2999", b"x", 1, packet_id=7), V5) + encode(Pingreq(), V5))
    client.wire.feed(encode(Unsubscribe(9, ("f/2999", "f/none")), V5))
    node.turn()
    suback, *rest = client.take_all()
    assert isinstance(suback, Suback)
    assert {type(packet) for packet in rest[:-1]} >= {Publish, Ack}
    assert isinstance(rest[-1], Unsuback)
    assert rest[-1].reasons == (ReasonCode.SUCCESS, ReasonCode.NO_SUBSCRIPTION_EXISTED)


def test_unsubscribing_takes_turns_as_well() -> None:
    node = Node()
    client = node.connect("c")
    client.subscribe(*FILTERS)
    client.wire.feed(encode(Unsubscribe(9, (*FILTERS, "f/none")), V5))
    node.one_turn()
    assert node.broker.routing.routes.subscription_count > len(FILTERS) - MOST
    node.turn()
    (unsuback,) = client.take(Unsuback)
    assert unsuback.reasons == (ReasonCode.SUCCESS,) * len(FILTERS) + (ReasonCode.NO_SUBSCRIPTION_EXISTED,)
    assert node.broker.routing.routes.subscription_count == 0


def test_who_leaves_meanwhile_leaves_nothing_behind() -> None:
    node = Node()
    client = node.connect("c")
    send(client, *FILTERS)
    node.one_turn()
    assert node.broker.routing.routes.subscription_count
    client.lose()
    assert node.broker.routing.routes.subscription_count == node.broker.publishing.budget.paused_count == 0


def test_who_takes_the_session_over_meanwhile_has_what_was_served() -> None:
    """The rest was its predecessor's, which gets no answer."""
    node = Node()
    client = node.connect("c", clean=False, expiry=60)
    send(client, *FILTERS)
    node.one_turn()
    other = node.connect("c", clean=False, expiry=60)
    node.turn()
    assert client.closed
    assert not client.take(Suback)
    count = len(node.session("c").subscriptions)
    assert 0 < count < len(FILTERS)
    other.subscribe(*FILTERS)
    assert len(node.session("c").subscriptions) == len(FILTERS)


def test_limits_hold_for_all_of_it() -> None:
    node = Node(MqttSettings(max_subscriptions_per_client=2_500))
    client = node.connect("c")
    reasons = client.subscribe(*FILTERS).reasons
    assert reasons == (0,) * 2_500 + (ReasonCode.QUOTA_EXCEEDED,) * 500


def test_what_is_retained_meanwhile_comes_once() -> None:
    """For filters that were served before it is published, and for those that are served later."""
    node = Node()
    writer = node.connect("writer")
    writer.publish(FILTERS[0], b"old", qos=1, retain=True)
    client = node.connect("c")
    send(client, *FILTERS, qos=1)
    for topic in (FILTERS[0], FILTERS[-1]):
        writer.wire.feed(encode(Publish(topic.encode(), b"new", 1, True, packet_id=writer.next_id()), V5))
    assert not client.take(Suback)
    node.turn()
    assert sorted(client.drain()) == [b"new", b"new"]
