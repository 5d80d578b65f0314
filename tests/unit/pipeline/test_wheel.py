"""The timing wheel: never early, a tick late at most, cancelled for good."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from iot_mqtt.pipeline import ManualClock, TimingWheel
from iot_mqtt.pipeline.wheel import Timeout
from tests.seeds import seeds_of

TICK = 0.25


@pytest.fixture
def clock() -> ManualClock:
    """Time by hand."""
    return ManualClock()


@pytest.mark.parametrize("delay", [0, 0.01, 0.25, 0.26, 1, 7.3, 90, 604_800])
@pytest.mark.parametrize("offset", [0, 0.1, 0.2499])
def test_a_call_is_never_early_and_at_most_a_tick_late(clock: ManualClock, delay: float, offset: float) -> None:
    """Whenever within a tick it was asked for."""
    wheel = TimingWheel(clock, TICK)
    clock.advance(offset)
    begin, times = clock.monotonic(), list[float]()
    wheel.schedule(delay, lambda: times.append(clock.monotonic() - begin))
    if delay > 1000:
        # Let a week pass quickly: the clock jumps, then runs.
        clock._set(clock.monotonic() + delay - 2)
    clock.advance(min(delay, 100) + 1)
    assert len(times) == 1
    assert delay - 1e-3 <= times[0] <= delay + TICK + 1e-3


def test_calls_of_one_tick_come_in_the_order_they_were_asked_for(clock: ManualClock) -> None:
    """First come, first served."""
    wheel, called = TimingWheel(clock, TICK), list[int]()
    for number in range(5):
        wheel.schedule(1, lambda number=number: called.append(number))  # type: ignore[misc]
    clock.advance(2)
    assert called == [0, 1, 2, 3, 4]


def test_a_cancelled_call_does_not_come(clock: ManualClock) -> None:
    """Nor does it leave anything in the wheel."""
    wheel, called = TimingWheel(clock, TICK), list[int]()
    timeouts = [wheel.schedule(delay, lambda: called.append(1)) for delay in (1, 5, 604_800)]
    for timeout in timeouts:
        assert timeout.pending
        timeout.cancel()
        timeout.cancel()
        assert not timeout.pending
    assert len(wheel) == 0
    assert wheel._slots == {}
    clock.advance(10)
    assert called == []


def test_a_call_may_cancel_another_of_the_same_tick(clock: ManualClock) -> None:
    """And the count stays right."""
    wheel, called = TimingWheel(clock, TICK), list[str]()
    second: list[Callable[[], None]] = []
    wheel.schedule(1, lambda: second[0]())  # noqa: PLW0108 - it is not there yet
    second.append(wheel.schedule(1, lambda: called.append("second")).cancel)
    clock.advance(2)
    assert called == []
    assert len(wheel) == 0


def test_a_call_may_schedule_itself_again(clock: ManualClock) -> None:
    """With no delay it comes a tick later, not for ever in this one."""
    wheel, called = TimingWheel(clock, TICK), list[float]()

    def again() -> None:
        called.append(clock.monotonic())
        if len(called) < 5:
            wheel.schedule(0, again)

    wheel.schedule(0, again)
    clock.advance(3)
    assert len(called) == 5
    assert len(set(called)) == 5


def test_a_call_that_fails_does_not_stop_the_others(clock: ManualClock) -> None:
    """It is logged."""

    def fails() -> None:
        raise ZeroDivisionError

    wheel, called = TimingWheel(clock, TICK), list[int]()
    wheel.schedule(1, fails)
    wheel.schedule(1, lambda: called.append(1))
    wheel.schedule(2, lambda: called.append(2))
    clock.advance(3)
    assert called == [1, 2]


def test_an_empty_wheel_does_not_wake_the_process(clock: ManualClock) -> None:
    """And an idle one has one timer, however many calls wait."""
    wheel = TimingWheel(clock, TICK)
    assert clock.waiting == 0
    for _ in range(100):
        wheel.schedule(1, lambda: None)
    assert clock.waiting == 1
    clock.advance(2)
    assert clock.waiting == 0


def test_a_wheel_that_stood_still_keeps_good_time_afterwards(clock: ManualClock) -> None:
    """Ticks that nobody waited for are skipped."""
    wheel, called = TimingWheel(clock, TICK), list[float]()
    clock.advance(1000)
    begin = clock.monotonic()
    wheel.schedule(1, lambda: called.append(clock.monotonic() - begin))
    clock.advance(2)
    assert 1 <= called[0] <= 1.25 + 1e-6


def test_a_wheel_that_was_held_up_lets_the_reactor_read_first(clock: ManualClock) -> None:
    """Bytes that wait in a socket must be able to prove that its connection is not idle."""
    wheel, order = TimingWheel(clock, TICK), list[str]()
    wheel.schedule(1, lambda: order.append("timeout"))
    clock._set(clock.monotonic() + 30)  # the process was stopped
    clock.call_later(0, lambda: order.append("read"))
    clock.advance(1)
    assert order == ["read", "timeout"]


@pytest.mark.parametrize("ticks", range(1, 8))
@pytest.mark.parametrize("meanwhile", ["schedules", "stamps"])
def test_a_late_wheel_leaves_no_tick_out(clock: ManualClock, ticks: int, meanwhile: str) -> None:
    """A busy process comes some ticks late, and the first call that it makes then asks for another one."""
    wheel, called = TimingWheel(clock, TICK), list[int]()

    def first() -> None:
        called.append(0)
        if meanwhile == "schedules":
            wheel.schedule(60, lambda: None)
        else:
            wheel.tick_now()

    wheel.schedule(1, first)
    for tick in range(1, ticks):
        wheel.schedule(1 + tick * TICK, lambda tick=tick: called.append(tick))  # type: ignore[misc]
    clock._set(clock.monotonic() + 1 + ticks * TICK)
    clock.advance(1)
    assert called == list(range(ticks))


@pytest.mark.parametrize("seed", seeds_of("wheel", 30))
def test_whatever_happens_each_call_comes_once_and_in_time(clock: ManualClock, seed: int) -> None:
    """A process that stands still now and then; calls that ask for others, look at the time, and cancel others."""
    dice, wheel = random.Random(seed), TimingWheel(clock, TICK)
    due: dict[int, tuple[Timeout, float]] = {}
    numbers = itertools.count()

    def ask() -> None:
        number, delay = next(numbers), dice.choice((0, 0.1, TICK, 1, 2.6, 20)) * dice.random()
        due[number] = wheel.schedule(delay, lambda: come(number)), clock.monotonic() + delay

    def come(number: int) -> None:
        assert clock.monotonic() > due.pop(number)[1] - 1e-3
        something()

    def something() -> None:
        for _ in range(dice.choice((0, 0, 1, 1, 2, 3)) if len(due) < 50 else 0):
            ask()
        if dice.random() < 0.2:
            wheel.tick_now()
        if due and dice.random() < 0.2:
            due.pop(dice.choice(list(due)))[0].cancel()

    for _ in range(300):
        something()
        if dice.random() < 0.5:
            clock._set(clock.monotonic() + dice.choice((0.2, 0.5, 0.9, 1.5, 4)) * dice.random())
        clock.advance(dice.random() * TICK)
        # Held up, it lets others come first once.
        late = clock.monotonic() - 2 * TICK
        clock.advance(0)
        assert all(at > late for _, at in due.values())
        assert len(wheel) == len(due)


def test_stop_drops_everything(clock: ManualClock) -> None:
    """For the end of the process."""
    wheel = TimingWheel(clock, TICK)
    wheel.schedule(1, lambda: pytest.fail("called"))
    wheel.stop()
    assert clock.waiting == 0
    clock.advance(2)


def test_a_hundred_thousand_calls_are_all_made(clock: ManualClock) -> None:
    """Each once, those cancelled never."""
    wheel, called = TimingWheel(clock, TICK), list[int]()
    timeouts = [wheel.schedule(i % 600 / 10, lambda i=i: called.append(i)) for i in range(100_000)]  # type: ignore[misc]
    for timeout in timeouts[::2]:
        timeout.cancel()
    clock.advance(61)
    assert sorted(called) == list(range(1, 100_000, 2))
    assert len(wheel) == 0
