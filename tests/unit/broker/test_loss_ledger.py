"""What became of messages is known over all lives of a node."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.loss_ledger import LossLedger
from iot_mqtt.codec import PacketType
from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.marks import GridMarks
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.grid import CacheName, WriteBatch
from iot_mqtt.ports.identity import Mark
from iot_mqtt.ports.store import CommitOrder
from tests.unit.broker.harness import Client, Node, run


class Counted:
    """Marks that are counted."""

    def __init__(self) -> None:
        self.staged: list[Mark] = []

    async def load(self) -> Mark | None:
        return None

    def stage(self, batch: WriteBatch, mark: Mark) -> None:
        self.staged.append(mark)

    def __len__(self) -> int:
        return len(self.staged)


class Kept(Node):
    """A node that keeps its account."""

    ledger: LossLedger

    def _begin(self) -> None:
        super()._begin()
        self.ledger = LossLedger(GridMarks(self.grid, 0), self.counters, self.clock, self.broker.turn.reserve)
        run(self.ledger.load())
        self.store.enlist(CommitOrder.LEDGER, self.ledger)

    def stop_and_start(self) -> None:
        """As by SIGTERM."""
        for client in self.clients:
            if not client.closed:
                client.lose()
        self.clients.clear()
        self.ledger.close()
        self.turn()
        self.restart()


def reader(node: Node, name: str = "r", filter: str = "t/#") -> Client:
    client = node.connect(name, clean=False, expiry=600, receive_maximum=2)
    client.subscribe(filter, qos=1)
    return client


def publish(node: Node, count: int) -> None:
    writer = node.connect("writer")
    for number in range(count):
        writer.publish("t/1", b"%d" % number, qos=1)
    writer.disconnect()


def test_the_account_goes_on_over_restarts() -> None:
    """Under way, in the log and in a group; all of it is found again, and nothing is left between the lives."""
    node = Kept()
    reader(node)
    reader(node, "away").lose()
    reader(node, "member", "$share/g/t/#").lose()
    publish(node, 7)
    for lives in range(2, 5):
        node.stop_and_start()
        account = node.ledger.account
        assert (account.lives, account.killed, account.between) == (lives, 0, 0)
        assert account.matched == 21
    client = node.connect("r", clean=False, expiry=600)
    client.drain()
    account = node.ledger.account
    assert (account.delivered, account.between) == (7, 0)
    node.stop_and_start()
    assert (node.ledger.account.delivered, node.ledger.account.left) == (7, 21 * 3 + 14)


def test_what_is_lost_between_two_lives_is_seen() -> None:
    """A message under way that is not there any more after a stop."""
    node = Kept()
    reader(node)
    publish(node, 2)
    node.ledger.close()
    node.turn()
    node.clients.clear()
    keys = [key for key, _ in run(node.grid.page(CacheName.SEGMENTS))]
    batch = WriteBatch()
    for key in keys:
        batch.remove(CacheName.SEGMENTS, key)
    run(node.grid.commit(batch))
    assert keys
    node.restart()
    assert node.ledger.account.between == 2
    assert not node.ledger.unsettled


def test_a_life_that_was_killed_cannot_be_compared_to_the_last_message() -> None:
    """What it counted last is missing: it says so, and the next ones can be compared again."""
    node = Kept()
    reader(node)
    publish(node, 4)
    node.clients.clear()
    node.restart()
    account = node.ledger.account
    assert (account.killed, node.ledger.unsettled) == (1, True)
    node.ledger.settle()
    assert not node.ledger.unsettled
    assert node.ledger.account.between == 0
    node.stop_and_start()
    account = node.ledger.account
    assert (account.lives, account.killed, account.between, node.ledger.unsettled) == (3, 1, 0, False)


def test_sessions_that_ended_while_nobody_ran() -> None:
    """They end when their interval is over at the latest; what nobody has counted is settled as such."""
    node = Kept()
    reader(node)
    publish(node, 4)
    for client in node.clients:
        client.lose()
    node.ledger.close()
    node.turn()
    node.clients.clear()
    node.clock = ManualClock(node.clock.monotonic() + 700, node.clock.wall() + 700)
    node.restart()
    node.advance(602.0)
    assert not len(node.broker.sessions)
    if node.ledger.account.between:
        assert node.ledger.unsettled
        node.ledger.settle()
    assert node.ledger.account.between == 0


def test_marks_go_with_batches_that_leave_anyway() -> None:
    """Once a second at most, and by themselves where nothing leaves."""
    node = Kept()
    marks = Counted()
    node.ledger._marks = marks
    reader(node)
    before = len(marks)
    publish(node, 20)
    assert len(marks) == before
    node.advance(1.0)
    publish(node, 1)
    assert len(marks) == before + 1
    node.advance(5.0)
    node.counters.messages_matched += 1
    node.ledger.look()
    node.turn()
    assert len(marks) == before + 2
    node.advance(5.0)
    node.ledger.look()
    node.turn()
    assert len(marks) == before + 2


@pytest.mark.parametrize(
    "record",
    [b"", b"null", b"[]", b"{}", b'{"v":0}', b'{"v":1,"account":{"matched":"x"},"waiting":0,"stopped":true}'],
)
def test_an_unreadable_mark_begins_anew(record: bytes) -> None:
    """And nothing else comes of it."""
    node = Kept()
    node.grid._values[CacheName.META][b"identity/0"] = record
    node.restart()
    assert (node.ledger.account.lives, node.ledger.account.between) == (1, 0)


def test_a_mark_of_a_later_version_is_left_alone() -> None:
    node = Kept()
    node.grid._values[CacheName.META][b"identity/0"] = b'{"v":2}'
    with pytest.raises(Unavailable, match="later version"):
        node.restart()
    assert node.grid._values[CacheName.META][b"identity/0"] == b'{"v":2}'


def test_acknowledgements_are_counted_in_the_life_they_came_in() -> None:
    node = Kept()
    client = reader(node)
    publish(node, 2)
    for message in client.messages():
        client.ack(PacketType.PUBACK, message.packet_id)
    node.stop_and_start()
    account = node.ledger.account
    assert (account.matched, account.delivered, account.left, account.between) == (2, 2, 0, 0)


def test_what_was_in_memory_only_is_dropped_with_a_killed_life() -> None:
    """As far as it was looked at; the rest is what the next life may find."""
    node = Kept()
    reader(node).lose()
    gone = node.connect("gone", receive_maximum=1)
    gone.subscribe("t/#", qos=1)
    writer = node.connect("w")
    for number in range(3):
        writer.publish("t/1", b"%d" % number, qos=1)
    node.ledger.in_memory = node.view.info().in_memory
    assert node.ledger.in_memory == 3
    node.clock.advance(2.0)
    writer.publish("t/1", b"3", qos=1)
    node.restart()
    account = node.ledger.account
    assert (account.killed, account.dropped) == (1, {"killed": 3})
    assert account.left == account.left_by_killed == 8 - 3


def test_a_mark_goes_with_what_moves() -> None:
    """Not a second later: the sums of all nodes agree whenever one is killed."""
    node, counted = Node(), Counted()
    ledger = LossLedger(counted, node.counters, node.clock, node.broker.turn.reserve)
    batch = WriteBatch()
    ledger.contribute(batch, 1)
    ledger.contribute(batch, 2)
    assert len(counted) == 1
    for name in ("messages_passed_on", "messages_taken_over"):
        setattr(node.counters, name, 5)
        ledger.contribute(batch, 3)
        ledger.contribute(batch, 4)
    assert [(one.account.passed_on, one.account.taken_over) for one in counted.staged] == [(0, 0), (5, 0), (5, 5)]


class Watched(Node):
    """A node whose starts are looked at when they have everything."""

    seen: list[tuple[int, int]]

    def _starting(self) -> None:
        self.seen = []
        self.broker.lifecycle.loading.when_whole(
            lambda: self.seen.append((len(self.broker.sessions), self.store.waiting))
        )


def test_what_a_start_took_over_is_marked_with_the_records_that_say_it_no_more() -> None:
    """Not before: a node that is killed between the two takes it over again. Everything is there then."""
    node = Watched()
    for name in "ab":
        reader(node, name).lose()
    node.restart()
    assert node.seen == [(2, 0)]
