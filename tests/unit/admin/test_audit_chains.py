"""What may be made many times takes no room from the records of changes, and whoever reads is told what is gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iot_mqtt.admin.audit_chain import hash_of, paths, read
from iot_mqtt.admin.call import Call
from iot_mqtt.admin.routes import Resource, own
from tests.unit.admin import tokenkit
from tests.unit.admin.adminkit import TOKEN, Answer


class Own(Resource):
    """What whoever is known may call, about himself."""

    @own("POST", "mine", "Do something to oneself.", None)
    def _do(self, call: Call) -> None: ...


class Site(tokenkit.Site):
    """With a small audit log; a second passes with each call."""

    further = (Own(),)

    def start(self, size: int = 32_000) -> None:
        super().start(size)

    def ask(self, method: str, path: str, token: str = TOKEN, **body: object) -> Answer:
        self.now += 1
        return super().ask(method, path, token, **body)

    def listed(self) -> list[dict[str, Any]]:
        return [*self.ctl.node.items("audit", query={}, limit=None)]

    def written(self) -> int:
        return sum(path.stat().st_size for path in self.folder.rglob("*.jsonl"))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


#: Calls that a holder of such a token can make again and again.
FLOODS: dict[str, tuple[str, Callable[[Site, str], Answer], int]] = {
    "refused": ("viewer", lambda site, token: site.ask("POST", "tokens", token, name="x" * 900, role="admin"), 403),
    "of a wrong path": ("operator", lambda site, token: site.ask("DELETE", "clients/nobody", token), 404),
    "about itself": ("viewer", lambda site, token: site.ask("POST", "mine", token), 204),
    "messages": ("operator", lambda site, token: site.ask("POST", "publish", token, topic="t", payload="x"), 200),
    "of many messages": (
        "operator",
        lambda site, token: site.ask("POST", "publish/batch", token, messages=[{"topic": "t", "payload": "x"}]),
        200,
    ),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_calls_that_can_be_made_without_end_leave_changes_in_the_log(site: Site, flood: str) -> None:
    """Whatever they are: they have room of their own, and the log has its bound all the same."""
    role, call, status = FLOODS[flood]
    token = site.make(name="flood", role=role)
    for _ in range(60):
        assert call(site, token).status == status
    assert site.listed()[-1]["path"] == "tokens"
    found = site.ask("GET", "audit/verify").json
    assert (found["whole"], found["items"][0]["last"]) == (True, 61)
    assert found["items"][0]["records"] < 61
    assert site.written() < 1.75 * 32_000


def test_calls_of_each_kind_have_a_chain(site: Site) -> None:
    """A refused message is a refused call."""
    viewer = site.make(name="v", role="viewer")
    site.ask("POST", "publish", topic="t", payload="x")
    site.ask("POST", "publish", viewer, topic="t", payload="x")
    site.ask("POST", "mine", viewer)
    chains = {one: [record["path"] for record in read(site.folder / one)] for one in ("", "access", "messages")}
    assert chains == {"": ["tokens"], "access": ["publish", "mine"], "messages": ["publish"]}


def test_the_records_of_all_chains_are_listed_in_the_order_in_which_they_were_made(site: Site) -> None:
    """Over restarts and pages."""
    viewer = site.make(name="v", role="viewer")
    for number in range(30):
        if number % 3 == 0:
            site.start(size=10**6)
        site.ask("POST", "tokens", (TOKEN, viewer)[number % 2], name=str(number), role="viewer")
        site.ask("POST", "publish", topic=str(number), payload="x")
    assert [one["seq"] for one in site.listed()] == list(range(61, 0, -1))
    pages, after = [], ""
    while after is not None:
        page = site.ask("GET", f"audit?limit=7{after and f'&after={after}'}").json
        pages += [one["seq"] for one in page["items"]]
        after = page["after"]
    assert pages == list(range(61, 0, -1))


def test_whoever_reads_is_told_from_when_on_records_are_there(site: Site) -> None:
    """That no record is missing between those that are left says nothing about those before."""
    viewer = site.make(name="v", role="viewer")
    began = "1970-01-12T13:46:41.000+00:00"
    for number in range(60):
        site.ask("POST", "tokens", viewer, name=str(number), role="viewer")
    changes, access = site.ask("GET", "audit/verify").json["items"][0]["kept"]
    assert changes == {"chain": "changes", "since": began, "complete": True}
    assert (access["chain"], access["complete"]) == ("access", False)
    first = next(one for one in reversed(site.listed()) if one["who"] == "v")
    assert access["since"] == first["time"] > "1970-01-12T13:46:42.000+00:00"
    assert site.ask("GET", "audit?limit=1").json["kept"] == [{"node": "n1", **one} for one in (changes, access)]
    verified = site.ctl.run("audit", "verify").stdout
    assert f"changes since {began}\n" in verified
    note = f"access since {access['since']}; older ones were removed to make room"
    assert note in verified
    assert note in site.ctl.run("audit", "list").stderr
    assert site.ctl.run("audit", "list", "--limit", "2").stderr == ""


@pytest.mark.parametrize("forgery", ["last change", "a whole chain", "a record anew"])
def test_chains_watch_each_other(site: Site, forgery: str) -> None:
    """The numbers are those of all chains together, and a record names the one before also where it is in another."""
    viewer = site.make(name="v", role="viewer")
    site.make(name="w", role="viewer")
    site.ask("POST", "mine", viewer)
    change, access = paths(site.folder)[0], paths(site.folder / "access")[0]
    assert site.ask("GET", "audit/verify").json["whole"]
    if forgery == "a whole chain":
        change.unlink()
    elif forgery == "last change":
        change.write_bytes(change.read_bytes().splitlines(keepends=True)[0])
    else:
        first, last = map(json.loads, change.read_bytes().splitlines())
        last["who"] = "somebody else"
        last["hash"] = hash_of(last)
        change.write_text(f"{json.dumps(first)}\n{json.dumps(last)}\n")
    assert access.exists()
    assert not site.ask("GET", "audit/verify").json["whole"]


def test_the_hash_to_note_is_that_of_a_change(site: Site) -> None:
    """It stays as long as changes do; the others come and go."""
    viewer = site.make(name="v", role="viewer")
    site.ask("POST", "publish", topic="t", payload="x")
    site.make(name="w", role="viewer")
    head = site.ask("GET", "audit/verify").json["items"][0]["head"]
    for _ in range(60):
        site.ask("POST", "mine", viewer)
    assert site.ask("GET", f"audit/verify?hash={head}").json["whole"]


def test_a_log_of_a_release_before_goes_on(site: Site) -> None:
    """It was one chain of everything, in the place of changes; it may have lost its beginning."""
    site.folder.mkdir(exist_ok=True)
    previous = "of one that is gone"
    lines = []
    for seq in range(7, 12):
        record = {"seq": seq, "time": "2026", "who": "ann", "path": "publish", "status": 403, "previous": previous}
        record["hash"] = previous = hash_of(record)
        lines.append(json.dumps(record))
    (site.folder / "0000000007.jsonl").write_text("\n".join(lines) + "\n")
    site.start()
    site.ask("DELETE", "clients/nobody")
    site.make(name="t", role="viewer")
    site.start()
    site.ask("POST", "publish", topic="t", payload="x")
    found = site.ask("GET", f"audit/verify?hash={previous}").json
    assert (found["whole"], found["items"][0]["records"]) == (True, 8)
    assert [one["complete"] for one in found["items"][0]["kept"]] == [False, True, True]
    assert [one["seq"] for one in site.listed()] == list(range(14, 6, -1))


def test_a_room_that_has_become_smaller_is_kept_to(site: Site) -> None:
    """With the next file that is begun."""
    for _ in range(150):
        site.make(name="t", role="viewer")
    site.start(size=16_000)
    for _ in range(40):
        site.make(name="t", role="viewer")
    assert site.written() < 16_000
    assert site.ask("GET", "audit/verify").json["whole"]


def test_of_a_refused_call_is_kept_what_was_tried(site: Site) -> None:
    """Who, from where, which path, and how the body began."""
    viewer = site.make(name="v", role="viewer")
    site.ask("POST", "tokens", viewer, name="x" * 3000, role="admin")
    site.ask("DELETE", "clients/" + "y" * 3000)
    wrong, refused = site.listed()[:2]
    assert (refused["who"], refused["path"], refused["address"]) == ("v", "tokens", "127.0.0.1")
    assert refused["body"].startswith('{"name": "xxx')
    assert wrong["path"].startswith("clients/yyy")
    assert all(len(json.dumps(one)) < 1000 for one in (wrong, refused))
