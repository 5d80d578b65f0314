"""Three nodes, asked at one: lists merged, what only one of them has found, and who does not answer named."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.admin import between, everywhere
from iot_mqtt.admin.call import Call, whole
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.connections import Doorkeeper
from iot_mqtt.admin.everywhere import Everywhere
from iot_mqtt.admin.routes import Resource, combined, get, listing, post
from iot_mqtt.admin.settings import AdminSettings
from iot_mqtt.broker.facade import AttemptInfo, MemberInfo
from iot_mqtt.errors import Unavailable
from tests.unit.admin.adminkit import FakeView, make_browser, parse
from tests.unit.admin.deskkit import TRIAL, FakeDesk
from tests.unit.app.ctl.ctlkit import Ctl

NAMES = ("n1", "n2", "n3")


class Questions:
    """One node's way to ask the others."""

    def __init__(self, of_all: Mapping[int, Questions], number: int) -> None:
        self._of_all = of_all
        self._number = number
        self.later: dict[str, Callable[[bytes], Awaitable[bytes]]] = {}
        #: What is answered in place of the truth.
        self.instead: dict[int, bytes | str] = {}
        #: Set: nobody answers before it fires.
        self.gate: Deferred[None] | None = None
        self.asked: list[int] = []
        #: Seconds that were given.
        self.within: list[float] = []

    async def ask_all(
        self, name: str, body: bytes, within: float, only: Collection[int] | None = None
    ) -> Mapping[int, bytes | str]:
        self.within.append(within)
        if self.gate is not None:
            await self.gate
        found: dict[int, bytes | str] = {}
        for number, one in self._of_all.items():
            if number != self._number and (only is None or number in only):
                self.asked.append(number)
                found[number] = self.instead.get(number) or await self._answer(one, name, body)
        return found

    async def _answer(self, one: Questions, name: str, body: bytes) -> bytes | str:
        try:
            return await one.later[name](body)
        except Exception as error:
            return f"it failed there: {error}"


class Own(Resource):
    """Something that each node has of its own."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.calls: list[Call] = []

    @get("own", "Of each.", "Own", spread="each")
    def _each(self, call: Call) -> object:
        return {"is": self.node}

    @get("own/list", "A list without pages.", "Own", paged=True, spread="merge", by=("name",))
    def _list(self, call: Call) -> object:
        return whole([{"name": name} for name in ("b", "a")])

    @listing("own/pages", "A list of one node.", "Own", spread="one")
    def _pages(self, call: Call) -> object:
        names = [f"{self.node}-{number}" for number in range(3)]
        return call.page([one for one in names if one > (call.after or "")], str, lambda one: {"name": one})

    @listing("own/shared", "What all see.", "Own", spread="merge", by=("-at", "id"), once=True)
    def _shared(self, call: Call) -> object:
        items = [{"at": number // 2, "id": number % 2} for number in range(9, -1, -1)]
        items = sorted(items, key=lambda one: (-one["at"], one["id"]))
        cursors = [f"{one['at']}/{one['id']}" for one in items]
        begin = 0 if call.after is None else cursors.index(call.after) + 1
        return call.page(items[begin:], lambda one: f"{one['at']}/{one['id']}")

    @combined("own/level", "One of all.", "Own", lambda all_of_them, _: {"of": all_of_them}, query=("after",))
    def _level(self, call: Call) -> object:
        return {"after": call.after}

    @post("own/{name}", "Change it.", "Own", role=Role.ADMIN, spread="one")
    async def _change(self, call: Call) -> object:
        self.calls.append(call)
        return call.json().take("said", str) and {"said": self.node}


class Cluster:
    """Three nodes, numbered from 1, each with clients of its own."""

    def __init__(self) -> None:
        self.members = [
            MemberInfo(number, name, 1, "1.2", "up", draining=False, clients=0) for number, name in enumerate(NAMES, 1)
        ]
        self.questions: dict[int, Questions] = {}
        self.questions |= {number: Questions(self.questions, number) for number in (1, 2, 3)}
        self.views = {name: FakeView() for name in NAMES}
        self.own = {name: Own(name) for name in NAMES}
        self.desks = {name: FakeDesk() for name in NAMES}
        self.browsers = {
            name: make_browser(
                self.views[name],
                further=(self.own[name],),
                uplink=self.desks[name],
                doorkeeper=Doorkeeper(AdminSettings(max_connections=1000, max_connections_per_address=1000)),
                everywhere=Everywhere(name, lambda name=name: self.seen_from(name), self.questions[number]),  # type: ignore[misc]
            )
            for number, name in enumerate(NAMES, 1)
        }

    def seen_from(self, name: str) -> list[MemberInfo]:
        return [replace(one, state="self") if one.node_id == name else one for one in self.members]

    def get(self, path: str, node: str = "n1") -> Any:
        answer = self.browsers[node].get(f"/api/v1/{path}")
        assert answer.status == 200, answer.body
        return answer.json

    def pages(self, path: str, limit: int) -> list[Any]:
        found = [self.get(f"{path}?limit={limit}")]
        while found[-1]["after"] is not None:
            found.append(self.get(f"{path}?limit={limit}&after={_quoted(found[-1])}"))
        return found


def _quoted(page: Any) -> str:
    return quote(page["after"], safe="")


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("room", [1, 10**6])
def test_clients_of_all_nodes_are_one_list(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, limit: int, room: int
) -> None:
    """In their order, each once, whatever a page holds and whatever an answer does."""
    monkeypatch.setattr(between, "PAGE_BYTES", room)
    names = [f"c/{number:02}&=é" for number in range(14)]
    for number, name in enumerate(names):
        cluster.views[NAMES[number * number % 3]].connect(name)
    pages = cluster.pages("clients", limit)
    shown = [(one["client_id"], one["node"]) for page in pages for one in page["items"]]
    assert shown == [(name, NAMES[number * number % 3]) for number, name in enumerate(names)]
    assert all(len(page["items"]) <= limit and page["missing"] == [] for page in pages)


@pytest.mark.parametrize("limit", [1, 2, 4, 5, 100])
def test_items_of_the_same_key_are_all_shown(cluster: Cluster, limit: int) -> None:
    """Three nodes with generations of the same numbers, in pages that end between them."""
    shown = [
        (one["generation"], one["node"]) for page in cluster.pages("log/generations", limit) for one in page["items"]
    ]
    assert shown == [(generation, name) for generation in (1, 2, 3) for name in NAMES]
    streams = [one for page in cluster.pages("log/streams", limit) for one in page["items"]]
    places = [(one["generation"], one["stream"], one["node"]) for one in streams]
    assert places == [(generation, stream, name) for generation in (1, 2, 3) for stream in range(4) for name in NAMES]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_messages_of_all_logs_are_one_list(cluster: Cluster, limit: int) -> None:
    """By the time at which they came, each once."""
    found = [item for page in cluster.pages("log/messages", limit) for item in page["items"]]
    assert sorted((one["position"], one["node"]) for one in found) == [(at, name) for at in range(10) for name in NAMES]
    assert [one["came_at"] for one in found] == sorted(one["came_at"] for one in found)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_what_several_nodes_see_is_shown_once(cluster: Cluster, limit: int) -> None:
    """Whatever a page holds, and with the name of the first node."""
    found = [item for page in cluster.pages("own/shared", limit) for item in page["items"]]
    assert [(one["at"], one["id"]) for one in found] == [(at, id) for at in (4, 3, 2, 1, 0) for id in (0, 1)]
    assert {one["node"] for one in found} == {"n1"}


def test_a_dry_run_is_that_of_all_nodes(cluster: Cluster) -> None:
    """Sums, and the same rule once; of one node if it is named; refused where all refuse it."""
    found = cluster.browsers["n1"].post("/api/v1/uplink/test", b"{}").json
    (rule,) = found["rules"]
    assert (found["messages"], found["changed"], found["unmatched"]) == (27, 15, 12)
    assert (rule["matched"], rule["to"], len(rule["examples"])) == (24, {"hot": 6, "cold": 9}, 3)
    assert [one["messages"] for one in found["differences"]] == [15]
    assert (found["first_at"], found["last_at"], found["notes"]) == (0.0, 60.0, ["so"])
    assert cluster.browsers["n1"].post("/api/v1/uplink/test?node=n3", b"{}").json["messages"] == TRIAL.messages
    cluster.desks["n2"].refusal = "another dry run is under way"
    found = cluster.browsers["n1"].post("/api/v1/uplink/test", b"{}").json
    assert (found["messages"], found["missing"]) == (18, [{"node": "n2", "reason": "another dry run is under way"}])
    for desk in cluster.desks.values():
        desk.refusal = "entry 1: needs a filter"
    answer = cluster.browsers["n1"].post("/api/v1/uplink/test", b"{}")
    assert (answer.status, answer.json["detail"]) == (409, "entry 1: needs a filter")


def test_a_session_that_moves_between_two_pages_is_shown_once(cluster: Cluster) -> None:
    """The cursor is a key, and no number of what was shown of a node."""
    for name in "abcdef":
        cluster.views["n1"].keep_session(name)
    first = cluster.get("sessions?limit=3")
    cluster.views["n2"].by_session = dict(cluster.views["n1"].by_session)
    cluster.views["n1"].by_session = {}
    rest = cluster.get(f"sessions?after={_quoted(first)}")
    assert [one["client_id"] for one in first["items"] + rest["items"]] == list("abcdef")


def test_lists_without_pages_are_put_together(cluster: Cluster) -> None:
    """Sorted by what they say; attempts by time, the newest first."""
    items = cluster.get("own/list")["items"]
    assert [(one["name"], one["node"]) for one in items] == [(name, node) for name in "ab" for node in NAMES]
    for at, name in enumerate(NAMES):
        attempt = AttemptInfo("c", "refused", float(at), "banned", "it is banned", None, "", "mqtt")
        cluster.views[name].remembered["c"] = [attempt]
    assert [one["node"] for one in cluster.get("clients/c/attempts")["items"]] == ["n3", "n2", "n1"]


def test_one_node_s_can_be_asked_for(cluster: Cluster) -> None:
    """Nobody else is asked; a name that nobody has is an error."""
    for name in NAMES:
        cluster.views[name].connect(f"of-{name}")
    for name in NAMES:
        assert [one["client_id"] for one in cluster.get(f"clients?node={name}")["items"]] == [f"of-{name}"]
    assert cluster.questions[1].asked == [2, 3]
    assert cluster.get("status?node=n2")["node"] == "n2"
    assert cluster.get("status")["node"] == "n1"
    assert [one["node"] for one in cluster.get("status?node=*")["items"]] == list(NAMES)
    refused = cluster.browsers["n1"].get("/api/v1/clients?node=n9")
    assert (refused.status, "n9" in refused.json["detail"]) == (404, True)
    assert cluster.browsers["n1"].get("/api/v1/clients?node=*").status == 400
    assert cluster.browsers["n1"].get("/api/v1/clients/of-n2?node=n3").status == 404
    assert cluster.get("clients/of-n2?node=n2")["node"] == "n2"


def test_the_uplinks_of_all_nodes_are_beside_each_other(cluster: Cluster) -> None:
    """With what each had rejected; a node without one is missing, and says so."""
    cluster.views["n2"].uplink_info = None
    found = cluster.get("uplink?node=*")
    assert [(one["node"], one["rejected"][0]["reason"]) for one in found["items"]] == [
        ("n1", "too large"),
        ("n3", "too large"),
    ]
    assert [(one["node"], "uplink.kind" in one["reason"]) for one in found["missing"]] == [("n2", True)]


@pytest.mark.parametrize("asked", NAMES)
def test_what_one_node_has_is_found(cluster: Cluster, asked: str) -> None:
    """And acted on there."""
    cluster.views["n2"].connect("c")
    assert cluster.get("clients/c", asked)["node"] == "n2"
    assert cluster.browsers[asked].delete("/api/v1/clients/c").status == 204
    assert cluster.views["n2"].by_client == {}
    assert cluster.browsers[asked].delete("/api/v1/clients/c").status == 404


def test_nothing_is_missing_before_everybody_has_said_so(cluster: Cluster) -> None:
    """404 would be a guess while a node does not answer."""
    cluster.questions[1].instead[3] = "node 3 gave no answer in time"
    answer = cluster.browsers["n1"].get("/api/v1/clients/c")
    assert answer.status == 503
    assert "n3: node 3 gave no answer in time" in answer.json["detail"]
    cluster.views["n2"].connect("c")
    assert cluster.get("clients/c")["node"] == "n2"


def test_who_does_not_answer_is_named(cluster: Cluster) -> None:
    """With the reason, beside what the others have."""
    for name in NAMES:
        cluster.views[name].connect(f"of-{name}")
    cluster.questions[1].instead = {2: b'{"items": 3}', 3: "node 3 gave no answer in time"}
    cluster.members.append(MemberInfo(7, "n7", 1, "1.2", "dead", draining=False, clients=0))
    expected = [
        {"node": "n2", "reason": "its answer cannot be understood"},
        {"node": "n3", "reason": "node 3 gave no answer in time"},
        {"node": "n7", "reason": "it is dead"},
    ]
    page = cluster.get("clients")
    assert ([one["node"] for one in page["items"]], page["missing"]) == (["n1"], expected)
    assert cluster.get("own")["missing"] == expected
    assert cluster.browsers["n1"].get("/api/v1/status?node=n3").status == 503


@pytest.mark.parametrize("state", ["gone", "stopped", "left"])
def test_who_is_away_is_missed_by_nobody_but_whoever_wants_that_node(cluster: Cluster, state: str) -> None:
    """Others have its sessions, so that lists are whole; and it is called that, so that it is not unknown."""
    cluster.members.append(MemberInfo(7, "n7", 1, "1.2", state, draining=False, clients=0))
    assert cluster.get("clients")["missing"] == []
    assert cluster.browsers["n1"].get("/api/v1/clients/nobody").status == 404
    answer = cluster.browsers["n1"].get("/api/v1/status?node=n7")
    assert (answer.status, answer.json["missing"]) == (503, [{"node": "n7", "reason": f"it is {state}"}])
    assert cluster.browsers["n1"].get("/api/v1/status?node=n8").status == 404


def test_each_node_s_answer_stands_by_itself(cluster: Cluster) -> None:
    """Under its name."""
    assert cluster.get("own") == {"items": [{"is": name, "node": name} for name in NAMES], "missing": []}
    assert cluster.get("own?node=n3") == {"items": [{"is": "n3", "node": "n3"}], "missing": []}


def test_a_list_of_one_node_is_a_page_of_its_own(cluster: Cluster) -> None:
    """Of the one that is asked, of another, or of all."""
    for asked, names in (("", ["n1"]), ("?node=n3", ["n3"]), ("?node=*", list(NAMES))):
        page = cluster.get(f"own/pages{asked}")
        assert [(one["name"], one["node"]) for one in page["items"]] == [
            (f"{name}-{number}", name) for name in names for number in range(3)
        ]
        assert (page["after"], page["missing"]) == (None, [])
    assert [len(page["items"]) for page in cluster.pages("own/pages", 2)] == [2, 1]
    assert cluster.browsers["n1"].delete("/api/v1/own/pages").headers["allow"] == "GET"


def test_a_cursor_of_what_is_combined_is_read_by_the_nodes(cluster: Cluster) -> None:
    """The last topic of a page, say: it names no places of nodes."""
    assert cluster.get("own/level?after=plant%2Fa")["of"] == [{"after": "plant/a", "node": name} for name in NAMES]


def test_a_refusal_of_another_node_is_the_answer(cluster: Cluster) -> None:
    """With its status and its words; a wrong call asks nobody else."""
    answer = cluster.browsers["n1"].delete("/api/v1/log/generations/3?node=n2")
    assert (answer.status, answer.json["detail"]) == (400, "generation 3 still takes messages")
    cluster.questions[1].asked = []
    assert cluster.browsers["n1"].get("/api/v1/clients?limit=0").status == 400
    assert cluster.browsers["n1"].get("/api/v1/clients?after=c").status == 400
    assert cluster.questions[1].asked == []
    assert cluster.browsers["n1"].get("/api/v1/clients?after=c&node=n2").status == 400


def test_the_whole_call_goes_on(cluster: Cluster) -> None:
    """Its path, body and who calls, with his role; it goes no further."""
    answer = cluster.browsers["n1"].post("/api/v1/own/a%2Fb?node=n2", {"said": "é"})
    assert (answer.status, answer.json) == (200, {"said": "n2", "node": "n2"})
    (call,) = cluster.own["n2"].calls
    assert (call.path, call.query, json.loads(call.body)) == ({"name": "a/b"}, {}, {"said": "é"})
    assert call.caller is not None
    assert (call.caller.name, call.caller.role) == ("admin.token", Role.ADMIN)
    assert cluster.own["n1"].calls == cluster.own["n3"].calls == []
    assert cluster.questions[2].asked == []


def test_a_node_without_the_resource_says_so(cluster: Cluster) -> None:
    """As one of another version would."""
    everywhere_of = Everywhere("n3", tuple, cluster.questions[3])
    everywhere_of.spread(())
    found = cluster.get("own")
    assert found["missing"] == [{"node": "n3", "reason": "it failed there: it has no such resource"}]


def test_calls_under_way_are_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those to others, and those of others."""
    monkeypatch.setattr(everywhere, "MOST", 2)
    gate: Deferred[None] = Deferred()
    cluster.questions[1].gate = gate
    waiting = [cluster.browsers["n1"].send("GET", "/api/v1/clients") for _ in range(2)]
    refused = cluster.browsers["n1"].get("/api/v1/clients")
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    gate.callback(None)
    for one in waiting:
        answer = parse(one.written)
        assert answer is not None
        assert answer.status == 200
    cluster.questions[1].gate = None
    assert cluster.get("clients")["missing"] == []
    monkeypatch.setattr(between, "ANSWER_BYTES", 5)
    assert "more than 5" in cluster.get("own")["missing"][0]["reason"]


def test_a_sole_node_names_itself() -> None:
    """And its cursors are as they are."""
    view = FakeView()
    browser = make_browser(view)
    for name in "abc":
        view.connect(name)
    page = browser.get("/api/v1/clients?limit=2").json
    assert ([one["node"] for one in page["items"]], page["after"], page["missing"]) == (["n1", "n1"], "b", [])
    assert browser.get("/api/v1/clients/a?node=n1").json["node"] == "n1"
    assert browser.get("/api/v1/clients?after=b").json["items"][0]["client_id"] == "c"


def test_a_list_that_nobody_can_make_is_refused_and_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a node by itself, whose tables are being read for others, say."""
    view = FakeView()
    browser = make_browser(view)

    def busy(*_: object, **__: object) -> None:
        raise Unavailable("try again")

    monkeypatch.setattr(view, "clients", busy)
    answer = browser.get("/api/v1/clients?limit=2")
    assert answer.status == 503
    assert "try again" in answer.json["detail"]


def test_ctl_shows_all_nodes_or_one(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--on`` says which; who does not answer is named on standard error."""
    for name in NAMES:
        cluster.views[name].connect(f"of-{name}")
    ctl = Ctl(monkeypatch, cluster.browsers["n1"])
    listed = ctl.run("clients", "list")
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["NODE", *NAMES]
    assert listed.stderr == ""
    cluster.questions[1].instead[3] = "node 3 gave no answer in time"
    assert ctl.run("clients", "list").stderr == "! without n3: node 3 gave no answer in time\n"
    ctl.at(cluster.browsers["n1"], on="n2")
    assert [line.split()[-1] for line in ctl.lines("clients", "list")] == ["NODE", "n2"]
    assert json.loads(ctl.run("status", "--json").stdout)["node"] == "n2"
    assert "unknown parameter 'node'" in ctl.run("retained", "list").stderr
