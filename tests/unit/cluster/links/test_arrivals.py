"""What comes, in any order, is told in order: each number once, as delivered or as missing."""

from __future__ import annotations

import random

import pytest

from iot_mqtt.cluster.links.arrivals import Arrivals
from iot_mqtt.cluster.links.values import Data, Item, Retained
from tests.unit.cluster.links.linkskit import numbered

#: (steps, what is told, holes that are left). Steps: (first, last) comes; ("lost", first, last); ("exists", last);
#: "give up".
Step = tuple[int, int] | tuple[str, int] | tuple[str, int, int] | str
TABLE: dict[str, tuple[list[Step], list[tuple[str, int, int]], list[tuple[int, int]]]] = {
    "in order": ([(1, 2), (3, 3)], [("came", 1, 2), ("came", 3, 3)], []),
    "twice": ([(1, 2), (1, 2), (3, 3), (1, 2)], [("came", 1, 2), ("came", 3, 3)], []),
    "a hole": ([(1, 1), (4, 5)], [("came", 1, 1)], [(2, 3)]),
    "the first is missing": ([(2, 2)], [], [(1, 1)]),
    "a hole is filled": ([(4, 5), (1, 1), (2, 3)], [("came", 1, 1), ("came", 2, 3), ("came", 4, 5)], []),
    "behind a hole twice": ([(4, 5), (4, 5), (1, 3)], [("came", 1, 3), ("came", 4, 5)], []),
    "two holes": ([(2, 2), (4, 4)], [], [(1, 1), (3, 3)]),
    "the tail is missing": ([(1, 1), ("exists", 3)], [("came", 1, 1)], [(2, 3)]),
    "known already": ([(1, 3), ("exists", 2)], [("came", 1, 3)], []),
    "given up": ([(4, 4), "give up"], [("missing", 1, 3), ("came", 4, 4)], []),
    "the first hole given up": (
        [(2, 2), (4, 4), "give up"],
        [("missing", 1, 1), ("came", 2, 2)],
        [(3, 3)],
    ),
    "the tail given up": ([("exists", 3), "give up", (4, 4)], [("missing", 1, 3), ("came", 4, 4)], []),
    "nothing to give up": ([(1, 1), "give up"], [("came", 1, 1)], []),
    "too late": ([(3, 3), "give up", (1, 2)], [("missing", 1, 2), ("came", 3, 3)], []),
    "lost": ([(3, 3), ("lost", 1, 2)], [("missing", 1, 2), ("came", 3, 3)], []),
    "lost, all that is known": ([("lost", 1, 5), (6, 6)], [("missing", 1, 5), ("came", 6, 6)], []),
    "lost around what came": (
        [(2, 2), (4, 4), ("lost", 1, 5)],
        [("missing", 1, 1), ("came", 2, 2), ("missing", 3, 3), ("came", 4, 4), ("missing", 5, 5)],
        [],
    ),
    "a later hole is lost, the first is not": ([(2, 2), (4, 4), ("lost", 3, 3)], [], [(1, 1)]),
    "lost after all, and lost again": ([(1, 3), ("lost", 1, 3), ("lost", 2, 3)], [("came", 1, 3)], []),
    "what is lost comes late": (
        [(4, 4), ("lost", 2, 3), (2, 3), (1, 1)],
        [("came", 1, 1), ("missing", 2, 3), ("came", 4, 4)],
        [],
    ),
    "part of what is lost comes late": (
        [("lost", 2, 4), (3, 3), (1, 1)],
        [("came", 1, 1), ("missing", 2, 4)],
        [],
    ),
    "half of it is known": ([(1, 2), (2, 4)], [("came", 1, 2), ("came", 3, 4)], []),
}


class Told:
    """Arrivals, and what they tell."""

    def __init__(self, most_bytes: int = 1000, most: int = 100) -> None:
        self.entries: list[tuple[str, int, int]] = []
        self.arrivals = Arrivals(self._deliver, self._missing, most_bytes, most)

    def _deliver(self, items: tuple[Item, ...], end: int) -> None:
        numbers = [item.version for item in items if isinstance(item, Retained)]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        self.entries.append(("came", numbers[0], numbers[-1]))

    def _missing(self, first: int, last: int) -> None:
        self.entries.append(("missing", first, last))

    def come(self, first: int, last: int, size: int = 10) -> bool | None:
        if self.arrivals.is_duplicate(first, last):
            return None
        return self.arrivals.add(Data(first, 0, tuple(map(numbered, range(first, last + 1)))), size)

    def step(self, step: Step) -> None:
        match step:
            case "give up":
                self.arrivals.give_up()
            case ("lost", int(first), int(last)):
                self.arrivals.lost(first, last)
            case ("exists", int(last)):
                self.arrivals.exists(last)
            case (int(first), int(last)):
                self.come(first, last)


@pytest.mark.parametrize("name", TABLE)
def test_arrivals(name: str) -> None:
    steps, entries, holes = TABLE[name]
    told = Told()
    for step in steps:
        told.step(step)
    assert told.entries == entries
    assert told.arrivals.holes() == holes
    assert told.arrivals.incomplete == bool(holes)


def test_what_there_is_no_room_for_stays_a_hole() -> None:
    told = Told(most_bytes=20, most=100)
    assert [told.come(number, number) for number in (2, 3, 4)] == [True, True, False]
    assert told.arrivals.holes() == [(1, 1), (4, 4)]
    told.come(1, 1)
    assert told.arrivals.expected == 4 and told.arrivals.early_bytes == 0
    assert told.come(4, 4)


def test_so_many_datagrams_are_kept_behind_a_hole_and_no_more() -> None:
    told = Told(most=2)
    assert [told.come(number, number) for number in (2, 4, 6)] == [True, True, False]
    assert told.arrivals.holes(2) == [(1, 1), (3, 3)]


def test_the_first_hole_can_be_given_up_when_there_is_no_room_for_anything() -> None:
    told = Told(most=1)
    told.step(("lost", 3, 3))
    told.step(("lost", 5, 5))
    told.step(("lost", 7, 7))
    assert told.arrivals.holes() == [(1, 2), (4, 4), (6, 7)]
    told.arrivals.give_up()
    assert told.entries == [("missing", 1, 2), ("missing", 3, 3)]
    told.step(("lost", 4, 4))
    assert told.entries[2:] == [("missing", 4, 4), ("missing", 5, 5)]


@pytest.mark.parametrize("seed", range(300))
def test_every_number_is_told_once_and_in_order_whatever_comes(seed: int) -> None:
    rng = random.Random(seed)
    told = Told(most_bytes=100, most=8)
    bounds = [*sorted(rng.sample(range(2, 60), 15)), 60]
    spans = list(zip([1, *bounds], [bound - 1 for bound in bounds], strict=False))
    for _ in range(60):
        match rng.randrange(8):
            case 0:
                told.arrivals.give_up()
            case 1:
                told.arrivals.lost(*rng.choice(spans))
            case _:
                told.come(*rng.choice(spans))
    told.arrivals.lost(1, 59)
    at = 1
    for _, first, last in told.entries:
        assert first == at
        at = last + 1
    assert at == told.arrivals.expected == 60
    assert told.arrivals.early_bytes == 0 and not told.arrivals.incomplete
