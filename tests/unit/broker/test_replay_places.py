"""What a replayed message says of itself, so that its reader can go on from there; and replays of nothing."""

from __future__ import annotations

from datetime import datetime

import pytest

from iot_mqtt.broker.publication import REPLAY_NEXT, REPLAY_TIME, place_in
from iot_mqtt.broker.readers import recorded
from iot_mqtt.broker.readers.replay import beginning
from iot_mqtt.broker.settings import LogUse
from iot_mqtt.codec import Properties, Publish, Request, Suback, Subscribe
from iot_mqtt.errors import ReasonCode, Refused, Unavailable
from tests.unit.broker.harness import V311, Node
from tests.unit.broker.logreaders import durable, numbers, publish

RECORDED = LogUse(batch_size=5, record=("t/#",))
NOTHING_THERE = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
QOS = pytest.mark.parametrize("qos", [0, 1, 2])


def said(message: Publish) -> dict[str, str]:
    return {name: value for name, value in message.properties.user_properties if name.startswith("replay-")}


@QOS
def test_whoever_goes_on_where_it_stopped_misses_nothing_and_gets_nothing_twice(qos: int) -> None:
    """At every message, in history and in what is published meanwhile."""
    node = Node(log_use=RECORDED)
    publish(node, 0, 4, "t", qos=qos)
    publish(node, 4, 6, "t", qos=qos, together=False)
    reader = node.connect("reader")
    reader.subscribe("$replay/0/t", qos=qos)
    publish(node, 6, 8, "t", qos=qos)
    came = reader.messages()
    assert [one.payload for one in came] == numbers(0, 8)
    for number, message in enumerate(came):
        place = said(message)[REPLAY_NEXT]
        other = node.connect("other")
        assert other.subscribe(f"$replay/{place}/t", qos=qos).reasons == (qos,)
        assert [one.payload for one in other.messages()] == numbers(number + 1, 8)


def test_it_says_when_it_came() -> None:
    """At the node, in UTC: what a replay takes as its beginning, too."""
    node = Node(log_use=RECORDED)
    publish(node, 0, 1, "t")
    when = node.clock.wall()
    node.advance(3600)
    reader = node.connect("reader")
    reader.subscribe("$replay/0/t", qos=1)
    (message,) = reader.messages()
    told = said(message)[REPLAY_TIME]
    assert told.endswith("Z")
    assert datetime.fromisoformat(told).timestamp() == pytest.approx(when, abs=0.001)
    assert beginning(told, 0.0, 0) == pytest.approx(when, abs=0.001)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_is_sent_again_says_the_same(restarted: bool) -> None:
    """Over another connection, and by another life of the node."""
    node = Node(log_use=RECORDED)
    publish(node, 0, 3, "t")
    reader = durable(node)
    reader.subscribe("$replay/0/t", qos=1)
    first = [(one.payload, said(one)) for one in reader.messages()]
    reader.lose()
    if restarted:
        node.restart()
    again = durable(node).messages()
    assert [(one.payload, said(one)) for one in again] == first
    assert all(one.dup for one in again)


def test_what_the_publisher_said_stays() -> None:
    """Its properties come first, and its own "replay-next" is not the last."""
    node = Node(log_use=RECORDED)
    own = (("unit", "C"), (REPLAY_NEXT, "7"))
    node.connect("w").publish("t", b"x", qos=1, user_properties=own)
    reader = node.connect("reader")
    reader.subscribe("$replay/0/t", qos=1)
    (message,) = reader.messages()
    names = [name for name, _ in message.properties.user_properties]
    assert message.properties.user_properties[:2] == own
    assert names == ["unit", REPLAY_NEXT, REPLAY_TIME, REPLAY_NEXT]


def test_plain_subscribers_and_version_3_are_told_nothing() -> None:
    """The same message, at the same time."""
    node = Node(log_use=RECORDED)
    plain, old, new = node.connect("plain"), node.connect("old", V311), node.connect("new")
    plain.subscribe("t", qos=1)
    for reader in (old, new):
        reader.subscribe("$replay/0/t", qos=1)
    publish(node, 0, 2, "t")
    assert [said(one) for one in plain.messages()] == [{}, {}]
    assert [one.payload for one in old.messages()] == numbers(0, 2)
    assert all(said(one) for one in new.messages())


def test_a_client_of_small_packets_gets_messages_that_fit_without_it() -> None:
    """A courtesy costs nobody a message."""
    node = Node(log_use=RECORDED)
    writer = node.connect("w")
    for payload in (b"x" * 10, b"x" * 190):
        writer.publish("t", payload, qos=1)
    reader = node.connect("reader", maximum_packet_size=200)
    reader.subscribe("$replay/0/t", qos=1)
    short, long = reader.messages()
    assert set(said(short)) == {REPLAY_TIME, REPLAY_NEXT}
    assert (len(long.payload), said(long)) == (190, {})


def test_a_place_in_another_log_is_refused() -> None:
    """It would be a place of no meaning here."""
    node = Node(log_use=RECORDED)
    publish(node, 0, 2, "t")
    reader = node.connect("reader")
    assert reader.subscribe("$replay/0.0/t", "$replay/3.0/t", qos=1).reasons == (1, NOTHING_THERE)
    assert (place_in(0, 77), place_in(3, 77)) == ("77", "3.77")
    assert beginning("3.77", 0.0, 3) == 77
    with pytest.raises(Refused, match="number 3, and this is number 0"):
        beginning("3.77", 0.0, 0)


# Replays of nothing.


def test_a_filter_of_which_nothing_is_recorded_is_refused_and_the_client_is_told() -> None:
    """The others of the same SUBSCRIBE are served; nothing is left of it."""
    node = Node(log_use=RECORDED)
    reader = node.connect("reader")
    packet = Subscribe(1, tuple(Request(one, 1) for one in ("$replay/1h/other/#", "plain", "$replay/1h/t/+")))
    reader.send(packet)
    (suback,) = reader.take(Suback)
    assert suback.reasons == (NOTHING_THERE, 1, 1)
    assert suback.properties.reason_string == "nothing of other/# is recorded: see log.record"
    assert set(node.session("reader").subscriptions) == {"plain", "$replay/1h/t/+"}
    assert node.connect("old", V311).subscribe("$replay/1h/other", qos=1).reasons == (0x80,)
    named = Properties(user_properties=(("replay", "1h"),))
    reader.send(Subscribe(2, (Request("other", 1),), named))
    (suback,) = reader.take(Suback)
    assert suback.reasons == (NOTHING_THERE,)


def test_a_part_is_enough() -> None:
    """Nobody can say of every topic beforehand whether it is recorded."""
    node = Node(log_use=RECORDED)
    assert node.connect("reader").subscribe("$replay/1h/#", "$replay/1h/+/x", qos=1).reasons == (1, 1)


@pytest.mark.parametrize("who", ["t2", "$share/g/t2"])
def test_what_somebody_durable_wants_is_recorded(who: str) -> None:
    """From its SUBSCRIBE on, and as long as the log has something of it."""
    node = Node()
    assert node.connect("reader").subscribe("$replay/1h/t2", qos=1).reasons == (NOTHING_THERE,)
    node.connect("other").subscribe("t2", qos=1)
    assert node.connect("reader").subscribe("$replay/1h/t2", qos=1).reasons == (NOTHING_THERE,)
    keeper = durable(node, "keeper")
    keeper.subscribe(who, qos=1)
    assert node.connect("reader").subscribe("$replay/1h/t2", qos=1).reasons == (1,)
    node.connect("reader").lose()
    publish(node, 0, 2, "t2")
    keeper.unsubscribe(who)
    reader = node.connect("reader")
    assert reader.subscribe("$replay/0/t2", qos=1).reasons == (1,)
    assert reader.drain() == numbers(0, 2)


def test_where_many_have_subscribed_one_of_them_may_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look at all of them would take too long."""
    monkeypatch.setattr(recorded, "LOOKED_AT", 20)
    node = Node()
    client = durable(node, "keeper")
    client.subscribe(*(f"far/{number}" for number in range(20)), qos=1)
    assert node.connect("reader").subscribe("$replay/1h/t2", qos=1).reasons == (NOTHING_THERE,)
    client.subscribe("far/away", qos=1)
    assert node.connect("reader").subscribe("$replay/1h/t2", qos=1).reasons == (1,)


def test_a_log_that_cannot_be_asked_may_have_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not ready is not absent."""
    node = Node(log_use=RECORDED)
    publish(node, 0, 1, "t")

    async def refuse(generation: int | None = None) -> None:
        raise Unavailable("not now")

    monkeypatch.setattr(type(node.log), "streams", lambda self, generation=None: refuse(generation))
    assert node.connect("reader").subscribe("$replay/1h/other", qos=1).reasons == (1,)


def test_a_client_that_went_meanwhile_is_answered_by_nobody() -> None:
    """And its session, if it stays, has the replay no more."""
    node = Node(log_use=RECORDED)
    reader = durable(node)
    reader.send(Subscribe(1, (Request("$replay/1h/other", 1),)))
    reader.lose()
    node.turn()
    durable(node)
    assert not node.session("reader").subscriptions
