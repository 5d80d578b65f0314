"""What QoS 1 changes is written a little later: it costs little, and nothing is lost when the node dies meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iot_mqtt.broker.claims import IDS_AHEAD
from iot_mqtt.broker.readers import progress
from iot_mqtt.broker.settings import LogUse
from iot_mqtt.codec import Connack, Connect, PacketType, Properties, Publish
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.ports.store import StoredProgress
from tests.unit.broker.harness import V5, Client, Node
from tests.unit.broker.logreaders import check, durable, numbers, publish
from tests.unit.broker.neighbours import Neighbour

PUBACK, PUBREC, PUBCOMP = PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBCOMP
DELAY = 0.1


@pytest.fixture
def node() -> Node:
    return Node(log_use=LogUse(batch_size=4, progress_delay=DELAY))


def seen(client: Client) -> list[tuple[int, bool, bytes]]:
    """Id, DUP and payload."""
    return [(one.packet_id, one.dup, one.payload) for one in client.messages()]


def reader_of(node: Node, qos: int = 1, window: int | None = None) -> Client:
    """Subscribed, and everything of that is written."""
    reader = durable(node, window=window)
    reader.subscribe("t", qos=qos)
    node.advance(DELAY)
    return reader


def test_what_is_over_within_the_delay_is_never_written(node: Node) -> None:
    """A message is its page; an acknowledgement makes no batch; the position follows once for all of them."""
    reader = reader_of(node)
    publish(node, 0, 1)
    reader.drain()
    before = node.counters.commits, node.counters.commit_operations
    publish(node, 1, 2)
    # The page, and what finds it.
    paged = node.counters.commit_operations - before[1]
    reader.ack(PUBACK, 2)
    assert (node.counters.commits, node.counters.commit_operations) == (before[0] + 1, before[1] + paged)
    for number in range(2, 12):
        publish(node, number, number + 1)
        reader.drain()
    assert node.counters.commit_operations == before[1] + 11 * paged
    assert node.records(CacheName.SEGMENTS) == 0
    node.advance(DELAY)
    assert node.counters.commit_operations == before[1] + 11 * paged + 1
    assert node.records(CacheName.SEGMENTS) == 0
    node.restart()
    assert not durable(node).messages(), "its position is behind all of them"


def one_commit(node: Node) -> None:
    """The first of those that wait is done, and no other one."""
    grid = node.grid
    batch, done = grid._waiting.popleft()
    grid._apply(batch)
    done(None)
    node.turn()


def resuming(node: Node) -> Client:
    """It has sent its CONNECT."""
    client = node.open()
    client.send(Connect(V5, "reader", False, 0, properties=Properties(session_expiry_interval=600)))
    return client


def test_who_is_back_gets_what_waits_together_with_connack(node: Node) -> None:
    """One commit, with all that is written of the session; then one write."""
    reader = reader_of(node)
    reader.lose()
    publish(node, 0, 3)
    node.advance(DELAY)
    node.hold()
    reader = resuming(node)
    commits = node.counters.commits
    assert not reader.wire.link.sent
    one_commit(node)
    assert node.counters.commits == commits + 1
    assert len(reader.wire.link.sent) == 1
    assert reader.take(Connack)[0].session_present
    assert seen(reader) == [(number + 1, False, b"%d" % number) for number in range(3)]
    node.restart()
    assert seen(durable(node)) == [(number + 1, True, b"%d" % number) for number in range(3)]


@pytest.mark.parametrize("written", [False, True])
def test_who_is_back_does_not_get_what_is_not_safe_yet(node: Node, written: bool) -> None:
    """What waits for a later commit than its CONNECT leaves after that; if the node dies before, it is not there, or it
    has the id that it would have had.
    """
    reader = reader_of(node)
    reader.lose()
    publish(node, 0, 3)
    node.advance(DELAY)
    writer = node.connect("writer")
    node.hold()
    reader = resuming(node)
    writer.send(Publish(b"t", b"3", 1, False, False, 1))
    one_commit(node)
    assert reader.take(Connack)
    assert not [one for one in seen(reader) if one[2] == b"3"]
    node.restart(written=written)
    expected = [(number + 1, True, b"%d" % number) for number in range(3 + written)]
    assert seen(durable(node)) == expected


@pytest.mark.parametrize("acknowledged", [0, 3, 6])
@pytest.mark.parametrize("lives", [1, 3])
def test_killed_meanwhile_it_is_sent_once_more(node: Node, acknowledged: int, lives: int) -> None:
    """As a repetition: in order, under the same ids [MQTT-4.4.0-1], though nothing of that was written."""
    reader = reader_of(node)
    publish(node, 0, 6)
    sent = seen(reader)
    assert sent == [(number + 1, False, b"%d" % number) for number in range(6)]
    reader.ack(PUBACK, *range(1, acknowledged + 1))
    for _ in range(lives):
        node.restart()
        before = node.waiting
        reader = durable(node)
        assert before == 6
        assert seen(reader) == [(packet_id, True, payload) for packet_id, _, payload in sent]
    publish(node, 6, 7)
    assert seen(reader) == [(7, False, b"6")]


def test_repetitions_go_on_behind_what_else_has_an_id(node: Node) -> None:
    """Retained messages are kept by value, QoS 2 is written at once: both with the ids before them."""
    node.connect("writer").publish("kept", b"r", qos=1, retain=True)
    reader = reader_of(node, qos=2)
    publish(node, 0, 2)
    reader.subscribe("kept", qos=1)
    publish(node, 2, 4)
    publish(node, 4, 5, qos=2)
    publish(node, 5, 7)
    sent = seen(reader)
    assert [packet_id for packet_id, _, _ in sent] == list(range(1, 9))
    node.restart()
    assert sorted(seen(durable(node))) == [(packet_id, True, payload) for packet_id, _, payload in sent]


def test_members_of_groups_get_ids_that_have_not_been_used(node: Node) -> None:
    """What a group gave them in between has ids, too, and goes to somebody else perhaps."""
    reader = reader_of(node)
    reader.subscribe("$share/g/u", qos=1)
    node.advance(DELAY)
    publish(node, 0, 2)
    publish(node, 10, 12, topic="u")
    publish(node, 2, 4)
    sent = seen(reader)
    assert [packet_id for packet_id, _, _ in sent] == list(range(1, 7))
    node.restart()
    again = [one for one in seen(durable(node)) if one[2] in numbers(0, 4)]
    assert [(dup, payload) for _, dup, payload in again] == [(True, payload) for payload in numbers(0, 4)]
    assert not {packet_id for packet_id, _, _ in again} & set(range(1, 7))


def test_one_that_has_expired_takes_its_id_along(node: Node) -> None:
    """The others' would not be theirs, if they moved up."""
    reader = reader_of(node)
    writer = node.connect("writer")
    writer.publish("t", b"0", qos=1)
    writer.publish("t", b"1", qos=1, message_expiry_interval=5)
    writer.publish("t", b"2", qos=1)
    assert [packet_id for packet_id, _, _ in seen(reader)] == [1, 2, 3]
    node.clock.advance(0)
    node.restart()
    node.advance(6)
    assert seen(durable(node)) == [(1, True, b"0"), (2 + IDS_AHEAD, True, b"2")]
    assert node.dropped() == {"expired": 1}


def test_who_was_away_has_no_repetitions(node: Node) -> None:
    """What waited for it was never sent."""
    reader = reader_of(node)
    publish(node, 0, 2)
    reader.drain()
    reader.lose()
    publish(node, 2, 4)
    node.restart()
    reader = durable(node)
    assert [(dup, payload) for _, dup, payload in seen(reader)] == [(False, b"2"), (False, b"3")]


def test_what_is_under_way_longer_keeps_its_ids(node: Node) -> None:
    """[MQTT-4.4.0-1] Whatever came and went around it."""
    reader = reader_of(node)
    publish(node, 0, 40, together=False)
    reader.ack(PUBACK, *(number for number in range(1, 41) if number != 7))
    node.advance(DELAY)
    publish(node, 40, 41)
    reader.ack(PUBACK, 41)
    node.restart()
    again = seen(durable(node))
    assert again == [(7, True, b"6"), (41, True, b"40")]


def test_the_delay_begins_with_the_first_change(node: Node) -> None:
    """However many follow: what comes again after a crash stays within it."""
    reader = reader_of(node)
    for number in range(10):
        publish(node, number, number + 1)
        reader.drain()
        node.advance(DELAY * 0.3)
    node.restart()
    assert seen(durable(node)) == [(9, True, b"8"), (10, True, b"9")]


def test_qos_2_does_not_wait_and_takes_the_rest_along(node: Node) -> None:
    """Its position must be written, and is behind QoS 1 messages that are under way."""
    reader = reader_of(node, qos=2)
    publish(node, 0, 3)
    publish(node, 3, 5, qos=2)
    reader.ack(PUBACK, 2)
    node.restart()
    again = [(1, True, b"0"), (2, True, b"1"), (3, True, b"2"), (4, True, b"3"), (5, True, b"4")]
    # That the second was confirmed may have been forgotten.
    assert seen(durable(node)) in (again, again[:1] + again[2:])


def _unsubscribe(node: Node, reader: Client) -> None:
    reader.unsubscribe("t")


def _subscribe_lower(node: Node, reader: Client) -> None:
    reader.subscribe("t", qos=0)


def _subscribe_more(node: Node, reader: Client) -> None:
    reader.subscribe("u", qos=1)


def _lose(node: Node, reader: Client) -> None:
    reader.lose()


@pytest.mark.parametrize("change", [_unsubscribe, _subscribe_lower, _subscribe_more, _lose])
def test_other_changes_of_a_session_take_it_along(node: Node, change: Callable[[Node, Client], None]) -> None:
    """What is under way stays owed for subscriptions that are no more [MQTT-3.10.4-3]: it could not be found again."""
    reader = reader_of(node)
    publish(node, 0, 3)
    assert [one.payload for one in reader.messages()] == numbers(0, 3)
    reader.ack(PUBACK, 1)
    change(node, reader)
    node.restart()
    again = seen(durable(node))
    assert [one for one in again if one[0] != 1] == [(2, True, b"1"), (3, True, b"2")]


def test_a_disk_that_is_slow_keeps_nothing_back_that_is_safe(node: Node) -> None:
    """What is read from the log waits for no commit, unless its page is in that."""
    reader = reader_of(node)
    reader.lose()
    publish(node, 0, 6)
    node.hold()
    reader = node.connect("reader", clean=False, expiry=600)
    node.release()
    node.hold()
    reader.read()
    assert reader.drain() == numbers(0, 6)
    node.release()
    check(node)


def test_a_page_that_is_not_safe_is_not_sent(node: Node) -> None:
    """Late is the position, never the message."""
    reader = reader_of(node)
    writer = node.connect("writer")
    node.hold()
    assert not writer.publish("t", b"1", qos=1)
    node.advance(DELAY)
    assert not reader.messages()
    node.release()
    assert seen(reader) == [(1, False, b"1")]


def test_more_ids_than_can_be_repeated_are_not_used_unwritten(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that goes round fast is written more often."""
    monkeypatch.setattr(progress, "IDS_AHEAD", 8)
    reader = reader_of(node, window=5)
    session = node.kept_session("reader")
    kept = set()
    for start in range(0, 30, 3):
        publish(node, start, start + 3)
        assert len(reader.drain()) == 3
        kept.add(session.last_id_kept)
        assert session.last_id_kept is not None
        assert session.outbound.last - session.last_id_kept <= 8
    assert len(kept) == 4


def test_ids_go_round(node: Node) -> None:
    """At the end of their range as well; 0 is none."""
    reader = reader_of(node)
    node.session("reader").outbound.last = 65_530
    publish(node, 0, 3)
    reader.drain()
    node.advance(DELAY)
    publish(node, 3, 8)
    sent = seen(reader)
    assert [packet_id for packet_id, _, _ in sent] == [65_534, 65_535, 1, 2, 3]
    assert node.records(CacheName.SEGMENTS) == 0, "these may be late"
    node.restart()
    assert seen(durable(node)) == [(packet_id, True, payload) for packet_id, _, payload in sent]


def test_many_sessions_are_written_in_several_batches(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no batch is held up by all of them; they need no other changes to go on."""
    monkeypatch.setattr(progress, "SESSIONS_A_BATCH", 3)
    readers = [durable(node, f"reader{number}") for number in range(10)]
    for reader in readers:
        reader.subscribe("t", qos=1)
    node.advance(DELAY)
    before = node.counters.commits
    publish(node, 0, 1)
    assert node.counters.commits == before + 1
    node.advance(DELAY)
    assert node.counters.commits == before + 1 + 4
    assert node.records(CacheName.SEGMENTS) == 10
    node.restart()
    for number in range(10):
        assert seen(durable(node, f"reader{number}")) == [(1, True, b"0")]


def test_much_that_is_under_way_is_written_in_several_batches(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few sessions have it; what is confirmed meanwhile is never written."""
    monkeypatch.setattr(progress, "FLIGHTS_A_BATCH", 3)
    readers = [durable(node, f"reader{number}") for number in range(6)]
    for reader in readers:
        reader.subscribe("t", qos=1)
    node.advance(DELAY)
    for number in range(2):
        publish(node, number, number + 1)
    before = node.counters.commits
    node.hold()
    node.advance(DELAY)
    readers[-1].ack(PUBACK, 1, 2)
    node.release()
    assert node.counters.commits == before + 3
    assert node.records(CacheName.SEGMENTS) == 5
    node.restart()
    resent = [(1, True, b"0"), (2, True, b"1")]
    assert [seen(durable(node, f"reader{number}")) for number in range(6)] == [resent] * 5 + [[]]


def test_a_session_that_ends_meanwhile_leaves_nothing(node: Node) -> None:
    """Neither does it come back with the delay, nor what it had."""
    reader = reader_of(node)
    publish(node, 0, 3)
    reader.disconnect(session_expiry_interval=0)
    node.advance(10 * DELAY)
    assert node.records(CacheName.PROGRESS, CacheName.SEGMENTS, CacheName.SESSIONS) == 0
    check(node)


def test_a_record_of_the_version_before_has_no_ids(node: Node) -> None:
    """Its session is written before it may be late."""
    reader = reader_of(node)
    reader.lose()
    node.store.save_progress("reader", StoredProgress(node.log.end))
    node.broker.turn.plan()
    node.turn()
    node.restart()
    reader = durable(node)
    publish(node, 0, 2)
    assert seen(reader) == [(1, False, b"0"), (2, False, b"1")]
    node.restart()
    assert [dup for _, dup, _ in seen(durable(node))] == [True, True]


@pytest.mark.parametrize("moved", [False, True])
def test_who_reads_several_logs_gets_ids_that_have_not_been_used(moved: bool) -> None:
    """Which of the logs was read first nobody knows; ``moved``: its client goes to another node after the crash."""
    node = Node(number=1, log_use=LogUse(batch_size=4, progress_delay=DELAY))
    other = Neighbour(node)
    reader = reader_of(node)
    far = [b"far0", b"far1"]
    publish(node, 0, 2)
    other.publish(*far)
    publish(node, 2, 4)
    everything = {*numbers(0, 4), *far}
    sent = seen(reader)
    assert [packet_id for packet_id, _, _ in sent] == list(range(1, 7))
    reader.ack(PUBACK, 1, 3)
    if moved:
        # It follows the logs of the node that died, and of the other one.
        node = Node(number=3, grid=node.grid, follows=(1, 2), log_use=LogUse(batch_size=4, progress_delay=DELAY))
    else:
        node.restart()
        other.restarted()
    reader = durable(node)
    again = seen(reader)
    assert {payload for _, _, payload in again} == everything
    assert all(dup for _, dup, _ in again)
    assert not {packet_id for packet_id, _, _ in again} & set(range(1, 7))
    for names in (numbers(0, 4), far):
        assert [payload for _, _, payload in again if payload in names] == names
    reader.ack(PUBACK, *(packet_id for packet_id, _, _ in again))
    node.advance(DELAY)
    node.restart()
    if not moved:
        other.restarted()
    assert not durable(node).messages()


def test_what_comes_first_after_a_crash_takes_no_id_of_a_repetition(node: Node) -> None:
    """A retained message for a subscription that is made before the log has been read."""
    node.connect("writer").publish("kept", b"r", qos=1, retain=True)
    reader = reader_of(node)
    publish(node, 0, 3)
    assert [packet_id for packet_id, _, _ in seen(reader)] == [1, 2, 3]
    node.restart()
    reader = durable(node, window=1)
    assert seen(reader) == [(1, True, b"0")]
    reader.subscribe("kept", qos=1)
    reader.ack(PUBACK, 1)
    rest: list[tuple[int, bool, bytes]] = []
    while messages := seen(reader):
        rest += messages
        reader.ack(PUBACK, *(packet_id for packet_id, _, _ in messages))
    assert sorted(payload for _, _, payload in rest) == [b"1", b"2", b"r"]
    used = {b"1": 2, b"2": 3}
    for packet_id, _, payload in rest:
        assert packet_id == used.get(payload) or packet_id > IDS_AHEAD


def test_a_replay_takes_no_id_of_a_repetition() -> None:
    """It reads the same log, and may be the first."""
    node = Node(log_use=LogUse(batch_size=4, record=("#",), progress_delay=DELAY))
    reader = reader_of(node)
    publish(node, 0, 3)
    before = seen(reader)
    reader.ack(PUBACK, *(packet_id for packet_id, _, _ in before))
    reader.subscribe("$replay/0/t", qos=1)
    seen(reader)
    publish(node, 3, 6)
    sent = {packet_id: payload for packet_id, _, payload in seen(reader)}
    node.restart()
    again = seen(durable(node))
    assert set(numbers(3, 6)) <= {payload for _, _, payload in again}
    for packet_id, _, payload in again:
        assert sent.get(packet_id, payload) == payload


def test_qos_2_that_was_not_sent_ends_the_doubt(node: Node) -> None:
    """It is written before it leaves: nothing behind it can have left."""
    reader = reader_of(node, qos=2, window=2)
    publish(node, 0, 2)
    publish(node, 2, 3, qos=2)
    publish(node, 3, 4)
    assert [payload for _, _, payload in seen(reader)] == numbers(0, 2)
    node.restart()
    reader = durable(node)
    assert seen(reader) == [(1, True, b"0"), (2, True, b"1"), (3, False, b"2"), (4, False, b"3")]
