"""The time of retention: a step of the wall clock removes nothing until it has held."""

from __future__ import annotations

import logging

import pytest

from iot_mqtt.broker.retention_clock import HOLD, RetentionClock
from iot_mqtt.grid.log import LogSettings
from iot_mqtt.ports.alarms import AlarmKind
from tests.unit.broker.harness import Node

DAY = 86_400.0
KEPT = LogSettings(generation_seconds=3600, retention_seconds=2 * DAY)


class SetClock:
    """Goes by hand, and can be set."""

    def __init__(self) -> None:
        self.passed = 1000.0
        self.offset = 1_700_000_000.0

    def monotonic(self) -> float:
        return self.passed

    def wall(self) -> float:
        return self.passed + self.offset

    def call_later(self, delay: float, call: object) -> None:
        raise AssertionError


#: When it begins.
NOW = SetClock().wall()


class Bench:
    """A clock, and what retention makes of it."""

    def __init__(self, known: float | None = NOW) -> None:
        self.clock = SetClock()
        self.time = RetentionClock(self.clock, lambda: known)  # type: ignore[arg-type]
        self.time.now()

    def behind(self, passed: float = 0.0) -> float:
        """Seconds that the time of retention is behind the wall clock, after so many seconds with a look every 5."""
        for _ in range(int(passed / 5)):
            self.clock.passed += 5
            self.time.now()
        return round(self.clock.wall() - self.time.now(), 3)


def test_a_step_forward_counts_when_it_has_held_for_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    """Until then there is an alarm; the log says it once, and when it is over."""
    bench = Bench()
    assert (bench.behind(600), bench.time.alarms) == (0, ())
    bench.clock.offset += 8 * DAY
    with caplog.at_level(logging.WARNING):
        assert bench.behind(HOLD - 10) == 8 * DAY
        [alarm] = bench.time.alarms
        assert alarm.kind is AlarmKind.CLOCK
        assert alarm.text.startswith("the clock of this node is 691200 s ahead of what log.retention counts")
        assert bench.behind(15) == 0
    assert bench.time.alarms == ()
    assert len(caplog.records) == 2


def test_a_step_that_is_taken_back_never_was(caplog: pytest.LogCaptureFixture) -> None:
    """And the next one begins its hour anew, as does a larger one on top."""
    bench = Bench()
    bench.behind(60)
    bench.clock.offset += DAY
    assert bench.behind(1800) == DAY
    bench.clock.offset -= DAY
    assert (bench.behind(), bench.time.alarms) == (0, ())
    bench.clock.offset += DAY
    assert bench.behind(1800) == DAY
    bench.clock.offset += DAY
    assert bench.behind(1805) == DAY
    assert bench.behind(1805) == 0


def test_a_step_back_counts_at_once_and_its_end_after_an_hour() -> None:
    """A clock that is behind for a moment costs an hour, and no message."""
    bench = Bench()
    bench.behind(60)
    bench.clock.offset -= DAY
    assert bench.behind(20) == 0
    bench.clock.offset += DAY
    assert bench.behind(HOLD - 5) == DAY
    assert bench.behind(10) == 0


def test_nobody_looked_for_hours_and_a_step_is_still_new() -> None:
    """A machine that stood still, or a retention that was busy."""
    bench = Bench()
    bench.behind(60)
    bench.clock.passed += 3 * HOLD
    bench.clock.offset += DAY
    assert bench.behind() == DAY


def test_a_start_goes_on_where_the_log_was_left_and_waits_an_hour_without_an_alarm() -> None:
    """A machine that was off looks like a clock that was set; one whose clock was set while it is on is told of."""
    clock = SetClock()
    bench = Bench(clock.wall() - 3 * DAY)
    assert bench.behind() == 3 * DAY
    assert (bench.behind(1800), bench.time.alarms) == (3 * DAY, ())
    bench.clock.offset += DAY
    assert bench.behind(600) == 4 * DAY
    assert len(bench.time.alarms) == 1
    assert bench.behind(HOLD - 2400 + 5) == DAY
    assert bench.behind(2400) == 0
    assert Bench(clock.wall() + DAY).behind() == 0, "the log knows of a later time than the clock"


def test_a_node_that_knows_of_no_time_believes_its_clock_in_an_hour() -> None:
    """Its log is empty, but sessions and the logs of other nodes may be in its care."""
    bench = Bench(None)
    assert bench.behind(HOLD - 5) == NOW
    assert bench.time.behind == NOW
    assert bench.time.alarms == ()
    assert bench.behind(10) == bench.time.behind == 0


def test_what_other_nodes_do_not_agree_to_never_counts() -> None:
    """However long it holds."""
    bench = Bench()
    bench.behind(60)
    bench.clock.offset += DAY
    bench.behind(20)
    bench.time.ahead = lambda: DAY
    assert bench.behind(3 * HOLD) == DAY
    bench.time.ahead = lambda: -DAY
    assert bench.behind(HOLD + 5) == 0


# With a log.


def absent(node: Node) -> None:
    reader = node.connect("reader", expiry=1_000_000)
    reader.subscribe("t", qos=1)
    reader.lose()


def publish(node: Node, *payloads: bytes) -> None:
    writer = node.connect("writer")
    writer.publish("t", *payloads, qos=1)
    writer.disconnect()


def pass_time(node: Node, seconds: float, step: float = 60.0) -> None:
    """With retention at work."""
    for _ in range(int(seconds / step)):
        node.advance(step)
        node.broker.readers.upkeep.begin()
        node.turn()


def turn_clock(node: Node, seconds: float) -> None:
    node.clock._wall += seconds


@pytest.mark.parametrize("step", [3 * DAY, -3 * DAY, 5000.0, -5000.0])
def test_a_clock_that_is_wrong_for_a_while_takes_no_message(step: float) -> None:
    """Neither those of before nor those that came meanwhile, then or later; all are over in their time."""
    node = Node(log_settings=KEPT)
    absent(node)
    pass_time(node, 120)
    publish(node, b"1")
    turn_clock(node, step)
    pass_time(node, 120)
    publish(node, b"2")
    pass_time(node, 120)
    turn_clock(node, -step)
    pass_time(node, 2 * HOLD)
    publish(node, b"3")
    pass_time(node, DAY, step=600)
    assert node.dropped() == {}
    assert node.waiting == 3
    pass_time(node, DAY + HOLD + 2400, step=600)
    assert node.dropped() == {"retention": 3}


def test_a_first_clock_that_is_far_behind_takes_no_message_when_it_is_set() -> None:
    """A machine without a clock of its own, whose network comes late: messages are as old as they are."""
    node = Node(log_settings=KEPT)
    turn_clock(node, -365 * DAY)
    absent(node)
    publish(node, b"1")
    pass_time(node, 5 * HOLD, step=600)
    turn_clock(node, 365 * DAY)
    pass_time(node, 3 * HOLD, step=600)
    assert (node.dropped(), node.waiting) == ({}, 1)


def test_an_open_generation_that_began_ahead_of_the_clock_is_closed() -> None:
    """And few begin while the clock is ahead."""
    node = Node(log_settings=KEPT)
    absent(node)
    turn_clock(node, 3 * DAY)
    publish(node, b"1")
    turn_clock(node, -3 * DAY)
    pass_time(node, 60)
    assert [one.closed for one in node.log.generations()] == [True]
    turn_clock(node, 3 * DAY)
    for _ in range(20):
        publish(node, b"2")
        pass_time(node, 60)
    assert len(node.log.generations()) == 2


def test_a_start_while_the_clock_is_ahead_does_not_believe_what_was_written_meanwhile() -> None:
    """Whoever sees the alarm and starts the node anew loses nothing."""
    node = Node(log_settings=KEPT)
    absent(node)
    publish(node, b"1")
    pass_time(node, 3 * HOLD, step=600)
    turn_clock(node, 3 * DAY)
    pass_time(node, 120)
    publish(node, b"2")
    pass_time(node, 120)
    node.restart()
    pass_time(node, 1800)
    turn_clock(node, -3 * DAY)
    pass_time(node, 2 * HOLD, step=600)
    assert (node.dropped(), node.waiting) == ({}, 2)


@pytest.mark.parametrize(("known", "told"), [(92.0, False), (NOW - DAY, True)])
def test_where_no_hour_has_counted_yet_no_date_is_told(
    known: float, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The log of a young node knows no time that anybody would take for one."""
    with caplog.at_level(logging.INFO):
        Bench(known)
    (line,) = caplog.records
    assert hasattr(line, "left") == told
