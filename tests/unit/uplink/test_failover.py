"""What a node that is gone has recorded, sent up by another: all of it, with its ids, from where it had stood."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.broker.uplink import UplinkFailover
from iot_mqtt.grid.log import FollowedLog, LogSettings
from iot_mqtt.grid.places import GridPlaces
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.uplink.records import RulePlan
from iot_mqtt.uplink.rules import Rules, rule_of
from tests.unit.broker.harness import run
from tests.unit.uplink.sinkkit import MemorySink, UplinkedNode

WRITER = 3


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(begin, end)]


class Survivor:
    """Another node on the grid of one that is gone."""

    def __init__(self, gone: UplinkedNode) -> None:
        self.node = gone.node
        self.places = GridPlaces(self.node.grid, WRITER)
        self.log = FollowedLog(self.node.grid, LogSettings(), WRITER)
        self.sink = MemorySink()
        self.failover = UplinkFailover(self.places, self.log, self.node.clock, self._soon)
        self.plan = RulePlan(Rules([rule_of({"filter": "up/#"})]), "gone")
        self.alive = True

    def _soon(self, call: Callable[[], None]) -> None:
        self.node.clock.call_later(0.0, call)

    def begin(self) -> Deferred[bool]:
        kept = run(self.failover.owed())
        assert kept is not None, "nothing is owed"
        return Deferred.fromCoroutine(self.failover.run(kept, self.plan, self.sink, lambda: self.alive))

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds * 10)):
            self.node.clock.advance(0.1)


@pytest.fixture
def gone() -> UplinkedNode:
    """It has sent up the first ten of 5,000 messages."""
    it = UplinkedNode(number=WRITER)
    it.publish(*numbers(0, 10))
    it.node.advance(2)
    it.sink.break_it()
    for start in range(10, 5000, 10):
        it.publish(*numbers(start, start + 10))
    return it


def test_everything_goes_up_in_order_under_its_own_id(gone: UplinkedNode) -> None:
    """And nothing is owed when it is over."""
    spool = gone.sink.opened[-1].spool
    survivor = Survivor(gone)
    over = survivor.begin()
    survivor.pass_time(5)
    assert over.called
    assert over.result is True
    assert survivor.sink.payloads == numbers(10, 5000)
    assert survivor.sink.opened[0].spool == spool
    assert {dict(record.headers)["node"] for record in survivor.sink.kept} == {b"gone"}
    assert survivor.sink.closed
    assert run(survivor.failover.owed()) is None


def test_one_that_dies_too_is_followed_by_the_next(gone: UplinkedNode) -> None:
    """From where the place was kept: nothing is left out, and only what was not known to be safe comes again."""
    first = Survivor(gone)
    first.sink.at_once = False
    first.begin()
    first.pass_time(1)
    first.sink.settle(1)
    first.pass_time(1.5)
    first.alive = False
    first.pass_time(1.5)
    assert first.sink.closed
    done = len(first.sink.payloads)
    assert 0 < done < 4990
    second = Survivor(gone)
    second.begin()
    second.pass_time(5)
    assert first.sink.payloads + second.sink.payloads == numbers(10, 5000)


def test_a_place_that_its_owner_has_moved_is_left_to_it(gone: UplinkedNode) -> None:
    """It has come back."""
    survivor = Survivor(gone)
    survivor.sink.at_once = False
    over = survivor.begin()
    survivor.pass_time(1)
    place = run(survivor.places.load())
    assert place is not None
    moved, batch = place._replace(position=place.position + 1), WriteBatch()
    survivor.places.stage(batch, moved)
    run(gone.node.grid.commit(batch))
    survivor.sink.settle()
    survivor.pass_time(2)
    assert over.result is False
    assert run(survivor.places.load()) == moved


def test_a_sink_that_takes_nothing_is_tried_again(gone: UplinkedNode) -> None:
    """As for a node's own log."""
    survivor = Survivor(gone)
    survivor.sink.break_it()
    over = survivor.begin()
    survivor.pass_time(5)
    assert not over.called
    survivor.sink.trouble = None
    survivor.pass_time(5)
    assert over.called
    assert survivor.sink.payloads == numbers(10, 5000)
