"""``ctl uplink status``: whether what goes up arrives."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.admin.adminkit import UPLINK
from tests.unit.app.ctlkit import Ctl


@pytest.fixture
def ctl(monkeypatch: pytest.MonkeyPatch) -> Ctl:
    return Ctl(monkeypatch)


def form(lines: list[str]) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (line.partition("  ") for line in lines)}


def test_status_is_a_form(ctl: Ctl) -> None:
    """What waits stands where one looks first."""
    found = form(ctl.lines("uplink", "status"))
    assert found["sink"] == "file: takes messages"
    assert found["state"] == "ok"
    assert found["waiting"] == "40 messages, 4.0 kB, the oldest for 3 s"
    assert found["of these"] == "30 in the log only, 10 with the sink"
    assert json.loads(ctl.run("uplink", "status", "--json").stdout)["lag_messages"] == 40


def test_trouble_stands_out(ctl: Ctl) -> None:
    """As the sink said it."""
    ctl.view.uplink_info = replace(UPLINK, state="alarm", alarms=("it is full",), trouble="no space left on device")
    found = form(ctl.lines("uplink", "status"))
    assert (found["sink"], found["state"], found["alarm"]) == ("file: no space left on device", "ALARM", "it is full")
