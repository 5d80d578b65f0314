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
