"""The logs of changes of three nodes, asked for at one: merged, paged, verified; who does not answer is named."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from iot_mqtt.admin import audit, audit_together
from iot_mqtt.admin.access_resources import AuditResources
from iot_mqtt.admin.audit import AuditLog
from iot_mqtt.admin.audit_files import Room
from iot_mqtt.admin.auditing import Auditor, shown
from iot_mqtt.admin.call import read_body
from iot_mqtt.admin.everywhere import Everywhere
from iot_mqtt.broker.facade import MemberInfo
from tests.unit.admin.adminkit import Answer, FakeView, make_browser
from tests.unit.admin.test_everywhere import NAMES, Questions
from tests.unit.app.ctl.ctlkit import Ctl
from tests.unit.auth.authkit import AtOnce, outcome, start


class Cluster:
    """Three nodes, numbered from 1, each with a log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 1000.0
        self.members = [
            MemberInfo(number, name, 1, "1.2", "up", draining=False, clients=0) for number, name in enumerate(NAMES, 1)
        ]
        self.questions: dict[int, Questions] = {}
        self.auditors, self.browsers = [], []
        for number, name in enumerate(NAMES, 1):
            log = AuditLog(folder / name, AtOnce(), lambda call: call(), 10**6)
            self.auditors.append(Auditor(log, name, lambda: self.now))
            self.questions[number] = asking = Questions(self.questions, number)
            everywhere = Everywhere(name, partial(self.seen_from, name), asking)
            self.browsers.append(make_browser(FakeView(), further=(AuditResources(log, name),), everywhere=everywhere))

    def seen_from(self, name: str) -> list[MemberInfo]:
        return [replace(one, state="self") if one.node_id == name else one for one in self.members]

    def change(self, number: int, path: str) -> None:
        """Something is changed at a node, a second after what was before."""
        self.now += 1
        note = self.auditors[number - 1].note
        outcome(start(note("ann", "admin", "::1", "POST", path, 200, room=Room.CHANGES)))

    def ask(self, path: str, number: int = 1, **query: Any) -> Answer:
        return self.browsers[number - 1].get(f"/api/v1/{path}?{urlencode(query)}")

    def verify(self, number: int = 1, **query: object) -> Any:
        answer = self.ask("audit/verify", number, **query)
        assert answer.status == 200, answer.body
        return answer.json

    def pages(self, limit: int, **query: Any) -> list[Any]:
        found: list[Any] = []
        while not found or found[-1]["after"] is not None:
            after = {"after": found[-1]["after"]} if found else {}
            answer = self.ask("audit", limit=limit, **query, **after)
            assert answer.status == 200, answer.body
            found.append(answer.json)
        return found

    def shown(self, limit: int, **query: object) -> list[Any]:
        return [one for page in self.pages(limit, **query) for one in page["items"]]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("room", [1, 1000, 10**6])
def test_records_of_all_nodes_are_shown_by_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, limit: int, room: int
) -> None:
    """Each once, the last first, whatever a page holds and whatever an answer does."""
    monkeypatch.setattr(audit_together, "PART_BYTES", room)
    order = [1, 1, 1, 1, 1, 2, 3, 2, 3, 1, 2, 2, 2, 2, 2, 2]
    for at, number in enumerate(order):
        cluster.change(number, str(at))
    pages = cluster.pages(limit)
    found = [(one["node"], one["path"]) for page in pages for one in page["items"]]
    assert found == [(f"n{number}", str(at)) for at, number in reversed(list(enumerate(order)))]
    assert all(len(page["items"]) <= limit for page in pages)


def test_one_node_s_records_can_be_asked_for(cluster: Cluster) -> None:
    """Its own, or another's; as with every other list, nobody else is asked, and a name that nobody has is an error."""
    for number in (1, 2, 3, 2):
        cluster.change(number, f"of-{number}")
    for name, count in (("n1", 1), ("n2", 2)):
        assert [one["node"] for one in cluster.shown(10, node=name)] == [name] * count
    assert cluster.questions[1].asked == [2]
    assert [one["node"] for one in cluster.verify(node="n3")["items"]] == ["n3"]
    refused = cluster.ask("audit", node="nobody")
    assert (refused.status, "nobody" in refused.json["detail"]) == (404, True)


def test_a_node_that_misses_a_page_goes_on_where_it_was(cluster: Cluster) -> None:
    """What was shown of it before is not shown twice."""
    for number in (2, 2, 1, 1, 2, 1):
        cluster.change(number, "x")
    first = cluster.ask("audit", limit=2).json
    cluster.questions[1].instead = {2: "node 2 gave no answer in time"}
    second = cluster.ask("audit", limit=1, after=first["after"]).json
    cluster.questions[1].instead = {}
    third = cluster.ask("audit", after=second["after"]).json
    found = [[(one["node"], one["seq"]) for one in page["items"]] for page in (first, second, third)]
    assert found == [[("n1", 3), ("n2", 3)], [("n1", 2)], [("n1", 1), ("n2", 2), ("n2", 1)]]


def test_changes_are_found_by_who_and_by_a_part(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all nodes, however many records lie between; a search that looks at few at a time goes on where it ended."""
    monkeypatch.setattr(audit, "LOOKED_AT", 4)
    for at in range(30):
        cluster.change(at % 3 + 1, "Bans" if at % 7 == 0 else "users")
    outcome(start(cluster.auditors[1].note("bob", "viewer", "::1", "POST", "bans", 403)))
    found = [one["path"] for one in cluster.shown(3, contains="bANs")]
    assert (len(found), found.count("Bans")) == (6, 5)
    assert len(cluster.shown(3, who="bob")) == len(cluster.shown(3, refused="true")) == 1
    assert cluster.shown(3, who="eve") == []


def test_who_does_not_answer_is_named(cluster: Cluster) -> None:
    """With the reason: paused, of another version, gone; what the others have is shown."""
    for number in (1, 2, 3):
        cluster.change(number, "x")
    cluster.questions[1].instead = {2: "node 2 gave no answer in time", 3: b"[]"}
    cluster.members.append(MemberInfo(7, "n7", 1, "1.2", "dead", draining=False, clients=0))
    cluster.members.append(MemberInfo(8, "n8", 1, "1.2", "gone", draining=False, clients=0))
    (page,) = cluster.pages(10)
    assert [one["node"] for one in page["items"]] == [one["node"] for one in page["kept"]] == ["n1"]
    assert [(one["node"], one["reason"]) for one in page["missing"]] == [
        ("n2", "node 2 gave no answer in time"),
        ("n3", "its answer cannot be understood"),
        ("n7", "it is dead"),
    ]
    verified = cluster.verify()
    assert ([one["node"] for one in verified["items"]], len(verified["missing"])) == (["n1"], 3)


def test_every_chain_is_verified(cluster: Cluster) -> None:
    """A forged record of any node is found at all; a hash may be of any of them."""
    for number in (1, 2, 3, 3):
        cluster.change(number, "x")
    before = cluster.verify()
    assert (before["whole"], [(one["node"], one["records"]) for one in before["items"]]) == (
        True,
        [("n1", 1), ("n2", 1), ("n3", 2)],
    )
    assert cluster.verify(2, hash=before["items"][2]["head"])["whole"]
    unknown = cluster.verify(2, hash="00")
    assert (unknown["whole"], unknown["fault"]) == (False, "no record has the hash 00")
    (path,) = (cluster.folder / "n3").glob("*.jsonl")
    path.write_text(path.read_text().replace('"ann"', '"bob"', 1))
    for number in (1, 2, 3):
        after = cluster.verify(number)
        assert (after["whole"], after["fault"]) == (False, "n3: record 1 was changed")


def test_reading_all_records_may_take_longer_than_a_page(cluster: Cluster) -> None:
    """Of other nodes: what does not answer in time is missing, and that is a verdict."""
    within = cluster.questions[1].within
    cluster.pages(10)
    cluster.verify()
    assert within == [5.0, 20.0]


def test_ctl_shows_all_nodes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says on standard error whose records are missing, with exit code 1 where that is a verdict."""
    for number in (1, 2, 3):
        cluster.change(number, f"of-{number}")
    ctl = Ctl(monkeypatch, cluster.browsers[0])
    listed = ctl.run("audit", "list")
    assert [line.split()[1] for line in listed.stdout.splitlines()] == ["NODE", "n3", "n2", "n1"]
    found = json.loads(ctl.run("audit", "list", "--json").stdout)
    assert [one["node"] for one in found] == ["n3", "n2", "n1"]
    verified = ctl.run("audit", "verify")
    assert (verified.exit_code, verified.stdout.count(": whole: 1 records")) == (0, 3)
    cluster.questions[1].instead = {2: "node 2 gave no answer in time"}
    assert "! without n2: node 2 gave no answer in time" in ctl.run("audit", "list").stderr
    assert ctl.run("audit", "verify").exit_code == 1
    assert [line.split()[1] for line in ctl.lines("audit", "list", "--contains", "of-2", "--who", "ann")] == ["NODE"]
    assert ctl.run("audit", "list", "--refused", "--json").stdout.strip() == "[]"
    cluster.questions[1].instead = {}
    assert [line.split()[1] for line in ctl.lines("audit", "list", "--contains", "of-2")] == ["NODE", "n2"]
    assert cluster.ask("audit", after="n1").status == 400


@pytest.mark.parametrize("depth", [65, 300, 600, 960, 3000])
def test_a_body_that_is_too_deep_is_named_by_its_size(depth: int) -> None:
    """A change is written down whatever was sent with it."""
    body = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
    assert shown(read_body(body), {}) == f"{len(body)} bytes: the body is nested more than 64 levels deep"
