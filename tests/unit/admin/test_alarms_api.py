"""``/api/v1/alarms``: what goes on and what was, the newest first; ``ctl alarms`` shows it."""

from __future__ import annotations

import pytest

from iot_mqtt.admin.alarm_resources import AlarmResources
from iot_mqtt.metrics.alarms import AlarmBook
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from tests.unit.admin.adminkit import FakeView, make_browser
from tests.unit.app.ctl.ctlkit import Ctl


def _book() -> AlarmBook:
    book = AlarmBook()
    book.look([Alarm(AlarmKind.BUSY, "the node is busy")], 1.0)
    book.look([Alarm(AlarmKind.ROOM, "disk full: 99 of 100 bytes used (99 %)")], 2.0)
    return book


def test_alarms_are_shown_with_their_times_and_what_helps() -> None:
    """Those that are over have an end; each has its node."""
    answer = make_browser(FakeView(), further=[AlarmResources(_book())]).get("/api/v1/alarms")
    assert answer.status == 200
    shown = [(one["code"], one["since"], one["until"], one["node"]) for one in answer.json["items"]]
    assert shown == [("room", 2.0, None, "n1"), ("busy", 1.0, 2.0, "n1")]
    assert "log.retention" in answer.json["items"][0]["helps"]


def test_ctl_lists_what_goes_on_and_all_if_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with what helps."""
    ctl = Ctl(monkeypatch, make_browser(FakeView(), further=[AlarmResources(_book())]))
    heading, only = ctl.lines("alarms", "list")
    assert heading.split() == ["NODE", "SINCE", "UNTIL", "ABOUT", "ALARM", "HELPS"]
    assert "goes on" in only and "room" in only
    assert len(ctl.lines("alarms", "list", "--all")) == 3
