"""Users of the grid over the API and ``ctl``: what is asked is done, and no hash comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iot_mqtt.admin.limit_resources import LimitResources
from iot_mqtt.admin.user_resources import AuthResources, UserResources
from iot_mqtt.auth import hashing
from iot_mqtt.auth.limit_book import LimitsDesk
from iot_mqtt.auth.service import Access
from iot_mqtt.auth.settings import AuthSettings
from iot_mqtt.errors import ReasonCode
from iot_mqtt.grid.directory import GridDirectory
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.access import Denied
from iot_mqtt.ports.directory import USERS
from tests.doubles.prospects import Fates
from tests.unit.admin.adminkit import Browser, FakeView, make_browser
from tests.unit.app.ctl.ctlkit import Ctl
from tests.unit.auth.authkit import AtOnce, outcome, start

HASH = "$2b$04$WGugZqZnRq8d1xq6kpc5WubFlp/epe5b2HKs6iY7tG0Co.wnNneJ6"


class Site:
    """A node whose listeners ask for users of the grid."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        threads = AtOnce()
        monkeypatch.setattr(hashing, "ThreadPoolExecutor", lambda *_, **__: threads)
        grid = MemoryGrid()
        outcome(start(grid.open()))
        self.directory = GridDirectory(grid, ManualClock())
        access = Access(AuthSettings(chain=("grid",)), threads.cross, ManualClock(), self.directory)
        limits = LimitsDesk(self.directory, access.limits, lambda _: ())
        self.fates = Fates()
        parts = (
            UserResources(access.user_desk(self.directory)),
            AuthResources(access, limits, self.fates),
            LimitResources(limits),
        )
        self.browser: Browser = make_browser(FakeView(), further=parts)
        self.ctl = Ctl(monkeypatch, self.browser)

    def post(self, path: str, **body: object) -> Any:
        return self.browser.request("POST", f"/api/v1/{path}", json.dumps(body).encode())


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def test_a_user_is_added_changed_and_deleted(site: Site) -> None:
    """What is not named stays; the hash is kept and never shown."""
    answer = site.post("users", name="ann", password="pw", groups=["b", "a"], client_ids=["line-*"])
    assert (answer.status, answer.json["groups"], answer.json["password"]) == (200, ["a", "b"], "argon2id")
    answer = site.post("users/ann", enabled=False, limits={"message_rate": 5})
    assert (answer.json["enabled"], answer.json["client_ids"], answer.json["limits"]) == (
        False,
        ["line-*"],
        {"message_rate": 5},
    )
    document = site.directory.get(USERS, "ann")
    assert document is not None and document.body["hash"].startswith("$argon2id$")
    shown = site.browser.get("/api/v1/users/ann")
    assert shown.json == site.browser.get("/api/v1/users").json["items"][0]
    assert b"$argon2id$" not in shown.body
    assert site.browser.request("DELETE", "/api/v1/users/ann").status == 204
    assert site.browser.get("/api/v1/users/ann").status == 404
    assert site.browser.request("DELETE", "/api/v1/users/ann").status == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("users", {}, 400, "name is missing"),
        ("users", {"name": "a:b"}, 400, "':'"),
        ("users", {"name": "bob"}, 409, "already"),
        ("users", {"name": "x", "password": ""}, 400, "1 to"),
        ("users", {"name": "x", "hash": "secret"}, 400, "argon2id"),
        ("users", {"name": "x", "hash": HASH, "password": "pw"}, 400, "one of"),
        ("users", {"name": "x", "groups": ["a", 1]}, 400, "list of texts"),
        ("users", {"name": "x", "groups": [""]}, 400, "1 to 256"),
        ("users", {"name": "x", "limits": {"rate": 5}}, 400, "there is no limit 'rate'"),
        ("users", {"name": "x", "limits": {"connections": -1}}, 400, "connections must be a whole number"),
        ("users", {"name": "x", "secret": "pw"}, 400, "unknown field"),
        ("users/nobody", {"enabled": True}, 404, "nobody"),
        ("users/bob", {"enabled": True, "version": 77}, 409, "version"),
    ],
)
def test_what_is_wrong_is_said(site: Site, path: str, body: dict[str, object], status: int, words: str) -> None:
    """With a status for programs, and without a secret."""
    site.post("users", name="bob", hash=HASH)
    answer = site.post(path, **body)
    assert (answer.status, words in answer.json["detail"]) == (status, True), answer.json
    assert "secret'" not in answer.json["detail"]


def test_users_are_found_by_a_part_of_their_name(site: Site) -> None:
    """Whatever the case of its letters, in pages."""
    for name in ("Press-1", "press-2", "pump-1", "my-press"):
        site.post("users", name=name, hash=HASH)
    first = site.browser.get("/api/v1/users?contains=PRESS&limit=2").json
    rest = site.browser.get(f"/api/v1/users?contains=PRESS&limit=2&after={first['after']}").json
    assert [one["name"] for one in (*first["items"], *rest["items"])] == ["Press-1", "my-press", "press-2"]
    assert rest["after"] is None
    assert [line.split()[0] for line in site.ctl.lines("users", "list", "--contains", "pump")] == ["USER", "pump-1"]


def test_ctl_does_all_of_it(site: Site) -> None:
    """The password comes from standard input."""
    ctl = site.ctl
    shown = ctl.run("users", "add", "ann", "--password-stdin", "--scram", "--group", "a", input=b"pw\n")
    assert shown.exit_code == 0, shown.output
    assert "argon2id" in shown.stdout and "no listener" not in shown.output
    ctl.lines("users", "add", "bob", "--hash", HASH, "--client-id", "line-*")
    ctl.lines("users", "add", "plc", "--without-password")
    lines = ctl.lines("users", "list")
    assert [line.split()[0] for line in lines] == ["USER", "ann", "bob", "plc"]
    ctl.lines("users", "groups", "ann", "x", "y")
    ctl.lines("users", "client-ids", "ann", "c*")
    ctl.lines("users", "disable", "ann")
    ctl.lines("users", "enable", "ann")
    ctl.lines("users", "disable", "ann")
    found = json.loads(ctl.run("users", "show", "ann", "--json").stdout)
    assert (found["enabled"], found["groups"], found["client_ids"], found["scram"]) == (False, ["x", "y"], ["c*"], True)
    assert ctl.run("users", "passwd", "ann", "--password-stdin", input=b"new\n").exit_code == 0
    assert not json.loads(ctl.run("users", "show", "ann", "--json").stdout)["scram"]
    ctl.lines("users", "delete", "ann")
    assert ctl.run("users", "show", "ann").exit_code == 1


def test_ctl_explains_who_is_let_in(site: Site) -> None:
    """Each link's verdict, and what becomes of it."""
    site.post("users", name="ann", hash=HASH, groups=["a"])
    shown = site.ctl.run(
        "auth", "explain", "--client", "c1", "--user", "ann", "--password-stdin", input=b"geheim\n"
    ).stdout.splitlines()
    assert shown[1].split()[:2] == ["grid", "allow"]
    assert shown[-1] == "let in as ann; groups: a"
    shown = site.ctl.lines("auth", "explain", "--client", "c1", "--user", "eve")
    assert "there is no such user" in shown[1]
    assert shown[-1].startswith("refused: user name or password is wrong (BAD_USER_NAME_OR_PASSWORD)")


def test_ctl_explains_what_comes_behind_the_links(site: Site) -> None:
    """A link may let in whom the broker refuses; what only another node knows is said to be open."""
    site.post("users", name="ann", hash=HASH)
    site.fates.refused["banned"] = Denied(ReasonCode.BANNED, "banned: why")
    site.fates.elsewhere["far"] = "another node knows"

    def last(client_id: str) -> str:
        asked = ("auth", "explain", "--client", client_id, "--user", "ann", "--password-stdin")
        lines = site.ctl.run(*asked, input=b"geheim\n").stdout.splitlines()
        assert lines[1].split()[:2] == ["grid", "allow"]
        return lines[-1]

    assert last("banned") == "refused: banned: why (BANNED)"
    assert last("far") == "let in as ann; groups: none; another node knows"


def test_all_of_it_is_described(site: Site) -> None:
    """In the description of the API: every field that is answered, and no other."""
    document = site.browser.get("/api/v1/openapi.json").json
    assert {"/users", "/users/{name}", "/auth/explain"} <= set(document["paths"])
    answered = site.post("users", name="ann").json
    assert set(answered) == set(document["components"]["schemas"]["User"]["properties"])
    explained = site.post("auth/explain", client_id="c").json
    assert set(explained) == set(document["components"]["schemas"]["Explanation"]["properties"])
