"""Garbage: the young at once, the old when there is much more of everything."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from iot_mqtt.app.node.collector import ROOM_BLOCKS, ROOM_KILOBYTES, Collector
from iot_mqtt.pipeline import ManualClock

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow


class Node:
    """Something that knows itself."""

    def __init__(self) -> None:
        self.itself = self


class Memory:
    """As much as a test says."""

    blocks = kilobytes = 1_000
    held = 0


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)


def collector(memory: Memory, threshold: int = 1_000, *, again: bool = False) -> Collector:
    """One that has begun."""
    it = Collector(threshold, ManualClock(), lambda: memory.held, lambda: memory.blocks, lambda: memory.kilobytes)
    it.begin(again=again)
    return it


def old_cycle() -> weakref.ref[Node]:
    """A cycle that became garbage when the collector had passed it."""
    node = Node()
    gc.collect(0)
    return weakref.ref(node)


def generations_run(objects: int) -> set[int]:
    """Which generations are collected while so many objects come to stay."""
    seen: set[int] = set()

    def note(phase: str, info: dict[str, int]) -> None:
        seen.add(info["generation"])

    gc.callbacks.append(note)
    try:
        assert [[] for _ in range(objects)]
    finally:
        gc.callbacks.remove(note)
    return seen


def test_only_the_young_are_looked_at_while_clients_are_served() -> None:
    """However many objects come: a collection of the old would take longer the more there are."""
    collector(Memory())
    assert generations_run(300_000) == {0}


@pytest.mark.parametrize(("blocks", "kilobytes"), [(ROOM_BLOCKS, 0), (0, ROOM_KILOBYTES)])
def test_old_cycles_are_collected_when_memory_has_grown(blocks: int, kilobytes: int) -> None:
    """By objects, or by few large ones; not before, and not again before it has grown again."""
    memory = Memory()
    it = collector(memory)
    first = old_cycle()
    it.look()
    assert first() is not None
    memory.blocks += blocks
    memory.kilobytes += kilobytes
    it.look()
    assert first() is None
    second = old_cycle()
    it.look()
    assert second() is not None


def test_nobody_waits_for_a_look_because_clients_have_come() -> None:
    """What they take is no garbage, and the more there are, the longer a look would hold them up: a node of a cluster
    that another one's clients come to must not be taken for dead itself.
    """
    memory = Memory()
    it = collector(memory)
    first = old_cycle()
    memory.held = memory.blocks = 100 * ROOM_BLOCKS
    it.look()
    assert first() is not None
    memory.blocks += 102 * ROOM_BLOCKS
    memory.held += 100 * ROOM_BLOCKS
    it.look()
    assert first() is None
    # And where they have gone, what is left of them is.
    second = old_cycle()
    memory.held = 0
    it.look()
    assert second() is None


def test_what_was_loaded_is_collected_with_the_rest() -> None:
    """It is frozen, but may become garbage."""
    memory, node = Memory(), Node()
    it, loaded = collector(memory), weakref.ref(node)
    del node
    gc.collect()
    assert loaded() is not None
    memory.blocks += ROOM_BLOCKS
    it.look()
    assert loaded() is None


def test_an_earlier_life_of_the_node_leaves_nothing() -> None:
    """Its objects are garbage when the next one begins, and were frozen."""
    memory, node = Memory(), Node()
    collector(memory)
    earlier = weakref.ref(node)
    del node
    collector(memory, again=True)
    assert earlier() is None


def test_a_first_life_does_not_look_at_what_was_imported() -> None:
    """It was frozen while it came; to look at all of it is a tenth of a start."""
    seen = []
    gc.freeze()
    gc.callbacks.append(lambda phase, info: seen.append(info["generation"]))
    try:
        Collector(1_000, ManualClock(), int).begin()
    finally:
        gc.callbacks.pop()
    assert 2 not in seen


def test_python_s_own_setting_is_kept_if_that_is_asked_for() -> None:
    """By a threshold of 0."""
    before, memory = gc.get_threshold(), Memory()
    it = collector(memory, 0)
    old = old_cycle()
    memory.blocks += ROOM_BLOCKS
    it.look()
    assert gc.get_threshold() == before
    assert old() is not None
