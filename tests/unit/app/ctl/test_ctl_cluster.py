"""``ctl cluster`` and ``ctl node``: who is there, what is degraded, and clients on their way."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from iot_mqtt.admin.identity_sum import as_one
from iot_mqtt.app.ctl.cluster import identity_form
from iot_mqtt.broker.facade import MemberInfo
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from tests.unit.admin.adminkit import CLUSTER, DRAIN, MEMBER, PEER
from tests.unit.app.ctl.ctlkit import Ctl


def test_status_is_a_form_a_table_and_what_is_wrong(ctl: Ctl) -> None:
    """In this order: what matters most stands last, where the prompt is."""
    lines = ctl.lines("cluster", "status")
    form, table, degraded = "\n".join(lines).split("\n\n")
    pairs = dict(line.split("  ", 1) for line in form.splitlines())
    assert {name: text.strip() for name, text in pairs.items()} == {
        "state": "DEGRADED, see below",
        "grid": "takes writes",
        "room": "164.0 MB of 200.0 MB (82 %); ALARM",
        "grid servers": "3",
        "copies": "complete",
        "node": "n1 (number 1, boot 4)",
        "registry": "connected",
        "members": "2 of 2, with 60 clients",
        "routes": "11 filters are wanted here; not everybody acts on all of them yet",
        "forwarded": "13 messages, 14 from other nodes",
        "not forwarded": "peer_down 15",
        "claims": "moved 6, new 5; refused: home_busy 1",
        "released": "2 clients to other nodes, 0 not at once",
        "adopted": "9 sessions of 1 dead nodes",
    }
    heading, *rows = table.splitlines()
    assert " ".join(heading.split()) == "NODE NO STATE CLIENTS LOAD LAG ROUTES AGREES REPAIRS GAPS VERSION BOOT"
    assert rows[0].split() == ["n1", "1", "self", "40", "-", "-", "0", "-", "0", "0", "1.2", "4"]
    assert " ".join(rows[1].split()) == "n2 2 up 20 0.25 4.1 kB 7 3 behind 37 1 1.2 5"
    assert degraded == "! n2 (number 2) does not act on 3 changes of what clients here want"


@pytest.mark.parametrize(("on_links", "shown"), [(0, "0"), (-20, "-20, estimated"), (3, "3, estimated")])
def test_what_is_on_links_is_no_fact_where_it_cannot_be_one(on_links: int, shown: str) -> None:
    """A link that broke, or a life that ended, leaves a difference for good."""
    found = as_one([], {}) | {"on_links": on_links}
    pairs = dict(identity_form(found))
    assert (pairs["on links"], pairs["moving"]) == (shown, "0")


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (replace(PEER, routes_behind=0, draining=True), "up, draining 20 0.25 4.1 kB 7 yes"),
        (replace(PEER, routes_agree=False, state="silent"), "silent 20 0.25 4.1 kB 7 no"),
    ],
)
def test_a_member_is_a_row(ctl: Ctl, peer: MemberInfo, expected: str) -> None:
    """With its state in words."""
    ctl.view.cluster.facts = replace(CLUSTER, members=[MEMBER, peer], degraded=[])
    lines = ctl.lines("cluster", "status")
    assert " ".join(lines[-1].split()).startswith(f"n2 2 {expected}")
    assert lines[0].split(None, 1) == ["state", "all is well"]


def test_a_node_with_an_alarm_is_named(ctl: Ctl) -> None:
    """Its cluster is in order, and all is not well. What was, or is told already, is not told again."""
    ctl.view.cluster.facts = replace(CLUSTER, degraded=[])
    ctl.alarms.look([Alarm(AlarmKind.BUSY, "the node is busy")], 1.0)
    now = [Alarm(AlarmKind.ROOM, "disk full"), Alarm(AlarmKind.NODE_GONE, "n3 is gone")]
    ctl.alarms.look(now, 2.0)
    lines = ctl.lines("cluster", "status")
    assert lines[0].split(None, 1) == ["state", "ALARM, see below"]
    assert sorted(lines[-2:]) == ["! n1: disk full", "! n1: n3 is gone"]
    ctl.view.cluster.facts = replace(CLUSTER, degraded=["n3 is gone"])
    lines = ctl.lines("cluster", "status")
    assert lines[0].split(None, 1) == ["state", "DEGRADED, see below"]
    assert lines[-2:] == ["! n3 is gone", "! n1: disk full"]


def test_who_is_lacking_is_a_row_and_is_counted(ctl: Ctl) -> None:
    """By the name that `cluster remove` wants, and since when."""
    gone = replace(PEER, node_id="n3", number=3, state="gone", left_at=0.0)
    ctl.view.cluster.facts = replace(CLUSTER, members=[MEMBER, PEER, gone])
    lines = ctl.lines("cluster", "status")
    assert any(line.split(None, 1) == ["members", "2 of 3, with 60 clients"] for line in lines)
    assert any(" ".join(line.split()).startswith("n3 3 gone since 1970-01-01 00:00:00Z") for line in lines)


def test_troubles_are_told_where_they_belong(ctl: Ctl) -> None:
    """The registry and the grid say what is wrong themselves."""
    ctl.view.cluster.facts = replace(
        CLUSTER, registry="suspended", registry_trouble="no server answers", grid_trouble="no gateway"
    )
    lines = ctl.lines("cluster", "status")
    assert any(line.split(None, 1) == ["registry", "suspended: no server answers"] for line in lines)
    assert any(line.split(None, 1) == ["grid", "no gateway"] for line in lines)


@pytest.mark.parametrize(
    ("missing", "said"),
    [(0, "complete"), (37, "37 partitions lack one: take no grid server away"), (None, "not known now")],
)
def test_whether_a_grid_server_may_be_taken_away_is_said(ctl: Ctl, missing: int | None, said: str) -> None:
    """It may when every entry has its copies."""
    ctl.view.cluster.facts = replace(CLUSTER, copies_missing=missing)
    assert any(line.split(None, 1) == ["copies", said] for line in ctl.lines("cluster", "status"))


def test_a_sole_node_says_so(ctl: Ctl) -> None:
    """There is nothing to say of a registry."""
    alone = replace(MEMBER, number=0, boot=0)
    ctl.view.cluster.facts = replace(CLUSTER, clustered=False, registry="none", members=[alone], degraded=[])
    lines = ctl.lines("cluster", "status")
    assert any(line.split(None, 1) == ["node", "n1, not clustered"] for line in lines)
    assert not any(line.startswith("registry") for line in lines)


def test_status_as_json_is_the_answer_itself(ctl: Ctl) -> None:
    """Every figure."""
    found = json.loads(ctl.run("cluster", "status", "--json").stdout)
    assert found["members"][1]["items_missed"] == 39


def test_a_node_that_is_gone_is_removed(ctl: Ctl) -> None:
    """And one that is there is not, in the node's words."""
    assert json.loads(ctl.run("cluster", "remove", "gone", "--json").stdout) == {"removed": "gone"}
    assert ctl.view.cluster.orders == ["remove gone"]
    refused = ctl.run("cluster", "remove", "alive")
    assert refused.exit_code == 1
    assert "drain it and stop it first" in refused.stderr


def test_rebalance_is_a_table_of_what_each_does(ctl: Ctl) -> None:
    """And why one does nothing."""
    lines = ctl.lines("cluster", "rebalance", "--rate", "50")
    assert [line.split(None, 5) for line in lines] == [
        ["NODE", "NO", "CLIENTS", "MEAN", "LEAVE", "NOTE"],
        ["n1", "1", "40", "30", "10", "-"],
        ["n2", "2", "20", "30", "0", "-"],
        ["n3", "3", "0", "0", "0", "node 3 gave no answer in time"],
    ]
    assert ctl.view.cluster.orders == [(50, False)]


def test_rebalance_waits_for_who_is_to_leave(ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking the nodes that send clients away, and those alone; a dry run has nobody to wait for."""
    looks = [replace(DRAIN, state="rebalancing", remaining=left) for left in (10, 4)] + [DRAIN]
    left = iter(looks)
    monkeypatch.setattr(ctl.view.cluster, "progress", lambda: next(left))
    assert len(ctl.lines("cluster", "rebalance", "--wait")) == 4
    assert list(left) == []
    assert len(ctl.lines("cluster", "rebalance", "--wait", "--dry-run")) == 4


def test_a_dry_run_only_asks(ctl: Ctl) -> None:
    """The order says so."""
    assert json.loads(ctl.run("cluster", "rebalance", "--dry-run", "--json").stdout)[0]["surplus"] == 10
    assert ctl.view.cluster.orders == [(None, True)]


def test_drain_says_where_it_stands_and_leaves(ctl: Ctl) -> None:
    """Without ``--wait`` it is one line."""
    assert ctl.lines("node", "drain", "--rate", "20") == [
        "draining: 0 clients were sent away, 40 are here; 0 newcomers were refused; 20 a second, 2 s to go"
    ]
    assert ctl.view.cluster.orders == [(20, False)]


def test_drain_waits_and_shows_progress(ctl: Ctl) -> None:
    """A line for each look, until nobody is left."""
    lines = ctl.lines("node", "drain", "--rate", "10", "--wait", "--moved")
    assert [line.split(";")[0] for line in lines] == [
        "draining: 0 clients were sent away, 40 are here",
        "draining: 0 clients were sent away, 40 are here",
        "draining: 10 clients were sent away, 30 are here",
        "draining: 20 clients were sent away, 20 are here",
        "draining: 30 clients were sent away, 10 are here",
        "drained: 40 clients were sent away, 0 are here",
    ]
    assert ctl.view.cluster.orders == [(10, True)]


def test_drain_as_json_is_one_value(ctl: Ctl) -> None:
    """With ``--wait`` the last."""
    found = json.loads(ctl.run("node", "drain", "--wait", "--json").stdout)
    assert (found["state"], found["sent_away"]) == ("drained", 40)


def test_progress_can_be_looked_at_by_itself(ctl: Ctl) -> None:
    """It orders nothing."""
    assert ctl.lines("node", "progress") == ["serving: 0 clients were sent away, 40 are here"]
    ctl.view.cluster.drained = replace(
        ctl.view.cluster.drained, state="rebalancing", remaining=7, leaving=1, estimate=0.08
    )
    assert ctl.lines("node", "progress") == [
        "rebalancing: 0 clients were sent away, 40 are here, of them 8 are to leave; 100 a second, 1 s to go"
    ]
    assert ctl.view.cluster.orders == []


def test_clients_that_wait_for_the_grid_are_named(ctl: Ctl) -> None:
    """Why it does not get on."""
    ctl.view.cluster.drained = replace(ctl.view.cluster.drained, state="drained", leaving=3)
    assert "of them 3 wait for a commit" in ctl.lines("node", "progress")[0]


def test_resume(ctl: Ctl) -> None:
    """Done, and nothing more to say."""
    assert ctl.lines("node", "resume") == ["resumed yes"]
    assert ctl.view.cluster.orders == ["resume"]


@pytest.mark.parametrize(
    ("members", "warned"),
    [
        ([MEMBER, PEER], False),
        ([MEMBER], True),
        ([MEMBER, replace(PEER, draining=True)], True),
        ([MEMBER, replace(PEER, state="left")], True),
        ([MEMBER, replace(PEER, state="gone")], True),
    ],
)
def test_who_drains_the_last_node_is_warned(ctl: Ctl, members: list[MemberInfo], warned: bool) -> None:
    """It is done all the same: a whole cluster may be stopped."""
    ctl.view.cluster.facts = replace(CLUSTER, members=members)
    result = ctl.run("node", "drain")
    assert result.exit_code == 0
    assert ("nowhere to go" in result.stderr) is warned


@pytest.mark.parametrize("rate", ["0", "-5", "100001", "many"])
def test_a_rate_that_makes_no_sense_is_refused(ctl: Ctl, rate: str) -> None:
    """Before anything is asked of the node."""
    assert ctl.run("node", "drain", "--rate", rate).exit_code == 2
    assert ctl.view.cluster.orders == []
