"""Rules of the grid: behind those of the file, in force at once where they are known, and asked over the API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iot_mqtt.admin.rule_resources import RuleResources
from iot_mqtt.auth.service import Access
from iot_mqtt.auth.settings import AuthSettings
from iot_mqtt.grid.directory import GridDirectory
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.access import ALL_FORMS, Permissions, Principal
from iot_mqtt.ports.directory import RULES, USERS
from tests.unit.admin.adminkit import Browser, FakeView, make_browser
from tests.unit.app.ctl.ctlkit import Ctl
from tests.unit.auth.authkit import Threads, outcome, start


class Site:
    """A node with an ACL file and rules of the grid."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, acl_grid: bool = True) -> None:
        acl = folder / "acl"
        acl.write_text("[all]\ndeny publish locked/#\n[user ann]\nallow publish own\n")
        grid = MemoryGrid()
        outcome(start(grid.open()))
        self.directory = GridDirectory(grid, ManualClock())
        settings = AuthSettings(chain=("grid", "anonymous"), acl_file=(str(acl),), acl_grid=acl_grid)
        self.access = Access(settings, Threads().cross, ManualClock(), self.directory)
        self.changes = 0
        self.access.on_changed = self._changed
        parts = (RuleResources(self.access.acl_desk(self.directory), self.access),)
        self.browser: Browser = make_browser(FakeView(), further=parts)
        self.ctl = Ctl(monkeypatch, self.browser)

    def _changed(self, _: frozenset[str]) -> None:
        self.changes += 1

    def put(self, name: str, text: str) -> None:
        outcome(start(self.directory.put(RULES, name, {"text": text})))

    def user(self, name: str, *groups: str) -> None:
        outcome(start(self.directory.put(USERS, name, {"enabled": True, "groups": list(groups)})))

    def rights(self, user: str | None = None, **more: Any) -> Permissions:
        who = Principal("c", user, user is None)._replace(**more)
        return outcome(start(self.access.authorizer.permissions(who)))

    def post(self, path: str, **body: object) -> Any:
        return self.browser.request("POST", f"/api/v1/{path}", json.dumps(body).encode())


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def test_a_change_reaches_who_is_in(site: Site) -> None:
    """The rights that were given are others at once; the broker is told to ask again."""
    rights = site.rights()
    version = rights.version
    assert not rights.forms("x/1")
    site.put("10-more", "[all]\nallow publish x/#\nallow publish locked/#\n")
    assert rights.forms("x/1") == ALL_FORMS
    assert not rights.forms("locked/1"), "the file speaks first"
    assert rights.version != version
    assert site.changes == 1
    site.put("05-first", "[all]\ndeny publish x/2\n")
    assert not rights.forms("x/2"), "in the order of their names"
    outcome(start(site.directory.delete(RULES, "10-more")))
    assert not rights.forms("x/1")


def test_a_change_that_says_nothing_of_a_client_leaves_it_alone(site: Site) -> None:
    """Its verdicts are still good."""
    rights = site.rights()
    version = rights.version
    site.put("bob", "[user bob]\nallow publish x\n")
    assert rights.version == version


def test_rights_follow_the_groups_of_the_user(site: Site) -> None:
    """Put into a group, and out of it, while connected."""
    site.put("crew", "[group crew]\nallow publish crew\n")
    site.user("ann")
    rights = site.rights("ann")
    assert (rights.forms("own"), rights.forms("crew")) == (ALL_FORMS, 0)
    site.user("ann", "crew")
    assert rights.forms("crew") == ALL_FORMS
    site.user("ann")
    assert rights.forms("crew") == 0


def test_what_a_client_brought_is_one_more_list(site: Site) -> None:
    """Behind the others: it opens what nobody closed; one that is no rule leaves nothing."""
    assert site.rights(brought_rules=("allow publish up/%c",)).forms("up/c") == ALL_FORMS
    assert not site.rights(brought_rules=("allow publish #",)).forms("locked/1")
    for wrong in ("permit x", "[all]", "allow publish a/#/b"):
        assert not site.rights(brought_rules=("allow publish x", wrong)).forms("x")


def test_a_document_that_is_not_understood_keeps_what_it_said(site: Site) -> None:
    """Written by a version that knows more: what it denied is still denied."""
    site.put("a", "[all]\ndeny publish x/secret\n")
    site.put("b", "[all]\nallow publish x/#\n")
    rights = site.rights()
    site.put("a", "[all]\nforbid publish x/secret\n")
    assert (rights.forms("x/secret"), rights.forms("x/other")) == (0, ALL_FORMS)


def test_without_the_setting_nobody_asks_the_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And operators are told so."""
    site = Site(tmp_path, monkeypatch, acl_grid=False)
    site.put("a", "[all]\nallow publish x\n")
    assert not site.rights().forms("x")
    assert site.browser.get("/api/v1/auth/rules").json["items"][0]["asked"] is False


def test_documents_over_the_api(site: Site) -> None:
    """Written, read, replaced if nobody else did, and taken away; a mistake changes nothing."""
    text = "[all]\nallow read x\n"
    answer = site.post("auth/rules/main", text=text, version=0)
    assert (answer.status, answer.json["rules"], answer.json["text"], answer.json["asked"]) == (200, 1, text, True)
    assert site.post("auth/rules/main", text=text, version=0).status == 409
    answer = site.post("auth/rules/main", text="[all]\nallow x\n")
    assert answer.status == 400
    assert b"grid:main:2:" in answer.body
    assert site.browser.get("/api/v1/auth/rules/main").json["text"] == text
    assert site.post("auth/rules/main").status == 400
    assert site.browser.request("DELETE", "/api/v1/auth/rules/main").status == 204
    assert site.browser.request("DELETE", "/api/v1/auth/rules/main").status == 404
    assert site.browser.get("/api/v1/auth/rules/main").status == 404


def test_which_rule_says_so(site: Site, tmp_path: Path) -> None:
    """Source and line, over the API and by `ctl`; groups of the user are known."""
    site.user("ann", "crew")
    site.put("crew", "# first\n[group crew]\nallow command line-1/#\n")
    answer = site.post("auth/may", action="command", asked="line-1/press", user="ann", qos=1)
    assert answer.json == {
        "allowed": True,
        "detail": "the first rule that speaks of it",
        "source": "grid:crew",
        "line": 3,
        "rule": "allow command line-1/#",
    }
    said = site.ctl.run("auth", "may", "publish", "own", "--user", "ann")
    assert (said.exit_code, said.output) == (
        0,
        f"yes: the first rule that speaks of it\n{tmp_path}/acl:4: allow publish own\n",
    )
    said = site.ctl.run("auth", "may", "publish", "other", "--user", "ann", "--json")
    assert said.exit_code == 1
    assert json.loads(said.output)["allowed"] is False
    assert (
        site.post("auth/may", action="publish", asked="own", user="gone").json["detail"].startswith("this client could")
    )
    for wrong in ({"action": "fly", "asked": "x"}, {"action": "publish", "asked": "a/#"}, {"action": "publish"}):
        assert site.post("auth/may", **wrong).status == 400


def test_documents_by_ctl(site: Site, tmp_path: Path) -> None:
    """`set`, `list`, `show`, `delete`."""
    file = tmp_path / "more"
    file.write_text("[all]\nallow read x\n")
    assert site.ctl.run("auth", "rules", "set", "main", str(file)).exit_code == 0
    assert "main" in site.ctl.run("auth", "rules", "list").output
    assert site.ctl.run("auth", "rules", "show", "main").output == file.read_text()
    assert site.ctl.run("auth", "rules", "delete", "main").exit_code == 0
    assert site.ctl.run("auth", "rules", "show", "main").exit_code == 1
