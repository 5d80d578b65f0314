"""Looks at the uplinks of other nodes: each is over when all is up that had been recorded when it began."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.uplink import Others
from iot_mqtt.errors import Unavailable
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.uplink import Place


class Site:
    """Other nodes, as they keep their places, and looks at them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.places: dict[int, Place] = {}
        self.away = False
        self.ends = 0
        self.others = Others(self._look, self.clock, self._over)

    async def _look(self) -> dict[int, Place]:
        if self.away:
            raise Unavailable("no grid")
        return dict(self.places)

    def _over(self) -> None:
        self.ends += 1


@pytest.fixture
def site() -> Site:
    return Site()


def test_nothing_is_owed_and_it_is_over_at_once(site: Site) -> None:
    """Nor is there anybody."""
    assert site.others.ask() == 1 == site.others.seen
    site.places[2] = Place("2.a", 10, recorded=3, taken=3)
    assert site.others.ask() == 2 == site.others.seen
    assert site.ends == 2


def test_it_is_over_when_so_much_is_safe_as_was_recorded(site: Site) -> None:
    """What is recorded meanwhile is not waited for; a place that somebody has removed, or begun anew, owes nothing."""
    site.places = {2: Place("2.a", 10, recorded=3, taken=1), 3: Place("3.a", 0, recorded=9), 4: Place("4.a", 0, 1)}
    look = site.others.ask()
    site.clock.advance(5)
    assert site.others.seen < look
    site.places = {2: Place("2.a", 90, recorded=80, taken=3), 3: Place("3.b", 0, recorded=9)}
    site.clock.advance(1)
    assert site.others.seen == look


def test_who_asks_while_one_is_under_way_waits_for_the_next(site: Site) -> None:
    """What he is about may have been recorded since it began."""
    site.places[2] = Place("2.a", 10, recorded=3, taken=1)
    first = site.others.ask()
    second = site.others.ask()
    assert second == site.others.ask() > first
    site.places[2] = Place("2.a", 10, recorded=5, taken=3)
    site.clock.advance(1)
    assert site.others.seen == first
    site.places[2] = Place("2.a", 10, recorded=5, taken=5)
    site.clock.advance(2)
    assert site.others.seen == second


def test_a_grid_that_does_not_answer_is_asked_again(site: Site) -> None:
    """Not ready is not nothing."""
    site.away = True
    look = site.others.ask()
    site.clock.advance(3)
    assert site.others.seen == 0
    site.away = False
    site.clock.advance(1)
    assert site.others.seen == look
    assert site.others.ask() == look + 1 == site.others.seen
