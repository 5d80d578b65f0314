"""A node with an admin port that knows tokens and writes changes down, in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iot_mqtt.admin.access_resources import AuditResources, TokenResources
from iot_mqtt.admin.audit import AuditLog
from iot_mqtt.admin.auditing import Auditor
from iot_mqtt.admin.callers import RootToken, Tokens
from iot_mqtt.admin.routes import Resource
from iot_mqtt.admin.site import Gate
from iot_mqtt.grid.directory import GridDirectory
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from tests.unit.admin.adminkit import TOKEN, Answer, FakeView, make_browser
from tests.unit.app.ctl.ctlkit import Ctl
from tests.unit.auth.authkit import AtOnce, outcome, start


class Site:
    """A node with an admin port, whose clock stands at ``now``."""

    further: tuple[Resource, ...] = ()

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        self.folder = folder / "audit"
        grid = MemoryGrid()
        outcome(start(grid.open()))
        self.tokens = Tokens(RootToken(TOKEN), GridDirectory(grid, ManualClock()), lambda: self.now)
        self.ctl = Ctl(monkeypatch)
        self.start()

    def start(self, size: int = 64_000) -> None:
        """As after a restart: what is known is what is in the files."""
        self.log = AuditLog(self.folder, AtOnce(), lambda call: call(), size)
        self.browser = make_browser(
            FakeView(),
            further=(*self.further, TokenResources(self.tokens), AuditResources(self.log, "n1")),
            gate=Gate(self.tokens, Auditor(self.log, "n1", lambda: self.now)),
        )
        self.ctl.at(self.browser)

    def make(self, **body: object) -> str:
        answer = self.ask("POST", "tokens", TOKEN, **body)
        assert answer.status == 200, answer.json
        return str(answer.json["token"])

    def ask(self, method: str, path: str, token: str, **body: object) -> Answer:
        content = json.dumps(body).encode() if method == "POST" else b""
        return self.browser.request(method, f"/api/v1/{path}", content, {"Authorization": f"Bearer {token}"})
