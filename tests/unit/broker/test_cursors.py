"""Readers of the log: live, behind, and live again; nothing missing, nothing twice, in order."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import pytest

from iot_mqtt.broker import claims
from iot_mqtt.broker.readers.in_order import OrderedCursor
from iot_mqtt.broker.settings import LogUse, MqttSettings
from iot_mqtt.codec import ConnectWill, PacketType, Request
from iot_mqtt.errors import ReasonCode
from iot_mqtt.grid.log import GridLog, LogSettings
from iot_mqtt.pipeline import OutboxSettings
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import Reading
from tests.unit.broker.harness import V311, Node
from tests.unit.broker.logreaders import NO_PAGES, check, durable, numbers, publish, unreadable

PUBACK = PacketType.PUBACK


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("together", [False, True], ids=["one-by-one", "runs"])
@pytest.mark.parametrize("window", [1, 3, None])
def test_live_behind_and_live_again_is_one_order(qos: int, together: bool, window: int | None) -> None:
    """The window's edge may be anywhere in a run; what does not fit is read later, and then comes what is newer."""
    node = Node(log_use=LogUse(batch_size=4))
    reader = durable(node, window=window)
    reader.subscribe("t", qos=qos)
    publish(node, 0, 5, qos=qos, together=together)
    publish(node, 5, 20, qos=qos, together=together)
    assert reader.drain() == numbers(0, 20)
    cursor = node.kept_session("reader").cursor
    assert cursor is not None and cursor.live
    publish(node, 20, 21, qos=qos)
    assert reader.drain() == numbers(20, 21)
    check(node)


def test_no_more_than_the_window_is_under_way() -> None:
    """The rest is in the log and nowhere else."""
    node = Node()
    reader = durable(node, window=3)
    reader.subscribe("t", qos=1)
    publish(node, 0, 8)
    assert reader.payloads() == numbers(0, 3)
    assert node.waiting == 8
    reader.ack(PUBACK, 1)
    assert reader.payloads() == numbers(3, 4)
    publish(node, 8, 9)
    reader.ack(PUBACK, 2, 3, 4)
    assert reader.payloads() == numbers(4, 7)
    check(node)


@pytest.mark.interpreted
@pytest.mark.parametrize("together", [False, True], ids=["one-by-one", "runs"])
@pytest.mark.parametrize("restarted", [False, True], ids=["reconnect", "restart"])
def test_a_client_that_takes_one_at_a_time_costs_few_reads(
    monkeypatch: pytest.MonkeyPatch, restarted: bool, together: bool
) -> None:
    """A read costs the same for one as for many. What is read ahead is gone with the connection."""
    node = Node()
    durable(node, window=1).subscribe("t", qos=1)
    node.clients[-1].lose()
    publish(node, 0, 100, together=together)
    if restarted:
        node.restart()
    reads: list[int] = []
    read = GridLog.read

    async def counted(self: GridLog, filters: Sequence[str], position: int, messages: int, budget: int) -> Reading:
        reads.append(messages)
        return await read(self, filters, position, messages, budget)

    monkeypatch.setattr(GridLog, "read", counted)
    reader = durable(node, window=1)
    assert reader.drain() == numbers(0, 100)
    assert 0 < len(reads) < 10, len(reads)
    check(node)
    publish(node, 100, 120, together=False)
    reader.lose()
    cursor = node.kept_session("reader").cursor
    assert isinstance(cursor, OrderedCursor) and cursor.ahead is None
    assert durable(node, window=1).drain() == numbers(100, 120)
    check(node)


@pytest.mark.parametrize("size", [1, 3_000, 40_000])
def test_what_is_read_ahead_is_little(size: int) -> None:
    """Of each session that is online and slow."""
    node = Node()
    reader = durable(node, window=1)
    reader.subscribe("t", qos=1)
    writer = node.connect("writer")
    sent = [b"%d %s" % (number, bytes(size)) for number in range(200)]
    writer.publish("t", *sent, qos=1)
    reader.ack(PUBACK, 1)
    cursor = node.kept_session("reader").cursor
    assert isinstance(cursor, OrderedCursor)
    ahead = [] if cursor.ahead is None else cursor.ahead.runs
    assert sum(len(run.run.wire) for run in ahead) < 32 * 1024
    assert sum(run.reference.length for run in ahead) <= 32
    assert [one.split()[0] for one in reader.drain()] == numbers(0, 200)


@pytest.mark.parametrize("restarted", [False, True], ids=["reconnect", "restart"])
def test_what_was_published_meanwhile_comes_after_what_was_under_way(restarted: bool) -> None:
    """First what has its packet id, then the log, then what is published while that is read."""
    node = Node()
    reader = durable(node, window=2)
    reader.subscribe("t", qos=1)
    publish(node, 0, 4)
    reader.lose()
    publish(node, 4, 7)
    if restarted:
        node.restart()
    assert node.waiting == 7
    reader = durable(node, window=2)
    publish(node, 7, 9)
    assert reader.drain() == numbers(0, 9)
    check(node)


def test_a_takeover_while_behind_goes_on_where_it_was() -> None:
    """The newcomer gets what the old connection had not confirmed, and the rest."""
    node = Node()
    old = durable(node, window=2)
    old.subscribe("t", qos=1)
    publish(node, 0, 5)
    old.ack(PUBACK, 1)
    assert old.payloads() == numbers(0, 3)
    new = durable(node, window=4)
    assert new.drain() == numbers(1, 5)
    check(node)


def test_a_reader_that_cannot_read_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not ready is not empty: the position holds until the disk answers."""
    node = Node(log_settings=NO_PAGES)
    durable(node).subscribe("t", qos=1)
    node.clients[-1].lose()
    publish(node, 0, 3)
    with unreadable(node, monkeypatch) as attempts:
        reader = durable(node)
        publish(node, 3, 5)
        node.advance(5)
        assert reader.payloads() == []
        assert len(attempts) >= 3, "it did not try again"
        assert node.waiting == 5
    node.advance(1)
    assert reader.drain() == numbers(0, 5)
    check(node)


@pytest.mark.parametrize("restarted", [False, True], ids=["reconnect", "restart"])
def test_claims_of_ended_subscriptions_have_their_options(restarted: bool) -> None:
    """Also over a restart: QoS and identifier of each stretch, and nothing of the gap."""
    node = Node()
    reader = durable(node, window=1)
    reader.subscribe("t", qos=2, identifier=1)
    publish(node, 0, 2, qos=2)
    reader.subscribe("t", qos=1, identifier=2)
    publish(node, 2, 4, qos=2)
    reader.unsubscribe("t")
    publish(node, 4, 5, qos=2)
    reader.subscribe("+", qos=2, identifier=3)
    publish(node, 5, 6, qos=2)
    if restarted:
        node.restart()
    else:
        reader.lose()
    reader = durable(node, window=10)
    # One is under way, the others come from the log in one go.
    got = [(int(one.payload), one.qos, one.properties.subscription_identifiers) for one in reader.messages()]
    assert got == [(0, 2, (1,)), (1, 2, (1,)), (2, 1, (2,)), (3, 1, (2,)), (5, 2, (3,))]
    cursor = node.kept_session("reader").cursor
    assert cursor is not None and cursor.live and cursor.past is None


def test_so_many_claims_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """While too many ended ones are owed, none may begin; catching up ends that."""
    monkeypatch.setattr(claims, "MAX_PAST", 3)
    node = Node()
    reader = durable(node, window=1)
    reader.subscribe("t", qos=1)
    publish(node, 0, 2)
    for identifier in (1, 2, 3):
        assert reader.subscribe("t", qos=1, identifier=identifier).reasons == (1,)
        publish(node, 0, 1)
    assert reader.subscribe("t", qos=1).reasons == (ReasonCode.QUOTA_EXCEEDED,)
    assert reader.subscribe("u", qos=1).reasons == (ReasonCode.QUOTA_EXCEEDED,)
    assert reader.unsubscribe("t").reasons == (ReasonCode.SUCCESS,)
    assert len(reader.drain()) == 5
    assert reader.subscribe("t", qos=1).reasons == (1,)
    check(node)


@pytest.mark.parametrize("restarted", [False, True], ids=["reconnect", "restart"])
def test_messages_expire_in_the_log(restarted: bool) -> None:
    """To the second, and counted; what is left of the others' time is sent with them [MQTT-3.3.2-6]."""
    node = Node()
    reader = durable(node)
    reader.subscribe("t", qos=1)
    reader.lose()
    writer = node.connect("writer")
    writer.publish("t", b"short", qos=1, message_expiry_interval=10)
    writer.publish("t", b"long", qos=1, message_expiry_interval=100)
    writer.publish("t", b"ever", qos=1)
    node.advance(10)
    if restarted:
        node.restart()
    got = durable(node).messages()
    assert [(one.payload, one.properties.message_expiry_interval) for one in got] == [(b"long", 90), (b"ever", None)]
    assert node.dropped() == {Drop.EXPIRED: 1}
    check(node)


def test_retained_messages_and_the_log_together() -> None:
    """Both come, each once, also when neither fits into the window at once."""
    node = Node()
    node.connect("writer").publish("r/1", b"r1", qos=1, retain=True)
    node.connect("writer").publish("r/2", b"r2", qos=1, retain=True)
    reader = durable(node, window=1)
    reader.subscribe("t", qos=1)
    publish(node, 0, 3)
    reader.subscribe("r/#", qos=1)
    publish(node, 3, 5)
    got = reader.drain()
    assert sorted(got) == sorted([*numbers(0, 5), b"r1", b"r2"])
    assert [one for one in got if not one.startswith(b"r")] == numbers(0, 5)
    check(node)


@pytest.mark.parametrize("aliases", [0, 2])
def test_what_is_too_large_is_passed_over(aliases: int) -> None:
    """[MQTT-3.1.2-25] Wherever it stands in a run; the others come, and nothing stops."""
    node = Node()
    reader = durable(node)
    reader.subscribe("t", qos=1)
    reader.lose()
    writer = node.connect("writer")
    writer.publish("t", b"1", b"x" * 200, b"2", qos=1)
    writer.publish("t", b"x" * 200, qos=1)
    writer.publish("t", b"3", qos=1)
    reader = durable(node, window=1, maximum_packet_size=100, topic_alias_maximum=aliases)
    assert reader.drain() == numbers(1, 4)
    assert node.dropped() == {Drop.TOO_LARGE: 2}
    check(node)


def test_a_smaller_window_and_a_smaller_packet() -> None:
    """Under way already, and now too large for the one place that there is: the place is for the next."""
    node = Node()
    reader = durable(node, window=3)
    reader.subscribe("t", qos=1)
    node.connect("writer").publish("t", b"x" * 200, b"y" * 200, b"1", qos=1)
    reader.lose()
    assert durable(node, window=1, maximum_packet_size=100).drain() == [b"1"]
    check(node)


@pytest.mark.parametrize("away", [False, True])
def test_what_a_client_has_published_itself(away: bool) -> None:
    """[MQTT-3.8.3-3] Not for its own no-local subscription, be it read from the log; its will neither."""
    node = Node()
    reader = durable(node, window=1)
    reader.subscribe(Request("t", 1, no_local=True))
    publish(node, 0, 2)
    reader.publish("t", b"own", qos=1)
    publish(node, 2, 3)
    if away:
        reader.lose()
        reader = durable(node)
    assert reader.drain() == numbers(0, 3)
    check(node)


def test_what_a_client_has_left_as_its_will() -> None:
    """It has published that itself, too; in the log it would have waited for it."""
    node = Node()
    will = ConnectWill(b"t", b"gone", 1, False)
    reader = node.connect("reader", clean=False, expiry=600, will=will)
    reader.subscribe(Request("t", 1, no_local=True))
    reader.lose()
    assert node.waiting == 0
    publish(node, 0, 1)
    assert durable(node).drain() == numbers(0, 1)
    check(node)


def test_identifiers_of_all_that_match() -> None:
    """[MQTT-3.3.4-3] [MQTT-3.3.4-4] Live and from the log the same."""
    node = Node()
    reader = durable(node)
    reader.subscribe("t", qos=1, identifier=1)
    reader.subscribe("+", qos=2, identifier=2)
    publish(node, 0, 1, qos=2)
    reader.lose()
    publish(node, 1, 2, qos=2)
    reader = durable(node)
    got = [(one.payload, one.qos, sorted(one.properties.subscription_identifiers)) for one in reader.messages()]
    assert got == [(b"0", 2, [1, 2]), (b"1", 2, [1, 2])]


def test_a_session_that_becomes_durable_keeps_its_order() -> None:
    """What it had by value comes before what it reads, also while its window has room and its client does not read."""
    node = Node(durable=False, outbox=OutboxSettings(high_water=200, low_water=50))
    reader = durable(node)
    reader.subscribe("t", qos=1)
    reader.subscribe("filler")
    reader.lose()
    publish(node, 0, 6)
    node.durable = True
    reader = durable(node, window=2)
    assert reader.payloads() == numbers(0, 2)
    reader.wire.link.capacity = 0
    node.connect("other").publish("filler", b"x" * 300)
    reader.ack(PUBACK, 1, 2)
    publish(node, 6, 9)
    reader.wire.link.drain()
    node.turn()
    assert reader.drain() == [b"x" * 300, *numbers(2, 9)]
    check(node)


def test_a_session_that_ceases_to_be_durable_keeps_its_order() -> None:
    """It reads to the end, and is then served by value; a restart has nothing of it."""
    node = Node()
    reader = durable(node)
    reader.subscribe("t", qos=1)
    reader.lose()
    publish(node, 0, 4)
    reader = node.connect("reader", clean=False, receive_maximum=1)
    publish(node, 4, 6)
    assert reader.drain() == numbers(0, 6)
    assert node.kept_session("reader").cursor is None
    publish(node, 6, 7)
    assert reader.drain() == numbers(6, 7)
    check(node)
    node.restart()
    assert node.broker.sessions.get("reader") is None


def test_a_client_of_3_1_1_reads_on_as_well() -> None:
    """The clean flag makes its session durable."""
    node = Node(MqttSettings(max_inflight=2))
    reader = node.connect("reader", V311, clean=False)
    reader.subscribe("t", qos=2)
    reader.lose()
    publish(node, 0, 7, qos=2)
    node.restart()
    assert node.connect("reader", V311, clean=False).drain() == numbers(0, 7)


def test_a_session_that_is_away_costs_the_same_whatever_waits_for_it() -> None:
    """Messages are in the log; a backlog of ten thousand is a number."""
    node = Node(log_settings=LogSettings(page_cache_bytes=0))
    for number in range(20):
        reader = durable(node, f"reader{number}")
        reader.subscribe("t", qos=1)
        reader.lose()
    publish(node, 0, 100)
    tracemalloc.start()
    try:
        # What is remembered of the connections of publishers has bounds of its own; the doubles keep theirs.
        kept = ("grid/*", "ports/*", "broker/recorder.py", "native/*", "connections/*", "attempts.py", "doubles/*")
        aside = [tracemalloc.Filter(False, f"*/{one}") for one in kept]
        before = sum(one.size for one in tracemalloc.take_snapshot().filter_traces(aside).statistics("filename"))
        for start in range(100, 10_000, 100):
            publish(node, start, start + 100)
        node.clients.clear()
        after = sum(one.size for one in tracemalloc.take_snapshot().filter_traces(aside).statistics("filename"))
    finally:
        tracemalloc.stop()
    assert node.waiting == 200_000
    assert after - before < 200_000
