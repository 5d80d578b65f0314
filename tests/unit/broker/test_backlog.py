"""What waits: for one session in messages and bytes, and for the node as one figure of an identity."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.facade import BacklogInfo, SessionInfo
from iot_mqtt.broker.log_part import VerificationInfo
from iot_mqtt.broker.settings import LogUse
from iot_mqtt.broker.views import backlog
from iot_mqtt.codec import PacketType
from iot_mqtt.ports.grid import CacheName
from tests.unit.broker.harness import V311, Node


def ask(node: Node, client_id: str) -> BacklogInfo:
    """The answer, once its reading is done."""
    found: list[Any] = []
    drive(node.view.backlog(client_id), found.append, found.append)
    node.turn()
    (answer,) = found
    assert isinstance(answer, BacklogInfo)
    return answer


def absent(node: Node, name: str = "reader", *filters: str, qos: int = 1) -> None:
    """A durable session that is away."""
    reader = node.connect(name, expiry=600)
    reader.subscribe(*(filters or ("t",)), qos=qos)
    reader.lose()


def session(node: Node, client_id: str = "reader") -> SessionInfo:
    found = node.view.session(client_id)
    assert found is not None
    return found


def test_messages_and_bytes_of_what_waits() -> None:
    """Topic and payload count, as everywhere; what it does not want counts nothing."""
    node = Node()
    absent(node, "reader", "t", "zero/+")
    writer = node.connect("writer")
    writer.publish("t", b"1", b"22", b"333", qos=1)
    writer.publish("other", b"x" * 100, qos=1)
    writer.publish("zero/a", b"QoS 0 does not wait")
    found = ask(node, "reader")
    assert (found.messages, found.bytes, found.complete) == (3, 3 + 6, True)
    assert ask(node, "writer").messages == 0


def test_the_claims_of_a_session() -> None:
    """Subscriptions, those that are over and still owed something, groups and replays."""
    node = Node(log_use=LogUse(record=("d",)))
    reader = node.connect("reader", expiry=600, receive_maximum=1)
    reader.subscribe("a", "b", "$share/g/c", "$replay/0/d", qos=1)
    writer = node.connect("writer")
    for topic in "abcd":
        writer.publish(topic, b"1", b"2", qos=1)
    reader.unsubscribe("b")
    claims = {(claim.filter, claim.kind): claim for claim in ask(node, "reader").claims}
    assert set(claims) == {("a", "subscription"), ("b", "ended"), ("$share/g/c", "shared"), ("$replay/0/d", "replay")}
    assert claims["b", "ended"].until == node.log.end
    assert claims["a", "subscription"].since == 0 or not claims["a", "subscription"].live
    assert {filter: claim.messages for (filter, _), claim in claims.items()} == {
        "a": 1,
        "b": 2,
        "$share/g/c": 2,
        "$replay/0/d": 2,
    }


def test_a_session_in_memory_has_a_queue_only() -> None:
    """It does not read the log."""
    node = Node(durable=False)
    absent(node)
    node.connect("writer").publish("t", b"1", b"22", qos=1)
    found = ask(node, "reader")
    assert (found.messages, found.bytes, found.complete, found.claims) == (2, 5, True, [])
    assert (session(node).backlog, session(node).position, session(node).lag) == (0, None, 0)


@pytest.mark.parametrize("limit", ["LOOK_COMPARISONS", "LOOK_BYTES"])
def test_a_long_look_is_cut_and_says_so(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks does not make the node read for ever."""
    monkeypatch.setattr(backlog, limit, 100)
    monkeypatch.setattr(backlog, "STEP", 10)
    monkeypatch.setattr(backlog, "READ_BYTES", 100)
    node = Node()
    absent(node)
    writer = node.connect("writer")
    for _ in range(50):
        writer.publish("t", *[b"x" * 9] * 10, qos=1)
    found = ask(node, "reader")
    assert found.messages == 500
    assert not found.complete
    assert 0 < found.bytes < 5000


def test_after_a_start_messages_are_counted_first() -> None:
    """Until then nobody knows, and the bytes are known all the same."""
    node = Node()
    absent(node)
    for number in range(150):
        node.connect("writer").publish("t", b"%03d" % number, qos=1)
    node.restart()
    assert (ask(node, "reader").messages, ask(node, "reader").bytes) == (150, 150 * 4)
    node.kept_session("reader").cursor.backlog = None  # type: ignore[union-attr]
    assert session(node).backlog is None
    assert node.view.info().uncounted == 1
    assert (ask(node, "reader").messages, ask(node, "reader").bytes) == (None, 600)


def test_lag_counts_batches_while_something_waits() -> None:
    """Others' messages alone are no lag."""
    node = Node()
    absent(node)
    absent(node, "other", "u")
    writer = node.connect("writer")
    for _ in range(3):
        writer.publish("u", b"1", qos=1)
    assert session(node).lag == 0
    before = session(node, "other").lag
    assert before >= 3
    writer.publish("t", b"1", qos=1)
    assert session(node).lag == session(node, "other").lag > before
    info = node.view.info()
    assert (info.backlog, info.largest_backlog, info.furthest_lag) == (4, 3, session(node).lag)


def test_received_is_delivered_waiting_and_dropped() -> None:
    """The identity, from figures that anybody can scrape; with every kind of receiver in every state."""
    node = Node()
    absent(node, "away")
    absent(node, "group", "$share/g/t")
    window = node.connect("window", expiry=600, receive_maximum=2)
    window.subscribe("t", qos=2)
    plain = node.connect("plain", receive_maximum=3)
    plain.subscribe("t", qos=1)
    zero = node.connect("zero", V311)
    zero.subscribe("t")
    replay = node.connect("replay", expiry=600, receive_maximum=2)
    replay.subscribe("$replay/0/t", qos=1)
    writer = node.connect("writer")

    def check() -> None:
        info, counters = node.view.info(), node.counters
        assert counters.messages_matched == counters.messages_delivered + info.waiting + sum(counters.dropped.values())

    for number in range(10):
        writer.publish("t", b"%d" % number, b"x", qos=number % 3)
        check()
    window.ack(PacketType.PUBREC, 1)
    check()
    window.lose()
    check()
    assert node.view.info().waiting > 0
    window = node.connect("window", clean=False, expiry=600, receive_maximum=2)
    for client in (window, plain, replay):
        client.drain()
        check()
    node.connect("away", clean=False, expiry=600).drain()
    node.connect("group", clean=False, expiry=600).drain()
    check()
    assert node.view.info().waiting == 0


def test_the_log_in_one_look() -> None:
    """What it holds and what it did."""
    node = Node()
    absent(node)
    node.connect("writer").publish("t", b"1", b"2", qos=1)
    info = node.view.log.info()
    assert (info.messages, info.messages_appended, info.generations, info.streams) == (2, 2, 1, 1)
    assert (info.pages_written, info.trouble, info.uncommitted_bytes) == (1, None, 0)
    assert info.bytes > 0
    node.hold()
    node.connect("other").publish("t", b"3", qos=1)
    assert node.view.log.info().uncommitted_bytes > 0
    node.release()
    node.fail()
    node.clients[-1].publish("t", b"4", qos=1)
    assert node.view.log.info().trouble == "no space left on device"
    node.recover()
    assert node.view.log.info().trouble is None


def test_streams_and_shards_are_the_parts_of_the_whole() -> None:
    """Their sums are the log's."""
    node = Node()
    absent(node, "reader", "a/#", "b/#")
    for number in range(20):
        writer = node.connect(f"w{number}")
        writer.publish(f"{'ab'[number % 2]}/{number}", b"x", qos=1)
    found: list[Any] = []
    drive(node.view.log.shards(), found.append, found.append)
    drive(node.view.log.streams(), found.append, found.append)
    shards, streams = found
    assert sum(one.messages for one in shards) == sum(one.messages for one in streams) == 20
    assert sum(one.bytes for one in shards) == node.view.log.info().bytes
    assert [one.shard for one in shards] == sorted({one.shard for one in streams})


def verified(node: Node) -> VerificationInfo:
    """The outcome of a check that has come to its end."""
    node.view.log.verify()
    node.turn()
    found = node.view.log.verification()
    assert not found.running
    return found


def test_a_check_finds_what_cannot_be_read() -> None:
    """And nothing where everything can; each check begins anew."""
    node = Node()
    absent(node)
    for number in range(200):
        node.connect("writer").publish("t", b"%d" % number, qos=1)
    assert node.view.log.verification().began_at is None
    assert verified(node).damaged == 0
    pages = node.grid._values[CacheName.LOG]
    key = sorted(pages)[100]
    whole, pages[key] = pages[key], pages[key][:-1] + b"?"
    found = verified(node)
    assert (found.damaged, len(found.damages), found.failure) == (1, 1, None)
    pages[key] = whole
    assert verified(node).damages == []
