"""``ctl`` in front of a site in memory, which waits for nothing."""

from __future__ import annotations

import pytest

from tests.unit.app.ctl.ctlkit import Ctl


@pytest.fixture
def ctl(monkeypatch: pytest.MonkeyPatch) -> Ctl:
    for command in ("cluster", "log"):
        monkeypatch.setattr(f"iot_mqtt.app.ctl.{command}.POLL_SECONDS", 0.0)
    return Ctl(monkeypatch)
