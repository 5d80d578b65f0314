"""Replay: from a place in the log to its end and on, without gap or double."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from iot_mqtt.broker.settings import LogUse
from iot_mqtt.codec import PacketType, Request
from iot_mqtt.grid.log import LogSettings
from iot_mqtt.pipeline import OutboxSettings
from iot_mqtt.ports.counters import Drop
from tests.unit.broker.harness import V311, Node, subscribe
from tests.unit.broker.logreaders import (
    NO_PAGES,
    SHORT,
    check,
    durable,
    forget_old,
    numbers,
    publish,
    unreadable,
)

RECORDED = LogUse(batch_size=5, record=("#",))
QOS = pytest.mark.parametrize("qos", [0, 1, 2])


def recording(log_settings: LogSettings | None = None, outbox: OutboxSettings | None = None) -> Node:
    """A node that keeps everything for replays."""
    return Node(log_use=RECORDED, log_settings=log_settings, outbox=outbox)


@QOS
@pytest.mark.parametrize("kept", [False, True], ids=["clean", "durable"])
@pytest.mark.parametrize("together", [False, True], ids=["one-by-one", "runs"])
def test_history_and_presence_are_one_sequence(qos: int, kept: bool, together: bool) -> None:
    """Whatever is published while the history is read, and however small the window."""
    node = recording()
    publish(node, 0, 12, qos=qos, together=together)
    publish(node, 0, 9, "other", qos=qos)
    reader = durable(node, window=4) if kept else node.connect("reader", receive_maximum=4)
    assert reader.subscribe("$replay/0/t", qos=qos).reasons == (qos,)
    publish(node, 12, 15, qos=qos)
    assert reader.drain() == numbers(0, 15)
    publish(node, 15, 18, qos=qos)
    assert reader.drain() == numbers(15, 18)
    check(node)


def stamp(node: Node) -> str:
    """Now, as ISO 8601 has it."""
    return datetime.fromtimestamp(node.clock.wall(), UTC).isoformat()


def test_every_beginning_there_is() -> None:
    """A duration, a time, an offset; and those that are in the future, or before all there is."""
    node = recording()
    publish(node, 0, 2)
    node.advance(100)
    when, offset = stamp(node), node.log.end
    publish(node, 2, 4)
    node.advance(50)
    publish(node, 4, 5)
    cases = {
        "0": numbers(0, 5),
        "2w": numbers(0, 5),
        "100s": numbers(2, 5),
        "1m": numbers(2, 5),
        "50s": numbers(2, 5),
        "49s": numbers(4, 5),
        when: numbers(2, 5),
        when.replace("+00:00", "Z"): numbers(2, 5),
        when.replace("+00:00", ""): numbers(2, 5),
        str(offset): numbers(2, 5),
        str(node.log.end): [],
        "18446744073709551615": [],
        "99999999999999999999": [],
        "9999-12-31": [],
        "0001-01-01": numbers(0, 5),
        "0001-01-01T00:00:00+23:59": numbers(0, 5),
        "9999-12-31T23:59:59-23:59": [],
    }
    for begin, expected in cases.items():
        reader = node.connect("reader")
        assert reader.subscribe(f"$replay/{begin}/t", qos=1).reasons == (1,), begin
        assert reader.drain() == expected, begin
    check(node)


def test_an_offset_from_utc() -> None:
    """It has a plus, which is no wildcard there."""
    node = recording()
    publish(node, 0, 1)
    node.advance(3600)
    when = datetime.fromtimestamp(node.clock.wall() + 7200, UTC).replace(tzinfo=None).isoformat() + "+02:00"
    publish(node, 1, 2)
    reader = node.connect("reader")
    assert reader.subscribe(f"$replay/{when}/+", qos=1).reasons == (1,)
    assert reader.drain() == numbers(1, 2)
    assert reader.unsubscribe(f"$replay/{when}/+").reasons == (0,)


def test_what_begins_in_the_future_is_live_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what is published while its place is being looked for."""
    node = recording(log_settings=NO_PAGES)
    publish(node, 0, 1)
    for _ in range(600):
        publish(node, 0, 1, "fill")
    reader = node.connect("reader")
    with unreadable(node, monkeypatch):
        reader.subscribe("$replay/9999-12-31/t", qos=1)
        publish(node, 1, 2)
    node.advance(2)
    publish(node, 2, 3)
    assert reader.drain() == numbers(1, 3)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_durable_session_goes_on_where_it_was(qos: int) -> None:
    """Over reconnects and restarts, in flight and behind."""
    node = recording()
    publish(node, 0, 10, qos=qos)
    reader = durable(node, window=3)
    reader.subscribe("$replay/0/t", qos=qos)
    assert [one.payload for one in reader.messages()] == numbers(0, 3)
    reader.ack(PacketType.PUBACK if qos == 1 else PacketType.PUBREC, 1)
    node.restart()
    publish(node, 10, 12, qos=qos)
    reader = durable(node, window=3)
    assert reader.drain() == numbers(1, 12)
    assert node.counters.messages_resent == (3 if qos == 1 else 2)
    publish(node, 12, 13, qos=qos)
    assert reader.drain() == numbers(12, 13)
    node.restart()
    assert durable(node).drain() == []


def test_at_qos_0_a_restart_brings_nothing_again() -> None:
    """Nothing is acknowledged; what was sent is over."""
    node = recording()
    publish(node, 0, 4)
    reader = durable(node)
    reader.subscribe("$replay/0/t", qos=0)
    publish(node, 4, 6)
    assert reader.payloads() == numbers(0, 6)
    node.restart()
    publish(node, 6, 7)
    assert durable(node).payloads() == numbers(6, 7)


def test_killed_while_its_beginning_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """SUBACK was sent: the start looks for the same time, not for the present."""
    node = recording(log_settings=NO_PAGES)
    publish(node, 0, 2)
    for _ in range(600):
        publish(node, 0, 1, "fill")
    reader = durable(node)
    with unreadable(node, monkeypatch):
        assert reader.subscribe("$replay/2w/t", qos=1).reasons == (1,)
        node.advance(3)
        assert reader.messages() == []
    node.restart()
    publish(node, 2, 3)
    assert durable(node).drain() == numbers(0, 3)


def test_a_slow_reader_at_qos_0_gets_all_of_it() -> None:
    """Only its outbox bounds it: it reads on when that has room."""
    node = recording(outbox=OutboxSettings(high_water=300, low_water=100))
    publish(node, 0, 200, together=False)
    reader = node.connect("reader")
    reader.wire.link.capacity = 0
    reader.send(subscribe(1, "$replay/0/t"))
    (cursor,) = (node.session("reader").replays or {}).values()
    assert not cursor.live, "it does not read, and all of it was sent"
    publish(node, 200, 201)
    assert node.waiting == 1
    reader.wire.link.drain()
    node.turn()
    assert reader.payloads() == numbers(0, 201)
    assert cursor.live
    check(node)


def test_no_retained_messages_are_sent() -> None:
    """They are how things are, not how they were."""
    node = recording()
    node.connect("writer").publish("t", b"kept", qos=1, retain=True)
    reader = node.connect("reader")
    reader.subscribe(Request(f"$replay/{node.log.end}/t", 1))
    assert reader.messages() == []
    reader.subscribe(Request("$replay/0/t", 1, retain_as_published=True), identifier=7)
    (message,) = reader.messages()
    assert (message.payload, message.retain, message.properties.subscription_identifiers) == (b"kept", True, (7,))


def test_what_it_has_published_itself() -> None:
    """[MQTT-3.8.3-3] History included."""
    node = recording()
    reader = node.connect("reader")
    reader.publish("t", b"own", qos=1)
    publish(node, 0, 1)
    reader.subscribe(Request("$replay/0/t", 1, no_local=True))
    reader.publish("t", b"own", qos=1)
    publish(node, 1, 2)
    assert reader.drain() == numbers(0, 2)
    check(node)


def test_beside_a_plain_subscription_both_bring_their_own() -> None:
    """They are two subscriptions, and two replays are two more."""
    node = recording()
    reader = durable(node)
    reader.subscribe("t", "$replay/0/t", "$replay/1h/t", qos=1)
    publish(node, 0, 2)
    assert sorted(reader.drain()) == sorted(numbers(0, 2) * 3)
    assert reader.unsubscribe("t", "$replay/0/t").reasons == (0, 0)
    publish(node, 2, 3)
    assert reader.drain() == numbers(2, 3)
    check(node)


def test_subscribing_again_begins_again() -> None:
    """What the old one was owed is counted as given up."""
    node = recording()
    publish(node, 0, 3)
    reader = durable(node, window=1)
    reader.subscribe("$replay/0/t", qos=1)
    publish(node, 3, 5)
    reader.subscribe("$replay/0/t", qos=1)
    assert reader.drain() == [b"0", *numbers(0, 5)]
    assert node.dropped() == {Drop.UNSUBSCRIBED: 2}
    check(node)


@pytest.mark.parametrize("how", ["unsubscribes", "ends"])
def test_what_it_was_owed_is_counted(how: str) -> None:
    """Of the history nothing was anybody's; what came since was."""
    node = recording()
    publish(node, 0, 3)
    reader = durable(node, window=1)
    reader.subscribe("$replay/0/t", qos=1)
    publish(node, 3, 5)
    assert reader.payloads() == numbers(0, 1)
    if how == "unsubscribes":
        reader.unsubscribe("$replay/0/t")
        assert reader.drain() == []
        assert node.dropped() == {Drop.UNSUBSCRIBED: 2}
    else:
        reader.disconnect(session_expiry_interval=0)
        assert node.dropped() == {Drop.SESSION_ENDED: 3}
    publish(node, 5, 6)
    check(node)


def test_retention_takes_what_it_has_not_read() -> None:
    """Before the first message kept begins there; what was owed is counted."""
    node = recording(log_settings=SHORT)
    publish(node, 0, 3)
    reader = durable(node, window=1)
    reader.subscribe("$replay/0/t", qos=1)
    publish(node, 3, 5)
    reader.lose()
    forget_old(node)
    # At once what waits; what is under way when its client comes for it.
    assert node.dropped() == {Drop.RETENTION: 2}
    publish(node, 5, 7)
    reader = durable(node, window=1)
    assert reader.drain() == numbers(5, 7)
    assert node.dropped() == {Drop.RETENTION: 3}
    check(node)


def test_a_client_of_3_1_1() -> None:
    """The filter says it all."""
    node = recording()
    publish(node, 0, 3)
    reader = node.connect("reader", V311, clean=False)
    reader.subscribe("$replay/0/#", qos=2)
    assert reader.drain() == numbers(0, 3)


@pytest.mark.parametrize("limits", [{}, {"topic_alias_maximum": 3}], ids=str)
@QOS
def test_a_replayed_message_has_the_time_that_is_left(qos: int, limits: dict[str, Any]) -> None:
    """[MQTT-3.3.2-6] At every QoS."""
    node = recording()
    node.connect("writer").publish("t", b"x", qos=1, message_expiry_interval=60)
    node.advance(10.4)
    reader = node.connect("reader", **limits)
    reader.subscribe("$replay/1h/t", qos=qos)
    (message,) = reader.messages()
    assert message.properties.message_expiry_interval == 49


def test_expired_messages_are_history_that_nobody_gets() -> None:
    """[MQTT-3.3.2-5]"""
    node = recording()
    writer = node.connect("writer")
    writer.publish("t", b"old", qos=1, message_expiry_interval=5)
    writer.publish("t", b"new", qos=1, message_expiry_interval=60)
    node.advance(10)
    reader = node.connect("reader")
    reader.subscribe("$replay/1h/t", qos=1)
    (message,) = reader.messages()
    assert (message.payload, message.properties.message_expiry_interval) == (b"new", 50)
    reader.ack(PacketType.PUBACK, 1)
    check(node)
