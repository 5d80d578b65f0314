"""How many clients a node has room for, and by which limit: said at its start, and while there is no more."""

from __future__ import annotations

import logging
import resource
from typing import Any

import pytest

from iot_mqtt.app.config import load_config
from iot_mqtt.app.node.listeners import ALARM_SECONDS, Listeners
from iot_mqtt.pipeline import HalfOpen, HalfOpenLimits, ManualClock, Share, TimingWheel
from iot_mqtt.pipeline.ports import CalmPort
from iot_mqtt.ports.alarms import Alarm, AlarmKind

BY_FILES = "by the limit of open files (64; LimitNOFILE of the unit, or ulimit -n)"


class Life:
    """Its listeners. No port is open: places are taken by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, files: int, *sets: str) -> None:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
        nothing: Any = None
        self.clock = ManualClock()
        config = load_config(None, sets, {})
        self.listeners = Listeners(config, nothing, self.clock, TimingWheel(self.clock), lambda _: False, lambda: None)
        monkeypatch.setattr(self.listeners, "_add", lambda name, told, among: None)
        self.admin: Share = self.listeners.open(nothing, HalfOpen(HalfOpenLimits()))
        self.share = self.listeners._descriptors.share(1000, among=2)

    def come(self, count: int) -> int:
        return sum(self.share.take() for _ in range(count))


@pytest.mark.parametrize(
    ("files", "sets", "level", "text"),
    [
        (64, [], "WARNING", f"room for 27 clients, {BY_FILES}"),
        (64, ["doors.max_connections=20"], "INFO", "room for 17 clients, by doors.max_connections (20)"),
        (
            64,
            ["listeners.mqtt.max_connections=7", "listeners.gateway.enabled=false"],
            "INFO",
            "room for 7 clients, by ",
        ),
        (20_000, [], "INFO", "room for 19488 clients, by the limit of open files (20000;"),
        (1 << 20, [], "INFO", "room for 1048064 clients, by the limit of open files (1048576;"),
    ],
)
def test_a_start_says_for_how_many_there_is_room(
    files: int,
    sets: list[str],
    level: str,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And by which limit; a warning where that is the system's, and leaves room for few."""
    with caplog.at_level(logging.INFO):
        Life(monkeypatch, files, "listeners.ws.enabled=false", *sets)
    (record,) = caplog.records
    assert record.levelname == level
    assert record.getMessage().startswith(text)


def test_who_is_refused_for_want_of_descriptors_is_an_alarm_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute after the last one; connections that are there are none."""
    life = Life(monkeypatch, 64, "listeners.ws.enabled=false")
    assert life.come(27) == 27
    assert not life.listeners.alarms
    life.come(1)
    text = f"connections are refused: there is room for 27 clients, {BY_FILES}"
    alarm = Alarm(AlarmKind.DESCRIPTORS, text)
    assert list(life.listeners.alarms) == [alarm]
    life.clock.advance(ALARM_SECONDS - 1)
    life.come(1)
    assert list(life.listeners.alarms) == [alarm]
    life.clock.advance(ALARM_SECONDS - 1)
    assert list(life.listeners.alarms) == [alarm]
    life.clock.advance(1)
    assert not life.listeners.alarms


def test_so_is_a_port_that_rests_as_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something else than connections has taken them."""
    life = Life(monkeypatch, 64)
    monkeypatch.setattr(CalmPort, "starved", CalmPort.starved + 1)
    assert life.listeners.alarms


def test_a_limit_that_was_changed_meanwhile_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as it was at the start."""
    life = Life(monkeypatch, 20_000)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (28, 28))
    monkeypatch.setattr(CalmPort, "starved", CalmPort.starved + 1)
    (alarm,) = life.listeners.alarms
    assert alarm.text == "connections are refused: the limit of open files is 28 now, 20000 at the start"


def test_a_limit_of_the_configuration_is_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has written it wants it so."""
    life = Life(monkeypatch, 64, "doors.max_connections=8")
    assert life.come(20) < 20
    assert not life.listeners.alarms
