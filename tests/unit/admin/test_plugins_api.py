"""``/api/v1/plugins`` and ``ctl plugins``, over plugins that only remember what they were asked."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from iot_mqtt.plugins.info import CheckReport, CheckScore, PluginError, PluginInfo, VersionInfo
from tests.unit.admin.adminkit import Browser, FakeView, make_browser
from tests.unit.app.ctl.ctlkit import Ctl

ACME = PluginInfo(
    name="acme",
    state="ready",
    reason=None,
    isolation="process",
    bundled=False,
    version="2.0",
    schema_version=3,
    connections=5,
    versions=[VersionInfo("1.0-aa", "1.0", False, True, 2), VersionInfo("2.0-bb", "2.0", True, True, 3)],
    faults={"died": 1},
    last_fault="decode: KeyError: 'sensor 7' (codec.py:104)",
    restarts=1,
    pid=77,
    turned_away={"restarting": 4},
    counters={"retries": 9},
)


class FakePlugins:
    """``PluginPart`` with one plugin."""

    def __init__(self) -> None:
        self.one = ACME
        self.asked: list[tuple[object, ...]] = []
        self.failure: PluginError | None = None

    def info(self) -> list[PluginInfo]:
        return [self.one]

    async def install(self, path: str, sha256: str) -> list[PluginInfo]:
        self._ask("install", path, sha256)
        return [self.one]

    async def take_in(self, wheel: bytes, filename: str, sha256: str) -> list[PluginInfo]:
        return [self._ask("take in", wheel, filename, sha256)]

    async def check(self, name: str, label: str | None = None) -> CheckReport:
        self._ask("check", name, label)
        scores = [CheckScore("fits", "pass", "SDK 1", [], 0.1), CheckScore("cut", "fail", "", ["cut at 3"], 0.2)]
        return CheckReport(name, label or "2.0-bb", "2.0", ok=False, checks=scores)

    async def enable(self, name: str, isolation: str | None = None) -> PluginInfo:
        return self._ask("enable", name, isolation)

    async def disable(self, name: str) -> PluginInfo:
        return self._ask("disable", name)

    async def reload(self, name: str, *, drain: bool = False) -> PluginInfo:
        return self._ask("reload", name, drain)

    async def rollback(self, name: str, *, drain: bool = False) -> PluginInfo:
        return self._ask("rollback", name, drain)

    def _ask(self, *what: object) -> PluginInfo:
        self.asked.append(what)
        if self.failure is not None:
            raise self.failure
        return self.one


class Case:
    """The API and ``ctl`` in front of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plugins = FakePlugins()
        self.browser: Browser = make_browser(FakeView(), plugins=self.plugins)
        self._ctl = Ctl(monkeypatch, self.browser)

    def ctl(self, *arguments: str) -> Result:
        return self._ctl.run("plugins", *arguments)


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    return Case(monkeypatch)


def test_the_list_says_in_a_line_what_matters(case: Case) -> None:
    """State, version, connections here and on other versions, faults, the reason."""
    case.plugins.one = replace(ACME, state="quarantined", reason="3 faults " + "x" * 200)
    heading, row = case.ctl("list").stdout.splitlines()
    assert " ".join(heading.split()) == "PLUGIN STATE VERSION ISOLATION CONNS ELSEWHERE FAULTS NODE REASON"
    assert row.split()[:7] == ["acme", "quarantined", "2.0", "process", "5", "2", "1"]
    assert row.endswith("x…") and len(row) < 160


def test_a_plugin_is_shown_with_its_versions(case: Case) -> None:
    """As a form and a table, or as JSON."""
    text = case.ctl("show", "acme").stdout
    for part in (
        "2.0, schema 3",
        "process, process 77, started again 1 times",
        "died 1",
        "retries 9",
        "restarting 4",
        "last fault",
        "(codec.py:104)",
    ):
        assert part in text
    assert text.splitlines()[-1].split() == ["2.0-bb", "yes", "yes", "3"]
    assert json.loads(case.ctl("show", "acme", "--json").stdout)["versions"][0]["connections"] == 2
    missing = case.ctl("show", "other")
    assert missing.exit_code == 1 and "no plugin 'other'" in missing.output


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (("enable", "acme"), ("enable", "acme", None)),
        (("enable", "acme", "--isolation", "inline"), ("enable", "acme", "inline")),
        (("disable", "acme"), ("disable", "acme")),
        (("reload", "acme"), ("reload", "acme", False)),
        (("reload", "acme", "--drain"), ("reload", "acme", True)),
        (("rollback", "acme", "--drain"), ("rollback", "acme", True)),
    ],
)
def test_commands_reach_the_plugins(case: Case, arguments: tuple[str, ...], asked: tuple[object, ...]) -> None:
    """And show the plugin as it is afterwards."""
    result = case.ctl(*arguments)
    assert result.exit_code == 0, result.output
    assert case.plugins.asked == [asked]
    assert "2.0, schema 3" in result.stdout


def test_install_sends_the_whole_path(case: Case, tmp_path: Path) -> None:
    """The node has another working directory."""
    (tmp_path / "a.whl").touch()
    (tmp_path / "x").mkdir()
    result = case.ctl("install", str(tmp_path / "x" / ".." / "a.whl"))
    assert result.exit_code == 0, result.output
    assert case.plugins.asked == [("install", str(tmp_path / "a.whl"), hashlib.sha256().hexdigest())]
    assert "ctl plugins reload acme" in result.stdout


def test_install_sends_the_hash_that_the_vendor_has_published(case: Case, tmp_path: Path) -> None:
    """The node compares it with the wheel's own."""
    (tmp_path / "a.whl").touch()
    assert case.ctl("install", str(tmp_path / "a.whl"), "--sha256", "ab" * 32).exit_code == 0
    assert case.plugins.asked == [("install", str(tmp_path / "a.whl"), "ab" * 32)]


@pytest.mark.parametrize(("kind", "status"), [("unknown", 404), ("busy", 409), ("refused", 409)])
def test_what_cannot_be_done_is_told(case: Case, kind: str, status: int) -> None:
    """With the reason, and exit code 1."""
    case.plugins.failure = PluginError(kind, "because of this")
    answer = case.browser.request("POST", "/api/v1/plugins/acme/reload", b"{}")
    assert answer.status == status and b"because of this" in answer.body
    result = case.ctl("reload", "acme")
    assert result.exit_code == 1 and "because of this" in result.output


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("plugins", b"{}"),
        ("plugins", b'{"path": 5}'),
        ("plugins", b'{"path": "/a", "more": 1}'),
        ("plugins/acme/enable", b'{"isolation": "thread"}'),
        ("plugins/acme/reload", b'{"drain": 1}'),
        ("plugins/acme/reload", b"[]"),
    ],
)
def test_bodies_are_read_strictly(case: Case, path: str, body: bytes) -> None:
    """Nothing is done then."""
    assert case.browser.request("POST", f"/api/v1/{path}", body).status == 400
    assert case.plugins.asked == []


def test_a_node_without_plugins_has_no_such_resource() -> None:
    """A view without them serves the rest."""
    assert make_browser(FakeView()).request("GET", "/api/v1/plugins").status == 404


def test_a_wheel_is_sent_with_the_hash_that_is_allowed(case: Case) -> None:
    """As base64; what is no such thing is a bad request."""
    body = {"filename": "acme-2.0-py3-none-any.whl", "sha256": "ab" * 32, "content_base64": "UEs="}
    assert case.browser.post("/api/v1/plugins/wheels", body).json["items"][0]["name"] == "acme"
    assert case.plugins.asked == [("take in", b"PK", "acme-2.0-py3-none-any.whl", "ab" * 32)]
    for wrong in ({**body, "content_base64": "?"}, {**body, "sha256": ""}, {"filename": "a.whl"}):
        assert case.browser.post("/api/v1/plugins/wheels", wrong).status == 400


def test_a_version_is_checked_and_the_report_is_shown(case: Case) -> None:
    """Line by line; a check that fails is no error of the call."""
    answer = case.browser.post("/api/v1/plugins/acme/check", {"label": "1.0-aa"})
    assert (answer.status, answer.json["label"], answer.json["ok"]) == (200, "1.0-aa", False)
    assert answer.json["checks"][1]["complaints"] == ["cut at 3"]
    case.plugins.failure = PluginError("busy", "another version is being checked")
    assert case.browser.post("/api/v1/plugins/acme/check", {}).status == 409
    case.plugins.failure = None
    text = case.ctl("check", "acme").output
    assert "cut at 3" in text and "FAIL" in text
    assert case.ctl("check", "acme").exit_code == 1
