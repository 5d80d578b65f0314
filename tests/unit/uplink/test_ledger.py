"""The uplink's accounts: what is safe, what waits, and what the next life finds."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.uplink.ledger import SAVE_SECONDS, Ledger
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.ports.store import CommitOrder
from iot_mqtt.ports.uplink import Place
from tests.unit.broker.harness import Node, run
from tests.unit.uplink.sinkkit import logged


class KeptPlaces:
    """``ports.uplink.Places``: what was staged, newest last."""

    def __init__(self, place: Place | None = None) -> None:
        self.kept = [] if place is None else [place]

    async def load(self) -> Place | None:
        return self.kept[-1] if self.kept else None

    def stage(self, batch: WriteBatch, place: Place) -> None:
        self.kept.append(place)


def ledger_of(node: Node, places: KeptPlaces) -> Ledger:
    return Ledger(places, node.log, node.clock, node.broker.turn.reserve)


@pytest.fixture
def ledger() -> Ledger:
    """Far from the end of its log; ten messages were recorded to go up."""
    ledger = ledger_of(Node(), KeptPlaces(Place("spool", 0)))
    run(ledger.load())
    ledger.recorded(logged(0, 10))
    ledger.bring_up_to_date()
    return ledger


def test_what_is_passed_over_behind_a_batch_is_done_with_when_that_is_safe(ledger: Ledger) -> None:
    """The place never gets ahead of what the sink has not made safe."""
    ledger.hand_over(4, 4, 400, 4, 1.0)
    assert not ledger.pass_over(6, 2, 200)
    assert (ledger.position, ledger.safe_to, ledger.place.position) == (6, 0, 0)
    assert (ledger.unsafe_messages, ledger.unread) == (6, 4)
    ledger.take()
    assert (ledger.safe_to, ledger.place.position, ledger.place.taken) == (6, 6, 6)
    assert (ledger.unsafe_messages, ledger.unread, ledger.safe) == (0, 4, 4)


def test_batches_become_safe_oldest_first(ledger: Ledger) -> None:
    """One answer, one batch."""
    ledger.hand_over(4, 4, 400, 4, 1.0)
    ledger.hand_over(6, 2, 200, 2, 2.0)
    assert (ledger.batches, ledger.waiting_since) == (2, 1.0)
    ledger.take()
    assert (ledger.batches, ledger.waiting_since, ledger.place.position) == (1, 2.0, 4)


def test_after_a_failure_everything_that_was_not_safe_is_unread_again(ledger: Ledger) -> None:
    """It goes back to the place, and the figures of the place stay."""
    ledger.hand_over(4, 4, 400, 4, 1.0)
    ledger.take()
    ledger.hand_over(6, 2, 200, 2, 2.0)
    ledger.fall_back()
    assert (ledger.position, ledger.place.position, ledger.batches) == (4, 4, 0)
    assert (ledger.unread, ledger.unsafe_messages, ledger.failures) == (6, 0, 1)


def test_what_is_sent_again_counts_as_sent_once(ledger: Ledger) -> None:
    """So that what was sent is what is safe and what is on its way, when all of it is there again."""
    ledger.hand_over(4, 4, 400, 4, 1.0)
    ledger.hand_over(6, 2, 200, 1, 2.0)
    ledger.fall_back()
    ledger.hand_over(3, 3, 300, 3, 1.0)
    assert (ledger.sent, ledger.sent_bytes) == (5, 600)
    ledger.hand_over(10, 7, 700, 6, 1.0)
    assert (ledger.sent, ledger.sent_bytes) == (9, 1000)
    ledger.take()
    ledger.take()
    assert ledger.safe == ledger.sent


def test_the_oldest_waits_since_it_came_whatever_becomes_of_those_before_it(ledger: Ledger) -> None:
    """A batch that gets safe while others are under way, and those fail then."""
    ledger.hand_over(4, 4, 400, 4, 1.0)
    ledger.hand_over(6, 2, 200, 2, 2.0)
    ledger.take()
    ledger.fall_back()
    assert ledger.waiting_since == 2.0
    ledger.fall_back()
    assert ledger.waiting_since == 2.0


def test_what_is_recorded_and_not_counted_yet_waits_all_the_same(ledger: Ledger) -> None:
    """The last batch gets safe before the commit of what has come meanwhile."""
    ledger.hand_over(10, 10, 1000, 10, 1.0)
    ledger.recorded(logged(10, 5))
    ledger.take()
    assert ledger.waiting_since is not None


def test_what_retention_drops_waits_no_longer_and_moves_no_place(ledger: Ledger) -> None:
    """Positions go on from where they were; only the count of what is owed gets less."""
    ledger.write_off(3, 300)
    assert (ledger.place.position, ledger.place.taken, ledger.unread, ledger.lost) == (0, 3, 7, 3)
    assert ledger.lost_at is not None


def test_a_place_of_another_log_begins_a_new_spool() -> None:
    """A position behind the log's end says that it is not this log."""
    node = Node()
    ledger = ledger_of(node, KeptPlaces(Place("spool", node.log.committed_end + 1, 5, 500, 5, 500)))
    run(ledger.load())
    assert ledger.place.spool != "spool"
    assert (ledger.place.position, ledger.place.recorded) == (0, 0)


def test_a_place_that_moves_often_is_kept_once_a_second() -> None:
    """What the sink takes in between is in the next one."""
    node, places = Node(), KeptPlaces(Place("spool", 0))
    ledger = ledger_of(node, places)
    run(ledger.load())
    node.broker.store.enlist(CommitOrder.UPLINK, Participant(ledger))
    node.clock.advance(SAVE_SECONDS)
    for position in (1, 2, 3):
        ledger.hand_over(position, 1, 100, 1, 1.0)
        ledger.take()
        node.turn()
    assert [one.position for one in places.kept] == [0, 1]
    node.clock.advance(SAVE_SECONDS)
    node.turn()
    assert [one.position for one in places.kept] == [0, 1, 3]


class Participant:
    """The ledger as the store's batches know it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def contribute(self, batch: WriteBatch, ticket: int) -> None:
        self._ledger.stage(batch)

    def committed(self, ticket: int) -> None:
        """Nobody waits."""
