"""A node of a cluster whose admin port people log in at, in memory: cheap hashes, time that is turned by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iot_mqtt.admin.access_resources import AuditResources, TokenResources
from iot_mqtt.admin.admin_resources import AdminResources
from iot_mqtt.admin.admins import AdminDesk
from iot_mqtt.admin.audit import AuditLog
from iot_mqtt.admin.auditing import Auditor
from iot_mqtt.admin.callers import RootToken, Tokens
from iot_mqtt.admin.cross_site import Hosts
from iot_mqtt.admin.lockout import Lockout
from iot_mqtt.admin.login_resources import Cookie, LoginResources
from iot_mqtt.admin.logins import Logins
from iot_mqtt.admin.sign_in import SignIn
from iot_mqtt.admin.site import Gate
from iot_mqtt.auth import argon
from iot_mqtt.auth.hashing import Question
from iot_mqtt.grid.directory import GridDirectory
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.directory import ADMINS
from iot_mqtt.ports.grid import Grid
from tests.unit.admin.adminkit import TOKEN, Answer, Connection, FakeView, make_browser, parse
from tests.unit.auth.authkit import AtOnce, cheap_hash, outcome, start

PASSWORD = "correct horse"
IDLE, LONGEST = 100.0, 1000.0


class Pool:
    """Verifies at once; what was asked is left in ``asked``."""

    def __init__(self) -> None:
        self.asked: list[tuple[Question, str]] = []
        self.failure: Exception | None = None

    async def verify(self, question: Question, source: str) -> bool:
        self.asked.append((question, source))
        if self.failure is not None:
            raise self.failure
        # Users have cheap hashes here, so a dear one is a decoy.
        return "$m=19456," not in question.encoded and argon.verify_password(question.encoded, question.password)

    async def run(self, call: Callable[[], Any]) -> Any:
        return call()


class LoginNode:
    """One node over a grid that others may share."""

    def __init__(self, grid: Grid, clock: ManualClock, folder: Path, name: str, **gate: Any) -> None:
        self.clock = clock
        self.pool = Pool()
        self.directory = GridDirectory(grid, clock)
        outcome(start(self.directory.load()))
        audit = AuditLog(folder / name, AtOnce(), lambda call: call(), 10**6)
        auditor = Auditor(audit, name, clock.wall)
        tokens = Tokens(RootToken(TOKEN), self.directory, clock.wall)
        lockout = Lockout()
        self.directory.watch(ADMINS, lockout.unlock)
        self.desk = desk = AdminDesk(self.directory, self.pool, clock.wall)  # type: ignore[arg-type]
        self.logins = Logins(self.directory, desk, clock.wall, idle=IDLE, longest=LONGEST)
        self.sign_in = SignIn(desk, self.pool, lockout, auditor, clock.monotonic)
        self.cookie = Cookie(secure=gate.pop("secure", False))
        gate.setdefault("hosts", Hosts((), "127.0.0.1"))
        self.browser = make_browser(
            FakeView(),
            token=None,
            further=(
                AdminResources(desk),
                TokenResources(tokens),
                AuditResources(audit, name),
                LoginResources(self.sign_in, self.logins, desk, auditor, self.cookie),
                *gate.pop("further", ()),
            ),
            gate=Gate(tokens, auditor, self.logins, self.cookie, **gate),
        )

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """As an admin's script, unless other headers say who asks."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if not {"Cookie", "Authorization"} & set(named):
            named["Authorization"] = f"Bearer {TOKEN}"
        return self.send(method, path, body, named)

    def send(self, method: str, path: str, body: object, headers: dict[str, str], peer: str = "127.0.0.1") -> Answer:
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"Host": "localhost:18083", **headers}
        lines = {"Content-Length": str(len(content)), "Connection": "close", **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        connection = Connection(self.browser.site, peer)
        target = path if path.startswith("/") else f"/api/v1/{path}"
        connection.receive(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode() + content)
        answer = parse(connection.written)
        assert answer is not None, "no answer yet"
        connection.lose()
        return answer

    def log_in(self, name: str, password: str = PASSWORD, peer: str = "127.0.0.1", **headers: str) -> Answer:
        """A browser's first call."""
        return self.send("POST", "login", {"name": name, "password": password}, headers, peer)

    def add(self, name: str, role: str = "admin", password: str = PASSWORD, **more: object) -> None:
        answer = self.ask("POST", "admins", {"name": name, "role": role, "password": password, **more})
        assert answer.status == 200, answer.json

    def refresh(self) -> None:
        """What a node does every 0.4 s."""
        outcome(start(self.directory.refresh()))


class Page:
    """A page in a browser that has logged in."""

    def __init__(self, node: LoginNode, answer: Answer) -> None:
        assert answer.status == 200, answer.body
        self.node = node
        self.csrf = str(answer.json["csrf"])
        self.cookie = answer.headers["set-cookie"].partition(";")[0]

    def ask(self, method: str, path: str, body: object = None, node: LoginNode | None = None, **more: Any) -> Answer:
        headers = {"Cookie": self.cookie, "X-CSRF-Token": self.csrf, "Origin": "http://localhost:18083"}
        headers |= {"Sec-Fetch-Site": "same-origin"} | {name.replace("_", "-"): text for name, text in more.items()}
        return (node or self.node).send(method, path, body, {name: text for name, text in headers.items() if text})


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes that cost next to nothing."""
    monkeypatch.setattr(argon, "hash_password", lambda password: cheap_hash(password.decode()))


__all__ = ["IDLE", "LONGEST", "PASSWORD", "LoginNode", "Page", "Pool", "cheap"]
