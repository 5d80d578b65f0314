"""Tokens with a role, a scope and an end; and the log of what was changed, from the first call to a forged record."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any, cast

import pytest

from iot_mqtt.admin.audit_beginnings import Beginnings
from iot_mqtt.admin.audit_chain import hash_of, paths
from iot_mqtt.admin.audit_files import Room, verify
from iot_mqtt.admin.openapi import describe
from iot_mqtt.admin.plugin_resources import PluginResources
from iot_mqtt.admin.resources import Resources
from iot_mqtt.admin.routes import Route
from iot_mqtt.admin.token import same
from tests.unit.admin.adminkit import TOKEN, FakeView
from tests.unit.admin.tokenkit import Site
from tests.unit.auth.authkit import outcome, start


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("role", "may"),
    [
        ("viewer", {"GET clients": 200, "POST publish": 403, "GET tokens": 403, "GET audit": 403}),
        ("operator", {"GET clients": 200, "POST publish": 200, "GET tokens": 403, "POST tokens": 403}),
        ("admin", {"GET clients": 200, "POST publish": 200, "GET tokens": 200, "GET audit": 200}),
    ],
)
def test_a_role_may_what_it_may(site: Site, role: str, may: dict[str, int]) -> None:
    """Looking, acting, and deciding who may."""
    token = site.make(name="t", role=role, seconds=60)
    bodies: dict[str, dict[str, object]] = {"publish": {"topic": "t", "payload": "x"}, "tokens": {"name": "x"}}
    said = {}
    for call in may:
        method, path = call.split(" ")
        said[call] = site.ask(method, path, token, **bodies.get(path, {})).status
    assert said == may


def test_every_call_that_changes_something_asks_for_more_than_a_viewer() -> None:
    """Also those that somebody adds and says nothing of."""

    def is_change(route: Route) -> bool:
        return route.method != "GET"

    table = Resources(FakeView(), lambda: 0.0).table
    assert any(map(is_change, table))
    assert all(route.role > 1 for route in table if is_change(route))


def test_the_description_says_which_role_a_call_is_for() -> None:
    """Whoever may turn a plugin on may turn it off, and nobody else: an admin."""
    resources = PluginResources(cast(Any, None))
    described = describe(resources.routes, resources.schemas(), "1")["paths"]
    said = {
        f"{method} {path}": one["description"]
        for path, methods in described.items()
        for method, one in methods.items()
        if path.startswith("/plugins") and method != "get"
    }
    assert len(said) == 7
    assert {one.split()[3].strip(",") for one in said.values()} == {"admin"}


def test_a_scope_limits_a_token_to_its_paths(site: Site) -> None:
    """Whole parts of a path: clients is not clients-of-others."""
    token = site.make(name="t", role="admin", scope=["clients", "retained"])
    assert site.ask("GET", "clients", token).status == 200
    assert site.ask("GET", "retained", token).status == 200
    for path in ("sessions", "status", "tokens"):
        answer = site.ask("GET", path, token)
        assert (answer.status, answer.json["error"]) == (403, "forbidden")


def test_a_token_ends(site: Site) -> None:
    """At its time, or when it is taken back."""
    token = site.make(name="t", role="viewer", seconds=60)
    other = site.make(name="u", role="viewer")
    site.now += 59
    assert site.ask("GET", "status", token).status == 200
    site.now += 1
    assert site.ask("GET", "status", token).status == 401
    assert [
        one["expired"] for one in sorted(site.ask("GET", "tokens", TOKEN).json["items"], key=lambda t: t["name"])
    ] == [
        True,
        False,
    ]
    assert site.ask("GET", "status", other).status == 200
    assert site.ask("DELETE", f"tokens/{other.split('_')[1]}", TOKEN).status == 204
    assert site.ask("GET", "status", other).status == 401
    assert site.ask("DELETE", "tokens/nobody", TOKEN).status == 404


def test_nothing_like_a_token_is_taken_for_one(site: Site) -> None:
    """Another's id with one's own secret, a part of it, nothing; and the secret is kept nowhere."""
    first, second = (site.make(name=name, role="viewer") for name in ("a", "b"))
    _, id, secret = first.split("_", 2)
    for shown in (
        f"iot_{id}_",
        f"iot_{id}",
        f"iot__{secret}",
        f"iot_{id}_{second.split('_', 2)[2]}",
        first[:-1],
        "",
        "iot_",
    ):
        assert site.ask("GET", "status", shown).status == 401, shown
    assert site.browser.request("GET", "/api/v1/status", headers={"Authorization": f"Basic {first}"}).status == 401
    told = site.ask("GET", "tokens", TOKEN).body.decode()
    assert secret not in told
    assert "hash" not in told
    assert not same(b"one", b"other")


@pytest.mark.parametrize(
    "body",
    [
        {"name": "t", "role": "root"},
        {"name": "", "role": "viewer"},
        {"name": "t\n", "role": "viewer"},
        {"name": "t", "role": "viewer", "seconds": 0},
        {"name": "t", "role": "viewer", "seconds": 10**10},
        {"name": "t", "role": "viewer", "scope": ["/clients"]},
        {"name": "t", "role": "viewer", "scope": ["nonsense"]},
        {"name": "t", "role": "viewer", "scope": ["clients", "client"]},
        {"name": "t", "role": "viewer", "scope": ["{id}"]},
        {"name": "t", "role": "viewer", "more": 1},
        {"name": "t", "role": "operator", "scope": ["as:ann"]},
        {"name": "t", "role": "operator", "scope": ["commands", "as:"]},
        {"name": "t", "role": "operator", "scope": ["commands", "as:ann", "as:bob"]},
        {"name": "t", "role": "admin", "scope": ["tokens", "commands", "as:ann"]},
    ],
)
def test_a_token_that_makes_no_sense_is_refused(site: Site, body: dict[str, object]) -> None:
    """With a reason."""
    assert site.ask("POST", "tokens", TOKEN, **body).status == 400


def test_a_scope_that_begins_no_path_is_named(site: Site) -> None:
    """With where all of them are; what is below a path, and the metrics, may be in a scope."""
    said = site.ask("POST", "tokens", TOKEN, name="t", role="viewer", scope=["clients", "nonsense/a"]).json["detail"]
    assert said == "no path below /api/v1 begins with 'nonsense'; /api/v1/openapi.json lists them"
    assert site.make(name="t", role="viewer", scope=["clients/press/7", "metrics", "audit/verify"])


@pytest.mark.parametrize("name", ["admin.token", ".", ".."])
def test_a_token_is_not_called_like_another_thing(site: Site, name: str) -> None:
    """The token of the data directory has its name for itself; the others are no parts of an address."""
    assert site.ask("POST", "tokens", TOKEN, name=name, role="viewer").status == 400


def test_a_token_is_told_from_another_of_its_name(site: Site) -> None:
    """And from the one of the data directory: by its kind and its id."""
    tokens = [site.make(name="plant", role="viewer") for _ in range(2)]
    for token in tokens:
        site.ask("DELETE", "clients/c", token)
    second, first, made, _ = site.ask("GET", "audit", TOKEN).json["items"]
    assert (made["who"], made["kind"], made["token"]) == ("admin.token", "root", "")
    assert [(one["who"], one["kind"]) for one in (first, second)] == [("plant", "token")] * 2
    assert [one["token"] for one in (first, second)] == [token.split("_")[1] for token in tokens]


def test_every_change_is_written_down_and_what_only_looks_is_not(site: Site) -> None:
    """Who, from where, what, and what came of it; refused ones, too; no secret and no payload."""
    token = site.make(name="plant", role="viewer")
    site.ask("GET", "clients", token)
    private = {"user_properties": [["of-the-properties", "x"]], "correlation_data": "b2YtdGhlLXByb3BlcnRpZXM="}
    site.ask("POST", "publish", token, topic="t", payload="of-the-payload", properties=private)
    site.ask("DELETE", "clients/nobody", TOKEN)
    site.ask("POST", "tokens", TOKEN, name="x", role="root", password="of-the-password")
    records = site.ask("GET", "audit", TOKEN).json["items"]
    assert [(one["who"], one["method"], one["path"], one["status"]) for one in records] == [
        ("admin.token", "POST", "tokens", 400),
        ("admin.token", "DELETE", "clients/nobody", 404),
        ("plant", "POST", "publish", 403),
        ("admin.token", "POST", "tokens", 200),
    ]
    assert records[0]["node"] == "n1"
    assert records[0]["time"] == "1970-01-12T13:46:40.000+00:00"
    whole = "".join(path.read_text() for path in site.folder.rglob("*.jsonl"))
    assert '\\"topic\\": \\"t\\"' in whole
    for secret in ("of-the-payload", "of-the-password", "of-the-properties", "b2YtdGhl", token):
        assert secret not in whole


@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_what_a_refused_call_has_under_names_that_nobody_knows_is_hidden(site: Site, role: str) -> None:
    """It may be a secret whose name is misspelled; the names say what somebody was at."""
    token = site.make(name="t", role=role)
    answer = site.ask(
        "POST", "tokens", token, name="x", role="viewer", pass_word="hunter-2", set={"a.pass_word": ["hunter-2"]}
    )
    assert answer.status == (400 if role == "admin" else 403)
    record = site.ask("GET", "audit", TOKEN).json["items"][0]
    assert json.loads(record["body"]) == {"name": "x", "role": "viewer", "pass_word": "******", "set": "******"}
    site.browser.request("POST", "/api/v1/tokens", b'["hunter-2"]', {"Authorization": f"Bearer {token}"})
    assert site.ask("GET", "audit", TOKEN).json["items"][0]["body"] == '"******"'


#: What JSON can spell, or nearly, and no file of texts can hold.
UNWRITABLE = [
    (b'{"a":"\\ud800"}', "surrogate"),
    (b'{"\\udfff":1}', "surrogate"),
    (b'["\\ude00\\ud83d"]', "surrogate"),
    (b'"\xed\xa0\x80"', "not JSON"),
    (b"[" * 3000 + b"]" * 3000, "64 levels"),
    (b"[" * 65 + b"]" * 65, "64 levels"),
    (b'{"a":' * 65 + b"1" + b"}" * 65, "64 levels"),
    (b"[" * 100_000, "64 levels"),
    (b"\xff\xfe{\x00}\x00", "not JSON"),
    (b"1" * 6000, "4300 digits"),
]


@pytest.mark.parametrize(("body", "why"), UNWRITABLE)
@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_no_body_keeps_a_change_out_of_the_log(site: Site, body: bytes, why: str, role: str) -> None:
    """It is refused before anything is done, and written down, whoever sends it."""
    doomed = site.make(name="doomed", role="viewer")
    token = site.make(name="t", role=role)
    path = f"/api/v1/tokens/{doomed.split('_')[1]}"
    answer = site.browser.request("DELETE", path, body, {"Authorization": f"Bearer {token}"})
    assert answer.status == (400 if role == "admin" else 403)
    assert role != "admin" or why in answer.json["detail"]
    assert site.ask("GET", "status", doomed).status == 200
    record = site.ask("GET", "audit", TOKEN).json["items"][0]
    assert (record["who"], record["method"], record["status"]) == ("t", "DELETE", answer.status)
    assert why in record["body"]
    found = verify(site.folder, Beginnings(site.folder))
    assert (found.whole, found.records) == (True, 3)


@pytest.mark.parametrize(
    "body", [b"[" * 64 + b"]" * 64, b'\xef\xbb\xbf{"a": "\\ud83d\\ude00"}', b"[[],[]," * 9 + b"1" + b"]" * 9]
)
def test_what_can_be_written_down_is_no_hindrance(site: Site, body: bytes) -> None:
    """As deep as it may be, with characters of two halves, with many lists side by side."""
    token = site.make(name="t", role="viewer").split("_")[1]
    answer = site.browser.request("DELETE", f"/api/v1/tokens/{token}", body, {"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status, verify(site.folder, Beginnings(site.folder)).records) == (204, 2)


@pytest.mark.parametrize("call", ["POST publish?x=1", "DELETE clients/%FF", "POST clients", "DELETE clients/c?a=%FF"])
def test_what_leads_to_a_resource_is_written_down(site: Site, call: str) -> None:
    """Also where nobody has looked at what is asked for; what leads to none changes nothing."""
    method, path = call.split(" ")
    status = site.ask(method, path, TOKEN).status
    assert status in (400, 405)
    records = [one["status"] for one in site.ask("GET", "audit", TOKEN).json["items"]]
    assert records == ([status] if "?" in path else [])


def test_texts_that_no_file_can_hold_are_written_all_the_same(site: Site) -> None:
    """Halves of characters that would be a whole one when they are read again, too."""
    for who in ("\ud800", "\ud83d\ude00", "\\\ud83d\ude00", "a\0b\n", "\u2028é"):
        outcome(start(site.log.write(Room.CHANGES, {"time": "t", "node": "n", "who": who, "status": 200})))
    found = verify(site.folder, Beginnings(site.folder))
    assert (found.whole, found.records, found.fault) == (True, 5, "")
    site.start()
    assert [one["who"] for one in site.ask("GET", "audit", TOKEN).json["items"]][:3] == [
        "\u2028é",
        "a\0b\n",
        "\\\\ud83d\\ude00",
    ]


def test_the_log_is_one_chain_over_files_and_restarts(site: Site) -> None:
    """Bounded: the oldest files go, and the chain begins later."""
    for number in range(100):
        site.make(name=str(number), role="viewer")
        if number % 7 == 0:
            site.start(size=16_000)
    assert 12_000 < sum(path.stat().st_size for path in paths(site.folder)) <= 16_000
    found = verify(site.folder, Beginnings(site.folder))
    assert (found.whole, found.last) == (True, 100)
    assert found.records == 101 - found.first < 100
    assert site.ask("GET", f"audit/verify?hash={found.head}", TOKEN).json["whole"] is True
    assert site.ask("GET", "audit/verify?hash=00", TOKEN).json["fault"] == "no record has the hash 00"
    first, after = [], None
    while True:
        page = site.ask("GET", "audit?limit=4" + (f"&after={after}" if after else ""), TOKEN).json
        first += [one["seq"] for one in page["items"]]
        if (after := page["after"]) is None:
            break
    assert first == list(range(100, found.first - 1, -1))


@pytest.mark.parametrize("forgery", ["changed", "taken out", "inserted", "its hash made anew"])
def test_a_forged_record_is_found(site: Site, forgery: str) -> None:
    """Whatever is done to one in the midst."""
    for number in range(4):
        site.make(name=str(number), role="viewer")
    (path,) = paths(site.folder)
    lines = path.read_text().splitlines(keepends=True)
    if forgery == "taken out":
        del lines[1]
    elif forgery == "inserted":
        lines.insert(1, lines[2])
    else:
        record = json.loads(lines[1])
        record["who"] = "somebody else"
        if forgery != "changed":
            record["hash"] = hash_of(record)
        lines[1] = json.dumps(record) + "\n"
    path.write_text("".join(lines))
    assert not verify(site.folder, Beginnings(site.folder)).whole
    result = site.ctl.run("audit", "verify")
    assert result.exit_code == 1
    assert "NOT whole" in result.stdout


def test_a_torn_record_is_taken_away_at_the_start(site: Site) -> None:
    """Nobody had an answer to it."""
    site.make(name="t", role="viewer")
    (path,) = paths(site.folder)
    with path.open("a") as file:
        file.write('{"seq": 2, "ti')
    site.start()
    site.ask("DELETE", "clients/2", TOKEN)
    assert (
        verify(site.folder, Beginnings(site.folder)).whole,
        verify(site.folder, Beginnings(site.folder)).records,
    ) == (True, 2)


def test_a_record_is_on_the_disk_and_so_is_the_name_of_its_file(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the call is answered: a power cut takes neither."""
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(Path(os.readlink(f"/proc/self/fd/{file}"))))
    site.make(name="t", role="viewer")
    (path,) = paths(site.folder)
    assert synced[:2] == [path.resolve(), site.folder.resolve()]
    synced.clear()
    site.make(name="u", role="viewer")
    assert synced == [path.resolve()]


def test_nothing_is_changed_that_cannot_be_written_down(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: the first change is told not to be written, the next are not made; and it goes on by itself."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    site.ask("DELETE", "clients/1", TOKEN)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        assert site.ask("DELETE", "clients/2", TOKEN).status == 503
        patched.setattr(shutil, "disk_usage", lambda _: type("", (), {"free": 0}))
        assert site.ask("POST", "tokens", TOKEN, name="t", role="viewer").status == 503
        assert site.ask("GET", "tokens", TOKEN).json["items"] == []
    assert site.ask("DELETE", "clients/3", TOKEN).status == 404
    found = verify(site.folder, Beginnings(site.folder))
    assert (found.whole, found.records) == (True, 2)


@pytest.mark.parametrize("failure", [OSError(errno.EROFS, "Read-only file system"), ValueError("?"), RecursionError()])
def test_whatever_keeps_a_record_out_keeps_changes_out(
    site: Site, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    """No room is not all that can be wrong with a disk, nor is the disk all that can be wrong."""

    def broken(*_: object) -> None:
        raise failure

    site.ask("DELETE", "clients/1", TOKEN)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        assert site.ask("DELETE", "clients/2", TOKEN).status == 503
        assert site.log.trouble
        assert site.ask("POST", "tokens", TOKEN, name="t", role="viewer").status == 503
        assert site.ask("GET", "tokens", TOKEN).json["items"] == []
    assert site.ask("DELETE", "clients/3", TOKEN).status == 404
    assert verify(site.folder, Beginnings(site.folder)).whole
    outcome(start(site.log.check()))


def test_a_forged_line_that_is_nested_deep_is_a_fault(site: Site) -> None:
    """And no error of whoever verifies."""
    site.make(name="t", role="viewer")
    (path,) = paths(site.folder)
    path.write_bytes(path.read_bytes() + b"[" * 100_000 + b"\n")
    assert "no record" in site.ask("GET", "audit/verify", TOKEN).json["fault"]


def test_ctl_makes_lists_and_deletes_tokens(site: Site) -> None:
    """What it prints is the token, once."""
    made = site.ctl.run("tokens", "make", "grafana", "--scope", "status", "--days", "30")
    assert made.exit_code == 0, made.output
    token = made.stdout.strip()
    assert site.ask("GET", "status", token).status == 200
    listed = site.ctl.run("tokens", "list").stdout
    assert "grafana" in listed
    assert token not in listed
    assert site.ctl.run("tokens", "delete", token.split("_")[1]).exit_code == 0
    assert site.ask("GET", "status", token).status == 401
    assert "tokens" in site.ctl.run("audit", "list").stdout
    assert "whole: 2 records" in site.ctl.run("audit", "verify").stdout
