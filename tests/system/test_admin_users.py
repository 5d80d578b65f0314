"""The admin port as people use it: curl with a cookie jar, from the password on the terminal to logging out."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import StartBroker
from systemkit.users import call

pytestmark = [
    pytest.mark.skipif(MOSQUITTO, reason="it has no admin port"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not there"),
]


class Curl:
    """A browser that somebody types the requests of."""

    def __init__(self, broker: BrokerProcess, jar: Path) -> None:
        self.base = f"http://localhost:{broker.ports['admin']}"
        self.jar = str(jar)
        self.csrf = ""

    def ask(self, method: str, path: str, body: object = None, *further: str) -> tuple[int, Any]:
        """Status and answer."""
        command = ["curl", "--silent", "--noproxy", "*", "--request", method, "--cookie", self.jar]
        command += ["--cookie-jar", self.jar, "--write-out", "\n%{http_code}", f"{self.base}{path}", *further]
        if self.csrf:
            command += ["--header", f"X-CSRF-Token: {self.csrf}"]
        if body is not None:
            command += ["--header", "Content-Type: application/json", "--data-binary", json.dumps(body)]
        said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=50).stdout
        text, _, status = said.rpartition("\n")
        answer = json.loads(text) if text.startswith(("{", "[")) else text
        if isinstance(answer, dict) and "csrf" in answer:
            self.csrf = answer["csrf"]
        return int(status), answer


def first_password(broker: BrokerProcess) -> str:
    """As it stands on the terminal."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = re.findall(r"first user is `admin`.*: (\S+)$", broker.log_text(whole=True), re.MULTILINE)
        if found:
            assert len(found) == 1
            return str(found[0])
        time.sleep(0.05)
    raise AssertionError("no password was printed")


def test_from_the_first_password_to_logging_out(start_broker: StartBroker, tmp_path: Path) -> None:
    """Locked out at one name on the way, and back by an admin; /metrics and Host as the configuration says."""
    broker = start_broker(settings={"admin.metrics": "token", "admin.hosts": "[localhost, mqtt.example]"})
    password = first_password(broker)
    curl = Curl(broker, tmp_path / "jar")
    assert curl.ask("GET", "/api/v1/status")[0] == 401
    assert curl.ask("POST", "/api/v1/login", {"name": "admin", "password": "wrong"})[0] == 401
    assert curl.ask("POST", "/api/v1/login", {"name": "admin", "password": password})[1]["must_change"] is True
    assert curl.ask("GET", "/api/v1/status")[1]["error"] == "password_change_required"
    change = {"password": password, "new_password": "of-the-admin"}
    assert curl.ask("POST", "/api/v1/me/password", change)[0] == 200
    assert curl.ask("GET", "/api/v1/status")[0] == 200
    assert curl.ask("GET", "/metrics")[0] == 200
    assert curl.ask("GET", "/health", None, "--header", "Host: mqtt.example")[0] == 200
    assert curl.ask("GET", "/health", None, "--header", "Host: evil.example")[0] == 421
    assert curl.ask("POST", "/api/v1/admins", None, "--header", "Origin: http://evil.example")[0] == 403
    bob = {"name": "bob", "role": "viewer", "password": "of-bob-12"}
    assert curl.ask("POST", "/api/v1/admins", bob)[0] == 200
    other = Curl(broker, tmp_path / "other")
    for status in [401] * 6 + [429]:
        assert other.ask("POST", "/api/v1/login", {"name": "bob", "password": "wrong"})[0] == status
    assert curl.ask("POST", "/api/v1/admins/bob/unlock")[0] == 200
    assert other.ask("POST", "/api/v1/login", {"name": "bob", "password": "of-bob-12"})[0] == 200
    assert other.ask("POST", "/api/v1/publish", {"topic": "t", "payload": "x"})[0] == 403
    assert curl.ask("POST", "/api/v1/logout")[0] == 204
    curl.csrf = ""
    assert [curl.ask("GET", path)[0] for path in ("/api/v1/status", "/metrics", "/health")] == [401, 401, 200]
    # After a restart: users and logins are there, and no password is printed again.
    broker.kill()
    broker.start()
    assert other.ask("GET", "/api/v1/me")[1]["name"] == "bob"
    assert first_password(broker) == password
    records = call(broker, "GET", "audit")[1]["items"]
    assert [(one["who"], one["path"], one["status"]) for one in reversed(records)] == [
        ("admin", "login", 200),
        ("admin", "me/password", 200),
        ("admin", "admins", 200),
        ("bob", "login", 429),
        ("admin", "admins/bob/unlock", 200),
        ("bob", "login", 200),
        ("bob", "publish", 403),
        ("admin", "logout", 204),
    ]
