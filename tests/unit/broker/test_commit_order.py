"""Who takes part in commits, and in which order."""

from __future__ import annotations

import random

import pytest

from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.grid.store import GridStore
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.ports.store import CommitOrder, CommitParticipant
from tests.unit.broker.groupworld import GroupWorld
from tests.unit.broker.harness import Node, run
from tests.unit.devices.devicekit import DeviceNode
from tests.unit.uplink.sinkkit import UplinkedNode
from tests.unit.uplink.test_rulebook import BookedNode

#: As the comments in ``CommitOrder`` give reasons for it.
ORDER = ["LOG", "RULES", "UPLINK", "FORWARDING", "PROGRESS", "GROUPS", "BUDGET", "DEVICES", "LEDGER"]


class Participant:
    """Notes when it is asked."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self._name = name
        self._asked = asked

    def contribute(self, batch: WriteBatch, ticket: int) -> None:
        self._asked.append(self._name)

    def committed(self, ticket: int) -> None:
        self._asked.append(self._name)


def enlisted(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Who takes part in commits of nodes that are made from now on."""
    found: dict[str, str] = {}
    enlist = GridStore.enlist

    def noted(store: GridStore, place: CommitOrder, participant: CommitParticipant) -> None:
        found[place.name] = type(participant).__name__
        enlist(store, place, participant)

    monkeypatch.setattr(GridStore, "enlist", noted)
    return found


def test_participants_are_asked_in_one_order_whenever_they_came() -> None:
    """Before a batch, and after its commit."""
    grid = MemoryGrid()
    run(grid.open())
    store = GridStore(grid, ManualClock(), Counters())
    asked: list[str] = []
    places = list(CommitOrder)
    random.shuffle(places)
    for place in places:
        store.enlist(place, Participant(place.name, asked))
    store.reserve()
    store.flush()
    assert asked == ORDER * 2


class Failing(Participant):
    """Cannot say what it has, from its second batch on."""

    def contribute(self, batch: WriteBatch, ticket: int) -> None:
        super().contribute(batch, ticket)
        if ticket > 1:
            raise MemoryError


def test_nothing_is_acknowledged_any_more_when_a_batch_cannot_be_made() -> None:
    """Who was asked before believes that the batch has what it gave; a later commit would be taken for this one."""
    grid = MemoryGrid()
    run(grid.open())
    broken: list[BaseException] = []
    store = GridStore(grid, ManualClock(), Counters(), broken.append)
    asked: list[str] = []
    store.enlist(CommitOrder.LOG, Participant("log", asked))
    store.enlist(CommitOrder.BUDGET, Failing("budget", asked))
    for _ in range(4):
        store.reserve()
        store.flush()
    assert asked == ["log", "budget"] * 2 + ["log", "budget"]
    assert [type(error) for error in broken] == [MemoryError]
    assert store.committed == 1


class Ungrateful(Participant):
    """Fails when it is told."""

    def committed(self, ticket: int) -> None:
        super().committed(ticket)
        raise ValueError


def test_who_fails_when_it_is_told_of_a_commit_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """The others are told, and whoever waits goes on; the fault is in the log."""
    grid = MemoryGrid()
    run(grid.open())
    store = GridStore(grid, ManualClock(), Counters())
    asked: list[str] = []
    store.enlist(CommitOrder.LOG, Ungrateful("log", asked))
    store.enlist(CommitOrder.BUDGET, Participant("budget", asked))
    told: list[int] = []
    store.on_committed = lambda: told.append(store.committed)
    store.reserve()
    run(store.settled())
    assert asked == ["log", "budget"] * 2
    assert told == [1]
    assert "ValueError" in caplog.text


def test_a_place_is_one_participants() -> None:
    """A second one would be a mistake in putting the node together."""
    store = GridStore(MemoryGrid(), ManualClock(), Counters())
    store.enlist(CommitOrder.BUDGET, Participant("one", []))
    with pytest.raises(AssertionError, match="BUDGET"):
        store.enlist(CommitOrder.BUDGET, Participant("two", []))


def test_every_place_is_taken_by_who_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one kind of node or another."""
    found = enlisted(monkeypatch)
    for make in (Node, DeviceNode, UplinkedNode, BookedNode, lambda: GroupWorld(names="a")):
        make()
    assert found == {
        "LOG": "GridLog",
        "RULES": "RuleBook",
        "UPLINK": "Uplink",
        "FORWARDING": "PeerRoutes",
        "PROGRESS": "Progress",
        "GROUPS": "GroupRecords",
        "BUDGET": "Budget",
        "DEVICES": "Changes",
        "LEDGER": "LossLedger",
    }


class Waiting:
    """A store whose commits may gather, and its grid."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        grid = MemoryGrid()
        run(grid.open())
        self.store = GridStore(grid, self.clock, Counters())
        self.store.patience = 0.005

    def flushed(self) -> int:
        """A turn ends; the commits so far."""
        self.store.flush()
        return self.store.committed


def test_what_nobody_waits_for_gathers_for_a_while() -> None:
    """Many turns are one commit; it comes by itself."""
    one = Waiting()
    for _ in range(3):
        assert one.store.reserve(soon=False) == 1
        assert one.flushed() == 0
        one.clock.advance(0.001)
    one.clock.advance(0.003)
    assert one.store.committed == 1 == one.store.latest
    one.clock.advance(1)
    assert one.store.committed == 1


@pytest.mark.parametrize("how", ["reserve", "hurry", "stage", "settled"])
def test_who_waits_has_the_rest_leave_with_it(how: str) -> None:
    """Whatever else is staged, or waits for what is."""
    one = Waiting()
    one.store.reserve(soon=False)
    assert one.flushed() == 0
    match how:
        case "reserve":
            one.store.reserve()
        case "hurry":
            one.store.hurry()
        case "stage":
            one.store.remove_received("a", 1)
        case "settled":
            run(one.store.settled())
    assert one.flushed() == 1
    one.store.reserve(soon=False)
    assert one.flushed() == 1
    # Its time began with the first one: a little early is no harm.
    one.clock.advance(0.005)
    assert one.store.committed == 2
