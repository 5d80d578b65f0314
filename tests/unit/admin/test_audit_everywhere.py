"""The logs of changes of three nodes, asked for at one: merged, paged, verified; who does not answer is named."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from iot_mqtt.admin import audit, audit_everywhere
from iot_mqtt.admin.access_resources import AuditResources
from iot_mqtt.admin.audit import ANYTHING, AuditLog, Wanted
from iot_mqtt.admin.audit_everywhere import AuditEverywhere
from iot_mqtt.admin.audit_files import Room
from iot_mqtt.admin.auditing import Auditor, shown
from iot_mqtt.admin.call import read_body
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.broker.facade import MemberInfo
from tests.unit.admin.adminkit import TOKEN, FakeView, make_browser
from tests.unit.admin.loginkit import AtOnce
from tests.unit.app.ctl.ctlkit import Ctl, MemoryOpener
from tests.unit.auth.authkit import outcome, start

NAMES = ("n1", "n2", "n3")


class Questions:
    """One node's way to ask the others."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self._cluster = cluster
        self._number = number
        self.later: dict[str, Callable[[bytes], Awaitable[bytes]]] = {}
        #: What is answered in place of the truth; None: what a node of before would.
        self.instead: dict[int, bytes | str] = {}

    async def ask_all(
        self, name: str, body: bytes, within: float, only: Collection[int] | None = None
    ) -> Mapping[int, bytes | str]:
        assert within > 0
        peers = {number: one for number, one in self._cluster.questions.items() if number != self._number}
        return {
            number: self.instead[number] if number in self.instead else await one.later[name](body)
            for number, one in peers.items()
        }


class Cluster:
    """Three nodes, numbered from 1, each with a log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 1000.0
        self.members = [
            MemberInfo(number, name, 1, "1.2", "up", draining=False, clients=0) for number, name in enumerate(NAMES, 1)
        ]
        self.questions: dict[int, Questions] = {}
        self.auditors, self.logs = [], []
        for number, name in enumerate(NAMES, 1):
            log = AuditLog(folder / name, AtOnce(), lambda call: call(), 10**6)
            self.auditors.append(Auditor(log, name, lambda: self.now))
            self.questions[number] = asking = Questions(self, number)
            self.logs.append(AuditEverywhere(log, name, partial(self.seen_from, name), asking))

    def seen_from(self, name: str) -> list[MemberInfo]:
        return [replace(one, state="self") if one.node_id == name else one for one in self.members]

    def change(self, number: int, path: str) -> None:
        """Something is changed at a node, a second after what was before."""
        self.now += 1
        note = self.auditors[number - 1].note
        outcome(start(note("ann", "admin", "::1", "POST", path, 200, room=Room.CHANGES)))

    def pages(self, limit: int, node: str | None = None, wanted: Wanted = ANYTHING) -> list[Any]:
        found: list[Any] = []
        after = None
        while not found or after is not None:
            page = outcome(start(self.logs[0].page(after, limit, node, wanted)))
            found.append(page)
            after = page.after
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("room", [1, 1000, 10**6])
def test_records_of_all_nodes_are_shown_by_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, limit: int, room: int
) -> None:
    """Each once, the last first, whatever a page holds and whatever an answer does."""
    monkeypatch.setattr(audit_everywhere, "ANSWER_BYTES", room)
    order = [1, 1, 1, 1, 1, 2, 3, 2, 3, 1, 2, 2, 2, 2, 2, 2]
    for at, number in enumerate(order):
        cluster.change(number, str(at))
    pages = cluster.pages(limit)
    shown = [(one["node"], one["path"]) for page in pages for one in page.items]
    assert shown == [(f"n{number}", str(at)) for at, number in reversed(list(enumerate(order)))]
    assert all(len(page.items) <= limit for page in pages)


def test_one_node_s_records_can_be_asked_for(cluster: Cluster) -> None:
    """Its own, or another's."""
    for number in (1, 2, 3, 2):
        cluster.change(number, f"of-{number}")
    for name, count in (("n1", 1), ("n2", 2), ("nobody", 0)):
        assert [one["node"] for page in cluster.pages(10, name) for one in page.items] == [name] * count


def test_changes_are_found_by_who_and_by_a_part(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all nodes, however many records lie between; a search that looks at few at a time goes on where it ended."""
    monkeypatch.setattr(audit, "LOOKED_AT", 4)
    for at in range(30):
        cluster.change(at % 3 + 1, "Bans" if at % 7 == 0 else "users")
    outcome(start(cluster.auditors[1].note("bob", "viewer", "::1", "POST", "bans", 403)))
    found = {
        wanted: [one["path"] for page in cluster.pages(3, wanted=wanted) for one in page.items]
        for wanted in (Wanted(contains="bANs"), Wanted(who="bob"), Wanted(refused=True), Wanted(who="eve"))
    }
    assert list(map(len, found.values())) == [6, 1, 1, 0]
    assert found[Wanted(contains="bANs")].count("Bans") == 5


def test_who_does_not_answer_is_named(cluster: Cluster) -> None:
    """With the reason: paused, of another version, gone; what the others have is shown."""
    for number in (1, 2, 3):
        cluster.change(number, "x")
    cluster.questions[1].instead = {2: "node 2 gave no answer in time", 3: b"[]"}
    cluster.members.append(MemberInfo(7, "n7", 1, "1.2", "dead", draining=False, clients=0))
    cluster.members.append(MemberInfo(8, "n8", 1, "1.2", "gone", draining=False, clients=0))
    (page,) = cluster.pages(10)
    assert [one["node"] for one in page.items] == ["n1"]
    assert [(one.node, one.reason) for one in page.missing] == [
        ("n2", "node 2 gave no answer in time"),
        ("n3", "its answer cannot be understood"),
        ("n7", "it is dead"),
    ]
    verified = outcome(start(cluster.logs[0].verify(None)))
    assert ([one.node for one in verified.items], len(verified.missing)) == (["n1"], 3)


def test_every_chain_is_verified(cluster: Cluster) -> None:
    """A forged record of any node is found at all; a hash may be of any of them."""
    for number in (1, 2, 3, 3):
        cluster.change(number, "x")
    before = outcome(start(cluster.logs[0].verify(None)))
    assert (before.whole, [(one.node, one.records) for one in before.items]) == (
        True,
        [("n1", 1), ("n2", 1), ("n3", 2)],
    )
    assert outcome(start(cluster.logs[1].verify(before.items[2].head))).whole
    unknown = outcome(start(cluster.logs[1].verify("00")))
    assert (unknown.whole, unknown.fault) == (False, "no record has the hash 00")
    (path,) = (cluster.folder / "n3").glob("*.jsonl")
    path.write_text(path.read_text().replace('"ann"', '"bob"', 1))
    for log in cluster.logs:
        after = outcome(start(log.verify(None)))
        assert (after.whole, after.fault) == (False, "n3: record 1 was changed")


def test_a_node_of_an_older_version_says_nothing_of_what_it_has_removed(cluster: Cluster) -> None:
    """Its records count all the same."""
    cluster.change(1, "x")
    page: dict[str, Any] = {"records": [{"seq": 1, "time": "1"}], "more": False}
    verified = {"whole": True, "records": 1, "first": 1, "last": 1, "head": "aa", "fault": "", "found": True}
    for number, name in ((2, "n2"), (3, "n3")):
        cluster.questions[number].later = {
            audit_everywhere.PAGE: partial(answer, {**page, "node": name}),
            audit_everywhere.VERIFY: partial(answer, {**verified, "node": name}),
        }
    (shown,) = cluster.pages(10)
    assert ([one["node"] for one in shown.items], [one.node for one in shown.kept]) == (["n1", "n2", "n3"], ["n1"])
    found = outcome(start(cluster.logs[0].verify("aa")))
    assert (found.whole, [len(one.kept) for one in found.items], found.missing) == (True, [1, 0, 0], ())


async def answer(said: object, _: bytes) -> bytes:
    return json.dumps(said).encode()


def test_ctl_shows_all_nodes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says on standard error whose records are missing, with exit code 1 where that is a verdict."""
    for number in (1, 2, 3):
        cluster.change(number, f"of-{number}")
    ctl = Ctl(monkeypatch)
    browser = make_browser(FakeView(), token=None, further=(AuditResources(cluster.logs[0]),))
    ctl.node = Node("http://node:18083", TOKEN, MemoryOpener(browser))
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
    assert browser.request("GET", "/api/v1/audit?after=n1", headers={"Authorization": f"Bearer {TOKEN}"}).status == 400


@pytest.mark.parametrize("depth", [65, 300, 600, 960, 3000])
def test_a_body_that_is_too_deep_is_named_by_its_size(depth: int) -> None:
    """A change is written down whatever was sent with it."""
    body = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
    assert shown(read_body(body), {}) == f"{len(body)} bytes: the body is nested more than 64 levels deep"
