"""People at the admin port: users with a role, logins by a cookie, and what pages of other sites cannot do with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.cross_site import Hosts
from iot_mqtt.admin.logins import MAX_PER_ADMIN
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.directory import ADMINS, LOGINS
from tests.unit.admin.adminkit import TOKEN
from tests.unit.admin.loginkit import IDLE, LONGEST, PASSWORD, LoginNode, Page, cheap
from tests.unit.app.ctl.ctlkit import Ctl
from tests.unit.auth.authkit import outcome, start

__all__ = ["cheap"]


class Cluster:
    """Two nodes over one grid."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.clock.advance(1_000_000)
        self.folder = folder
        self.grid = MemoryGrid()
        outcome(start(self.grid.open()))
        self.one, self.two = self.node("n1"), self.node("n2")

    def node(self, name: str, **gate: object) -> LoginNode:
        return LoginNode(self.grid, self.clock, self.folder, name, **gate)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.fixture
def node(cluster: Cluster) -> LoginNode:
    cluster.one.add("ann")
    return cluster.one


@pytest.mark.parametrize("name", ["admin.token", ".", ".."])
def test_an_admin_user_is_not_called_like_another_thing(node: LoginNode, name: str) -> None:
    """The token of the data directory has its name for itself; the others are no parts of an address."""
    answer = node.ask("POST", "admins", {"name": name, "role": "viewer", "password": "correct horse"})
    assert answer.status == 400


def test_a_login_is_a_cookie_that_no_script_reads(cluster: Cluster, node: LoginNode) -> None:
    """Random, HttpOnly, Strict; Secure with TLS and only then; the grid has its hash and no more of it."""
    answer = node.log_in("ann")
    name, _, rest = answer.headers["set-cookie"].partition("=")
    secret, _, attributes = rest.partition("; ")
    assert (name, attributes, len(secret)) == ("iot_mqtt_login", "Path=/; HttpOnly; SameSite=Strict", 43)
    assert (answer.json["name"], answer.json["role"], answer.json["must_change"]) == ("ann", "admin", False)
    assert secret not in answer.body.decode()
    kept = json.dumps([[one.name, *map(str, one.body.items())] for one in node.directory.of(LOGINS).values()])
    assert secret not in kept
    assert answer.json["csrf"] not in kept
    secure = cluster.node("n3", secure=True)
    secure.refresh()
    assert secure.log_in("ann").headers["set-cookie"].startswith("__Host-iot_mqtt_login=")
    assert secure.log_in("ann").headers["set-cookie"].endswith("; SameSite=Strict; Secure")


@pytest.mark.parametrize(("role", "may"), [("viewer", 403), ("operator", 200), ("admin", 200)])
def test_who_has_logged_in_may_what_his_role_may(node: LoginNode, role: str, may: int) -> None:
    """Looking is everybody's."""
    node.add("bob", role)
    page = Page(node, node.log_in("bob"))
    assert page.ask("GET", "clients").status == 200
    assert page.ask("POST", "publish", {"topic": "t", "payload": "x"}).status == may
    assert page.ask("GET", "admins").status == (200 if role == "admin" else 403)
    assert page.ask("GET", "me").json["role"] == role


def test_a_login_is_good_at_every_node_at_once(cluster: Cluster, node: LoginNode) -> None:
    """A balancer sends the next request elsewhere before that node has looked: it looks then, and for no stranger."""
    cluster.two.refresh()
    page = Page(node, node.log_in("ann"))
    assert page.ask("POST", "publish", {"topic": "t", "payload": "x"}, node=cluster.two).status == 200
    assert cluster.two.send("GET", "status", None, {"Cookie": "iot_mqtt_login=" + "x" * 43}).status == 401
    assert cluster.two.send("GET", "status", None, {"Cookie": "iot_mqtt_login=x"}).status == 401


def test_logging_out_ends_it_everywhere(cluster: Cluster, node: LoginNode) -> None:
    """The cookie is taken away, and good for nothing if it is kept."""
    page = Page(node, node.log_in("ann"))
    assert page.ask("GET", "me", node=cluster.two).status == 200
    answer = page.ask("POST", "logout")
    assert (answer.status, "Max-Age=0" in answer.headers["set-cookie"]) == (204, True)
    assert page.ask("GET", "me").status == 401
    cluster.two.refresh()
    assert page.ask("GET", "me", node=cluster.two).status == 401


def test_a_login_ends_unused_and_in_any_case(cluster: Cluster, node: LoginNode) -> None:
    """Idle: also by what was used at another node, which is written down now and then."""
    idle, busy = Page(node, node.log_in("ann")), Page(node, node.log_in("ann"))
    for _ in range(int(LONGEST / (IDLE / 2)) - 1):
        cluster.clock.advance(IDLE / 2)
        cluster.two.refresh()
        assert busy.ask("GET", "me", node=cluster.two).status == 200
    node.refresh()
    assert (idle.ask("GET", "me").status, busy.ask("GET", "me").status) == (401, 200)
    cluster.clock.advance(IDLE / 2)
    assert busy.ask("GET", "me").status == 401
    node.log_in("ann")
    assert len(node.directory.of(LOGINS)) == 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "admins/ann", None),
        ("POST", "admins/ann", {"role": "viewer"}),
        ("POST", "admins/ann", {"password": "another one"}),
    ],
)
def test_who_is_changed_is_logged_out_on_every_node(
    cluster: Cluster, node: LoginNode, method: str, path: str, body: object
) -> None:
    """As soon as the node has seen it; and who is made anew under the name is another."""
    page = Page(node, node.log_in("ann"))
    assert page.ask("GET", "me", node=cluster.two).status == 200
    assert node.ask(method, path, body).status in (200, 204)
    cluster.two.refresh()
    assert page.ask("GET", "me").status == page.ask("GET", "me", node=cluster.two).status == 401
    if method == "DELETE":
        node.add("ann")
        assert page.ask("GET", "me").status == 401


def test_logins_of_one_user_are_few(node: LoginNode) -> None:
    """The one that was used longest ago makes room."""
    pages = []
    for _ in range(MAX_PER_ADMIN + 2):
        node.clock.advance(1)
        pages.append(Page(node, node.log_in("ann")))
        node.clock.advance(1)
        assert pages[0].ask("GET", "me").status == 200
    found = [page.ask("GET", "me").status for page in pages]
    assert (found.count(401), found[0], found[1], found[-1]) == (2, 200, 401, 200)
    assert len(node.directory.of(LOGINS)) == MAX_PER_ADMIN


def test_nobody_can_plant_a_login(node: LoginNode) -> None:
    """A cookie that is there before is not taken over, and one's own is over after the next login."""
    page = Page(node, node.log_in("ann"))
    planted = "iot_mqtt_login=" + "A" * 43
    fresh = Page(node, node.log_in("ann", Cookie=planted))
    assert fresh.cookie != planted
    assert node.send("GET", "me", None, {"Cookie": planted}).status == 401
    again = Page(node, node.log_in("ann", Cookie=page.cookie))
    assert again.cookie != page.cookie
    assert page.ask("GET", "me").status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"X_CSRF_Token": ""},
        {"X_CSRF_Token": "0" * 64},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:8080"},
        {"Origin": "http://[localhost:18083"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
    ],
)
def test_a_page_of_another_site_changes_nothing(node: LoginNode, headers: dict[str, Any]) -> None:
    """Whichever of the three it cannot forge; looking is harmless, for it cannot read the answer."""
    page = Page(node, node.log_in("ann"))
    answer = page.ask("POST", "publish", {"topic": "t", "payload": "x"}, **headers)
    assert (answer.status, answer.json["error"]) == (403, "cross_site")
    assert page.ask("POST", "logout", **headers).status == 403
    assert page.ask("GET", "me", **headers).status == 200


def test_a_page_of_another_site_logs_nobody_in(node: LoginNode) -> None:
    """As somebody whose password it knows; and another login's token is none."""
    assert node.log_in("ann", Origin="https://evil.example").status == 403
    one, other = Page(node, node.log_in("ann")), Page(node, node.log_in("ann"))
    assert one.ask("POST", "logout", X_CSRF_Token=other.csrf).status == 403


def test_a_token_needs_nothing_besides(node: LoginNode) -> None:
    """No page can set it for another site; and with a wrong one a good cookie beside it helps nothing."""
    body = {"topic": "t", "payload": "x"}
    assert node.ask("POST", "publish", body, Authorization=f"Bearer {TOKEN}", Origin="https://e.example").status == 200
    page = Page(node, node.log_in("ann"))
    assert page.ask("GET", "me", Authorization="Bearer wrong").status == 401
    assert node.ask("GET", "me").json == {
        "name": "admin.token",
        "role": "admin",
        "scope": [],
        "must_change": False,
        "csrf": "",
    }


def test_who_must_change_his_password_can_do_nothing_else(node: LoginNode) -> None:
    """Then he can; his other logins are over, and the old cookie is."""
    node.add("new", must_change=True)
    other, page = Page(node, node.log_in("new")), Page(node, node.log_in("new"))
    assert page.ask("GET", "me").json["must_change"] is True
    for method, path in (("GET", "status"), ("GET", "openapi.json"), ("DELETE", "clients/c")):
        answer = page.ask(method, path)
        assert (answer.status, answer.json["error"]) == (403, "password_change_required")
    change = {"password": PASSWORD, "new_password": "another one"}
    assert page.ask("POST", "me/password", {**change, "password": "wrong"}).status == 401
    assert page.ask("POST", "me/password", {**change, "new_password": "short"}).status == 400
    assert page.ask("POST", "me/password", {**change, "new_password": PASSWORD}).status == 400
    after = Page(node, page.ask("POST", "me/password", change))
    assert after.ask("GET", "status").status == 200
    assert page.ask("GET", "me").status == other.ask("GET", "me").status == 401
    assert node.log_in("new").status == 401
    assert node.log_in("new", "another one").status == 200


def test_a_random_password_takes_the_work_of_others(node: LoginNode) -> None:
    """It is kept as a token is; once it is another one, it is good for nothing."""
    password = outcome(start(node.desk.add_random("admin", Role.ADMIN)))
    assert node.log_in("admin", password[:-1]).status == node.log_in("admin", "wrong").status == 401
    page = Page(node, node.log_in("admin", password))
    assert all(asked.encoded.startswith("$argon2id$v=19$m=19456,") for asked, _ in node.pool.asked)
    assert page.ask("GET", "status").json["error"] == "password_change_required"
    page = Page(node, page.ask("POST", "me/password", {"password": password, "new_password": "another one"}))
    assert page.ask("GET", "status").status == 200
    assert node.log_in("admin", password).status == 401
    assert node.log_in("admin", "another one").status == 200
    kept = node.directory.get(ADMINS, "admin")
    assert kept is not None
    assert password not in str(kept.body)


def test_who_is_unknown_is_told_what_everybody_is(node: LoginNode) -> None:
    """The same words, for the same work: a hash like those that users have."""
    unknown, known = node.log_in("nobody"), node.log_in("ann", "wrong")
    assert (unknown.status, unknown.body) == (known.status, known.body) == (401, known.body)
    assert unknown.headers.keys() == known.headers.keys()
    (asked, _), (other, _) = node.pool.asked
    assert asked.encoded.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert other.encoded.startswith("$argon2id$")


def test_who_guesses_waits_longer_and_longer(cluster: Cluster, node: LoginNode) -> None:
    """Only there and under that name; the right password does not help before; all of it is counted and written."""
    for _ in range(5):
        assert node.log_in("ann", "wrong", "198.51.100.7").status == 401
    assert node.log_in("ann", "wrong", "198.51.100.7").status == 401
    looked_at = len(node.pool.asked)
    locked = node.log_in("ann", PASSWORD, "198.51.100.7")
    assert (locked.status, locked.json["error"], locked.headers["retry-after"]) == (429, "locked", "2")
    assert len(node.pool.asked) == looked_at
    assert node.log_in("ann", peer="198.51.100.8").status == 200
    for seconds in (1.0, 2.0, 4.0):
        node.clock.advance(seconds - 0.01)
        assert node.log_in("ann", PASSWORD, "198.51.100.7").status == 429
        node.clock.advance(0.02)
        assert node.log_in("ann", "wrong", "198.51.100.7").status == 401
    assert node.sign_in.outcomes == {"ok": 1, "wrong": 9, "locked": 4, "failed": 0}
    records = [one for one in node.ask("GET", "audit").json["items"] if one["status"] == 429]
    assert [json.loads(one["body"])["locked_for"] for one in records] == [8.0, 4.0, 2.0, 1.0]
    assert (records[0]["who"], records[0]["address"], records[0]["path"]) == ("ann", "198.51.100.7", "login")
    node.clock.advance(8)
    assert node.log_in("ann", PASSWORD, "198.51.100.7").status == 200
    assert node.log_in("ann", "wrong", "198.51.100.7").status == 401
    assert node.log_in("ann", PASSWORD, "198.51.100.7").status == 200


def test_names_that_nobody_has_are_locked_like_others(node: LoginNode) -> None:
    """Or they could be told apart."""
    for name in ("ann", "nobody"):
        assert [node.log_in(name, "wrong").status for _ in range(8)] == [401] * 6 + [429] * 2


def test_an_admin_unlocks_on_every_node(cluster: Cluster, node: LoginNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """By ctl; logins of that user stay."""
    page = Page(node, node.log_in("ann"))
    cluster.two.refresh()
    for _ in range(6):
        cluster.two.log_in("ann", "wrong")
    assert cluster.two.log_in("ann").status == 429
    ctl = Ctl(monkeypatch, node.browser)
    assert ctl.run("admins", "unlock", "ann").exit_code == 0
    cluster.two.refresh()
    assert cluster.two.log_in("ann").status == 200
    assert page.ask("GET", "me").status == 200
    assert "no admin user" in ctl.run("admins", "unlock", "nobody").output


def test_a_flood_of_guesses_does_not_fill_the_audit_log(node: LoginNode) -> None:
    """A few records a minute; the next one says how many there were."""
    for number in range(20):
        for _ in range(6):
            node.log_in(f"name-{number}", "wrong")
    node.clock.advance(60)
    for _ in range(6):
        node.log_in("last", "wrong")
    bodies = [json.loads(one["body"]) for one in node.ask("GET", "audit").json["items"] if one["status"] == 429]
    assert [one["not_recorded_before"] for one in bodies] == [10] + [0] * 10


def test_logins_are_written_down_without_passwords(node: LoginNode, tmp_path: Path) -> None:
    """Who came in, who left, who set a password; and no user of MQTT's is an admin."""
    page = Page(node, node.log_in("ann"))
    page = Page(node, page.ask("POST", "me/password", {"password": PASSWORD, "new_password": "another one"}))
    page.ask("POST", "logout")
    records = node.ask("GET", "audit").json["items"]
    assert [(one["who"], one["path"], one["status"]) for one in records] == [
        ("ann", "logout", 204),
        ("ann", "me/password", 200),
        ("ann", "login", 200),
        ("admin.token", "admins", 200),
    ]
    whole = "".join(path.read_text() for path in tmp_path.rglob("*.jsonl"))
    assert PASSWORD not in whole
    assert "another one" not in whole


def test_passwords_that_cannot_be_looked_at_are_no_wrong_ones(node: LoginNode) -> None:
    """The pool is full: try again, and nobody is locked out for it."""
    node.pool.failure = Refused("busy", ReasonCode.SERVER_BUSY)
    assert [node.log_in("ann").status for _ in range(9)] == [503] * 9
    node.pool.failure = None
    assert node.log_in("ann").status == 200


@pytest.mark.parametrize(
    ("password", "status"),
    [
        ("é" * 7, 400),
        ("é" * 8, 200),
        ("é" * 1024, 200),
        ("é" * 1025, 400),
    ],
)
@pytest.mark.parametrize("path", ["admins", "admins/ann"])
def test_a_password_is_as_long_as_it_has_characters(node: LoginNode, path: str, password: str, status: int) -> None:
    """As its schema says; and whoever has a long one logs in with it."""
    body = {"password": password} | ({"name": "bob", "role": "viewer"} if path == "admins" else {})
    assert node.ask("POST", path, body).status == status
    if status == 200:
        name = "bob" if path == "admins" else "ann"
        assert node.log_in(name, password).status == 200
        assert node.log_in(name, password[:-1]).status == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "bob", "role": "root", "password": PASSWORD}, 400),
        ({"name": "", "role": "viewer", "password": PASSWORD}, 400),
        ({"name": "b" * 65, "role": "viewer", "password": PASSWORD}, 400),
        ({"name": "bob", "role": "viewer", "password": "short"}, 400),
        ({"name": "bob", "role": "viewer"}, 400),
        ({"name": "bob", "role": "viewer", "password": PASSWORD, "more": 1}, 400),
        ({"name": "ann", "role": "viewer", "password": PASSWORD}, 409),
    ],
)
def test_an_admin_user_that_makes_no_sense_is_refused(node: LoginNode, body: dict[str, object], status: int) -> None:
    """With a reason; and nothing is kept."""
    assert node.ask("POST", "admins", body).status == status
    assert list(node.directory.of(ADMINS)) == ["ann"]


@pytest.mark.parametrize("body", [{}, {"name": "ann"}, {"name": "ann", "password": ""}, {"name": 1, "password": "x"}])
def test_a_login_that_makes_no_sense_is_refused(node: LoginNode, body: object) -> None:
    """Nothing is counted for it."""
    assert node.send("POST", "login", body, {}).status == 400
    assert sum(node.sign_in.outcomes.values()) == 0


def test_what_a_stranger_sends_is_bounded(node: LoginNode) -> None:
    """A login is short."""
    assert node.send("POST", "login", {"name": "ann", "password": "x" * 20_000}, {}).status == 413


def test_ctl_manages_admin_users(node: LoginNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """And shows no hash."""
    ctl = Ctl(monkeypatch, node.browser)
    added = ctl.run("admins", "add", "bob", "--role", "operator", "--password-stdin", input=b"of-bob-12\n")
    assert added.exit_code == 0, added.output
    assert node.log_in("bob", "of-bob-12").json["role"] == "operator"
    assert ctl.run("admins", "role", "bob", "viewer").exit_code == 0
    assert ctl.run("admins", "password", "bob", "--password-stdin", "--must-change", input=b"other-12\n").exit_code == 0
    assert node.log_in("bob", "other-12").json["must_change"] is True
    listed = ctl.run("admins", "list").stdout
    assert listed.splitlines()[1].split()[:2] == ["ann", "admin"]
    assert "argon" not in listed
    assert ctl.run("admins", "remove", "bob").exit_code == 0
    assert node.log_in("bob", "other-12").status == 401


# What a port goes by, and who reads its figures.


@pytest.mark.parametrize(
    ("names", "host", "accepted"),
    [
        ((), "localhost:18083", True),
        ((), "LOCALHOST", True),
        ((), "a.localhost.", True),
        ((), "127.0.0.1:18083", True),
        ((), "[::1]:18083", True),
        ((), "192.0.2.7", True),
        ((), "evil.example:18083", False),
        ((), "localhost.evil.example", False),
        ((), "127.0.0.1.evil.example", False),
        ((), "", False),
        ((), "[", False),
        ((), "a]", False),
        ((), "[localhost]", False),
        ((), "localhost\u2100", False),
        ((), None, True),
        (("mqtt.example",), "mqtt.example:18083", True),
        (("mqtt.example",), "localhost", False),
        (("*.example.org",), "a.b.example.org", True),
        (("*.example.org",), "example.org", False),
        (("*.example.org",), "badexample.org", False),
        (("*",), "anything", True),
    ],
)
def test_a_port_goes_by_its_names(names: tuple[str, ...], host: str | None, accepted: bool) -> None:
    """An address in figures is nobody's to rename."""
    assert Hosts(names, "10.0.0.1").accepts(host) is accepted


def test_a_page_that_renames_its_address_reads_nothing(node: LoginNode) -> None:
    """Nor does it log in; a script with a token may call the node what it likes."""
    for path in ("/health", "/ready", "/metrics", "/api/v1/status", "/"):
        answer = node.send("GET", path, None, {"Host": "evil.example"})
        assert (answer.status, answer.json["error"]) == (421, "unknown_host")
    assert node.log_in("ann", Host="evil.example", Origin="http://evil.example").status == 421
    assert node.log_in("ann", Host="[localhost:18083").status == 400
    page = Page(node, node.log_in("ann"))
    assert page.ask("GET", "me", Host="evil.example").status == 421
    assert node.ask("GET", "status", Host="balancer.example").status == 200


def test_metrics_are_shown_to_whom_the_configuration_says(cluster: Cluster) -> None:
    """open, token, off; a scope may be just that."""
    nodes = {one: cluster.node(one, metrics=one) for one in ("open", "token", "off")}
    token = nodes["open"].ask("GET", "/metrics")
    assert {name: one.send("GET", "/metrics", None, {}).status for name, one in nodes.items()} == {
        "open": 200,
        "token": 401,
        "off": 404,
    }
    assert token.status == nodes["token"].ask("GET", "/metrics").status == 200
    assert nodes["off"].ask("GET", "/metrics").status == 404
    nodes["token"].add("ann", "viewer")
    assert Page(nodes["token"], nodes["token"].log_in("ann")).ask("GET", "/metrics").status == 200
