"""Who gets what: filters, groups, subscriptions for a client; retained messages and publications in bulk; nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iot_mqtt.broker.facade import ClientsWanted, SessionsWanted
from iot_mqtt.values import Message
from tests.unit.admin.adminkit import CLUSTER, MEMBER, Browser, FakeView


def test_a_subscription_is_made_and_given_up_for_a_client(view: FakeView, browser: Browser) -> None:
    """404 says what there is not: the session, or the subscription."""
    view.keep_session("c")
    made = browser.post("/api/v1/sessions/c/subscriptions", {"filter": "a/+", "qos": 1, "retain_handling": 2})
    assert (made.status, made.json["client_id"], made.json["filter"], made.json["qos"]) == (200, "c", "a/+", 1)
    assert view.filters[0].subscription.retain_handling == 2
    assert browser.delete("/api/v1/sessions/c/subscriptions/a%2F%2B").status == 204
    again = browser.delete("/api/v1/sessions/c/subscriptions/a%2F%2B")
    assert (again.status, again.json["error"]) == (404, "no_subscription")
    assert browser.delete("/api/v1/sessions/d/subscriptions/a").json["error"] == "not_found"
    assert browser.post("/api/v1/sessions/d/subscriptions", {"filter": "a"}).status == 404


@pytest.mark.parametrize("body", [{}, {"filter": "a", "qos": 3}, {"filter": "a", "more": 1}, {"filter": 1}, b"["])
def test_a_wrong_subscription_is_400(view: FakeView, browser: Browser, body: object) -> None:
    """Nothing half-understood reaches the broker."""
    view.keep_session("c")
    assert browser.post("/api/v1/sessions/c/subscriptions", body).status == 400
    assert view.filters == []


def test_filters_and_groups_are_listed(view: FakeView, browser: Browser) -> None:
    """By filter; filters also by a topic that they match."""
    for filter in ("a/+", "b", "$share/g/a/#"):
        view.subscribe("c", filter)
    assert [one["filter"] for one in browser.get("/api/v1/routes").json["items"]] == ["$share/g/a/#", "a/+", "b"]
    assert [one["filter"] for one in browser.get("/api/v1/routes?topic=a/1").json["items"]] == ["a/+"]
    assert [one["filter"] for one in browser.get("/api/v1/subscriptions?topic=a/1").json["items"]] == ["a/+"]
    assert browser.get("/api/v1/routes?topic=a/%2B").status == 400
    (group,) = browser.get("/api/v1/shared-groups").json["items"]
    assert (group["group"], group["topics"], group["node"]) == ("g", "a/#", "n1")


def test_clients_are_narrowed(view: FakeView, browser: Browser) -> None:
    """What is asked for reaches the broker."""
    browser.get("/api/v1/clients?prefix=p&user=u&address=10.0.0.0/8&listener=l&contains=c")
    assert view.wanted == ClientsWanted("p", "u", "10.0.0.0/8", "l", "c")


def test_sessions_are_narrowed(view: FakeView, browser: Browser) -> None:
    """What cannot be asked for is 400."""
    browser.get("/api/v1/sessions?prefix=p&user=u&connected=false&state=offline")
    assert view.wanted == SessionsWanted("p", "u", False, "offline")
    assert browser.get("/api/v1/sessions?state=lazy").status == 400
    assert browser.get("/api/v1/sessions?connected=1").status == 400


def test_retained_messages_are_removed_by_filter(view: FakeView, browser: Browser) -> None:
    """So many at a time; without a filter nothing is."""
    for number in range(5):
        view.retain(f"a/{number}")
    assert browser.delete("/api/v1/retained").status == 400
    assert browser.delete("/api/v1/retained?filter=a%2F%23&limit=3").json == {"removed": 3, "more": True}
    assert browser.delete("/api/v1/retained?filter=a%2F%23&limit=3").json == {"removed": 2, "more": False}
    assert browser.delete("/api/v1/retained?filter=a%23").status == 400


def test_many_are_published_at_once(view: FakeView, browser: Browser) -> None:
    """What became of each; one that is wrong is named, and nothing is published."""
    messages = [{"topic": "a", "payload": "1"}, {"topic": "a", "payload": "full"}, {"topic": "b", "qos": 1}]
    items = browser.post("/api/v1/publish/batch", {"messages": messages}).json["items"]
    assert [(one["matched"], one["elsewhere"]) for one in items] == [(3, False), (None, None), (3, False)]
    assert items[1]["error"] == "quota_exceeded"
    assert [one.topic for one in view.done if isinstance(one, Message)] == [b"a", b"a", b"b"]
    view.done.clear()
    for wrong in ({"topic": "+"}, {"topic": "a", "qos": 3}, {}, 3):
        answer = browser.post("/api/v1/publish/batch", {"messages": [messages[0], wrong]})
        assert (answer.status, "messages[1]" in answer.json["detail"]) == (400, True)
    for number in (0, 1001):
        assert browser.post("/api/v1/publish/batch", {"messages": messages[:1] * number}).status == 400
    assert view.done == []


def test_a_node_that_is_away_is_not_unknown(view: FakeView, browser: Browser) -> None:
    """It has a name, which `cluster remove` wants."""
    away = replace(MEMBER, node_id="n7", number=7, state="gone")
    view.cluster.facts = replace(CLUSTER, members=[MEMBER, away])
    answer = browser.get("/api/v1/nodes/n7")
    assert (answer.status, answer.json["detail"]) == (503, "n7 does not answer: it is gone")


def test_nodes_are_shown_and_drained(view: FakeView, browser: Browser) -> None:
    """By name."""
    (node,) = browser.get("/api/v1/nodes").json["items"]
    assert (node["node"], node["node_id"], node["drain"]["state"]) == ("n1", "n1", "serving")
    assert browser.get("/api/v1/nodes/n1").json == node
    assert browser.get("/api/v1/nodes/n9").status == 404
    assert browser.post("/api/v1/nodes/n1/drain", {"rate": 10}).json["state"] == "draining"
    assert browser.post("/api/v1/nodes/n1/drain", {"rate": 0}).status == 400
    assert browser.delete("/api/v1/nodes/n1/drain").status == 204
    assert browser.delete("/api/v1/nodes/n9/drain").status == 404
    assert view.cluster.orders == [(10, False), "resume"]
