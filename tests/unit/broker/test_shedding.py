"""While the loop is late newcomers are refused; nobody who is there notices, and a moment is nothing."""

from __future__ import annotations

import logging

import pytest

from iot_mqtt.broker.connections.shedding import BusyLimits, Shedding
from iot_mqtt.errors import ReasonCode
from iot_mqtt.metrics.loop_lag import LoopLag
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.alarms import AlarmKind
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import Node

V311, V5 = ProtocolVersion.V311, ProtocolVersion.V5


class Busy:
    """A node whose loop is as late as a test says, looked at every 0.25 s."""

    def __init__(self, limits: BusyLimits = BusyLimits(1, 5)) -> None:  # noqa: B008
        self.node = Node()
        self.shedding = Shedding(limits, self.node.broker.clients.door, self.node.counters)
        self.now = 1000.0

    def pass_time(self, seconds: float, lag: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 0.25 + lag
            self.shedding.measured(lag, self.now)

    @property
    def refuses(self) -> bool:
        return self.node.broker.clients.door.busy is not None


@pytest.mark.parametrize(("version", "reason"), [(V5, ReasonCode.SERVER_BUSY), (V311, ReasonCode.SERVER_UNAVAILABLE)])
def test_newcomers_are_told_that_it_is_busy(version: ProtocolVersion, reason: ReasonCode) -> None:
    """0x89, in 3.1.1 that is 3; whoever is there is served, and the node stays one of its cluster."""
    busy = Busy()
    there = busy.node.connect("there")
    there.subscribe("a")
    busy.pass_time(10, 2.0)
    refused = busy.node.connect("late", version)
    assert refused.connack is not None
    assert (refused.connack.reason, refused.closed) == (reason, True)
    there.publish("a", b"still")
    assert there.payloads() == [b"still"]
    assert busy.node.counters.connects_refused["SERVER_BUSY"] == busy.node.counters.sheddings == 1
    assert busy.node.broker.clients.door.refusing is None
    assert busy.shedding.alarms[0].kind is AlarmKind.BUSY


def test_it_takes_a_while_and_ends_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """One line in the log each; between the two thresholds everything stays as it is."""
    busy = Busy()
    with caplog.at_level(logging.WARNING):
        busy.pass_time(6, 2.0)
        assert not busy.refuses
        busy.pass_time(60, 0.7)
        busy.pass_time(6, 2.0)
        assert not busy.refuses
        busy.pass_time(2, 2.0)
        assert busy.refuses
        busy.pass_time(60, 0.7)
        busy.pass_time(4, 0.1)
        busy.pass_time(1, 0.6)
        busy.pass_time(4, 0.1)
        assert busy.refuses
        busy.pass_time(2, 0.1)
        assert not busy.refuses
    assert len(caplog.records) == 2
    assert busy.shedding.alarms == ()
    assert not busy.node.connect("again").closed


def test_one_long_moment_is_nothing() -> None:
    """A machine that slept is not busy."""
    busy = Busy()
    busy.pass_time(0.1, 60.0)
    busy.pass_time(60, 0.0)
    assert not busy.refuses


def test_off_is_off() -> None:
    """Whatever the lag."""
    busy = Busy(BusyLimits(0, 5))
    busy.pass_time(100, 20.0)
    assert not busy.refuses


def test_the_lag_is_told_with_each_sample() -> None:
    """As it was measured, at the time of the look."""
    clock, told = ManualClock(), []
    lag = LoopLag(clock)
    lag.watchers = (lambda late, now: told.append((round(late, 3), now)),)
    lag.start()
    clock.advance(0.25)
    clock.advance(0.25)
    assert told == [(0.0, 1000.25), (0.0, 1000.5)]
