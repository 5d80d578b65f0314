"""``/api/v1/cluster`` and ``/api/v1/node/drain``."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from tests.unit.admin.adminkit import CLUSTER, PEER, Browser, FakeView, make_browser


def test_the_cluster_in_one_look(browser: Browser) -> None:
    """Every figure, member by member, and what is degraded in words."""
    found = browser.get("/api/v1/cluster").json
    assert found == {**asdict(CLUSTER), "node": "n1"}
    assert found["members"][1] == asdict(PEER)


def test_the_answers_are_as_they_are_described(browser: Browser) -> None:
    """The schema names every field that is there."""
    schemas = browser.get("/api/v1/openapi.json").json["components"]["schemas"]
    assert set(schemas["Cluster"]["properties"]) == set(browser.get("/api/v1/cluster").json) - {"node"}
    members = schemas["Cluster"]["properties"]["members"]["items"]["properties"]
    assert set(members) == set(asdict(PEER))
    assert set(schemas["Drain"]["properties"]) == set(browser.get("/api/v1/node/drain").json) - {"node"}


@pytest.mark.parametrize(
    ("body", "order"),
    [
        ({}, (None, False)),
        ({"rate": 50}, (50, False)),
        ({"rate": 50, "moved": True}, (50, True)),
        ({"rate": None, "moved": None}, (None, False)),
    ],
)
def test_draining_begins_with_an_order(view: FakeView, browser: Browser, body: object, order: object) -> None:
    """And is answered with how far it is."""
    answer = browser.post("/api/v1/node/drain", body)
    assert (answer.status, answer.json["state"], answer.json["remaining"]) == (200, "draining", 40)
    assert view.cluster.orders == [order]


@pytest.mark.parametrize(
    "body",
    [
        {"rate": 0},
        {"rate": -1},
        {"rate": 100_001},
        {"rate": "10"},
        {"rate": 1.5},
        {"rate": True},
        {"moved": 1},
        {"reason": "x"},
        [],
        b"",
    ],
)
@pytest.mark.parametrize("path", ["node/drain", "cluster/rebalance"])
def test_a_wrong_order_is_refused(view: FakeView, browser: Browser, body: object, path: str) -> None:
    """Nothing happens."""
    assert browser.post(f"/api/v1/{path}", body).status == 400
    assert view.cluster.orders == []


def test_progress_is_asked_for_again_and_again(browser: Browser) -> None:
    """Until nobody is left."""
    browser.post("/api/v1/node/drain", {"rate": 10})
    seen = [browser.get("/api/v1/node/drain").json for _ in range(5)]
    assert [one["clients"] for one in seen] == [40, 30, 20, 10, 0]
    assert seen[-1]["state"] == "drained"


def test_resume_ends_it(view: FakeView, browser: Browser) -> None:
    """Nothing is answered but that it is done."""
    browser.post("/api/v1/node/drain", {})
    assert browser.delete("/api/v1/node/drain").status == 204
    assert view.cluster.orders[-1] == "resume"


def test_a_node_that_is_drained_is_not_ready(browser: Browser) -> None:
    """Whatever spreads clients over nodes looks there; ``/health`` stays, for the node is well."""
    assert browser.get("/ready").json == {"ready": True}
    browser.post("/api/v1/node/drain", {})
    answer = browser.get("/ready")
    assert (answer.status, answer.json) == (503, {"ready": False, "draining": True})
    assert browser.get("/health").status == 200
    browser.delete("/api/v1/node/drain")
    assert browser.get("/ready").status == 200


@pytest.mark.parametrize(
    ("body", "order"),
    [({}, (None, False)), ({"rate": 5, "dry_run": True}, (5, True)), ({"dry_run": True}, (None, True))],
)
def test_rebalancing_says_what_every_node_does(view: FakeView, browser: Browser, body: object, order: object) -> None:
    """Or why it does nothing."""
    items = browser.post("/api/v1/cluster/rebalance", body).json["items"]
    assert [(one["number"], one["surplus"], one["note"]) for one in items] == [
        (1, 10, None),
        (2, 0, None),
        (3, 0, "node 3 gave no answer in time"),
    ]
    assert view.cluster.orders == [order]


@pytest.mark.parametrize(("name", "status"), [("gone", 204), ("never", 404), ("alive", 409)])
def test_a_node_is_removed_that_is_gone(browser: Browser, name: str, status: int) -> None:
    """And none else."""
    answer = browser.delete(f"/api/v1/cluster/nodes/{name}")
    assert answer.status == status
    if status == 409:
        assert answer.json["detail"] == "alive is there: drain it and stop it first"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "cluster"),
        ("POST", "cluster/rebalance"),
        ("GET", "node/drain"),
        ("POST", "node/drain"),
        ("DELETE", "node/drain"),
    ],
)
def test_only_holders_of_the_token_may(view: FakeView, method: str, path: str) -> None:
    """Looking as well."""
    assert make_browser(view, token=None).request(method, f"/api/v1/{path}", b"{}").status == 401
    assert view.cluster.orders == []
