"""``ctl devices``: gateways and the devices behind them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.app.ctl.ctlkit import Ctl

GATEWAY: dict[str, Any] = {
    "target": "gw-1", "gateway": "gw-1", "device": None, "online": True, "codec": "gateway", "version": "1.0",
    "address": "10.0.0.1", "first_seen": 1.0, "last_seen": 2.0, "logins": 3, "readings": 0,
}  # fmt: skip
DEVICE = {**GATEWAY, "target": "gw-1/press", "device": "press", "codec": None, "logins": 0, "readings": 5365}
IDLE = {**DEVICE, "target": "gw-1/mill", "device": "mill", "readings": 0}


@pytest.fixture
def ctl(monkeypatch: pytest.MonkeyPatch) -> Ctl:
    """A node that has seen these."""
    ctl = Ctl(monkeypatch)
    seen = {one["target"]: one for one in (GATEWAY, DEVICE, IDLE)}
    monkeypatch.setattr(ctl.node, "get", lambda _, target: seen[target])
    monkeypatch.setattr(ctl.node, "items", lambda *_, **__: iter(seen.values()))
    return ctl


def test_a_gateway_has_no_readings_of_its_own(ctl: Ctl) -> None:
    """They are counted with its devices, and 0 would say that none came."""
    for target, shown in (("gw-1", "-"), ("gw-1/press", "5365"), ("gw-1/mill", "0")):
        (line,) = (line for line in ctl.lines("devices", "show", target) if line.startswith("readings"))
        assert line.split()[1] == shown
    assert [line.split()[-1] for line in ctl.lines("devices", "list")] == ["READINGS", "-", "5365", "0"]


def test_json_is_what_the_node_says(ctl: Ctl) -> None:
    """Figures stay figures."""
    assert json.loads("\n".join(ctl.lines("--json", "devices", "show", "gw-1")))["readings"] == 0
