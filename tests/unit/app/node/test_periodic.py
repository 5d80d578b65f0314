"""What a node does again and again: at the same times, so that a node with nothing to do wakes seldom."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from iot_mqtt.app.node.periodic import Periodic
from iot_mqtt.ports.clock import until_beat


def test_calls_that_begin_at_different_times_are_made_together() -> None:
    """Each at once when it begins, and from the second call on at multiples of its interval."""
    clock = Clock()
    repeat = Periodic(clock)
    often: list[float] = []
    seldom: list[float] = []
    clock.advance(0.25)
    repeat(1.0, lambda: often.append(clock.seconds()))
    clock.advance(0.125)
    repeat(2.0, lambda: seldom.append(clock.seconds()))
    while clock.seconds() < 6.5:
        clock.advance(0.125)
    repeat.stop()
    assert often == [0.25, 1.25, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert seldom == [0.375, 2.375, 4.0, 6.0]


@pytest.mark.parametrize(
    ("now", "period", "pause"),
    [(1000.0, 0.25, 0.25), (1000.0625, 0.25, 0.1875), (1000.25 - 1e-9, 0.25, 0.25), (3.0, 5.0, 2.0), (4.75, 5.0, 5.25)],
)
def test_the_next_beat_is_a_multiple_of_the_period(now: float, period: float, pause: float) -> None:
    """Whatever the time is; one that is as good as reached is not waited for again."""
    assert until_beat(now, period) == pytest.approx(pause)


def test_what_comes_after_the_stop_is_not_called() -> None:
    """A life that is stopped while it begins may still come to it."""
    clock = Clock()
    repeat = Periodic(clock)
    repeat.stop()
    called: list[float] = []
    repeat(1.0, lambda: called.append(clock.seconds()))
    clock.advance(3.0)
    assert called == [] and clock.getDelayedCalls() == []
