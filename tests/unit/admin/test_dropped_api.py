"""What did not arrive, as the API answers it: from what the node remembers, of all nodes, with the sums."""

from __future__ import annotations

import pytest

from iot_mqtt.admin.dropped_resources import DroppedResources, all_dropped
from iot_mqtt.admin.turns import AtOnce
from iot_mqtt.broker.sessions.attempts import Attempts
from iot_mqtt.broker.views.dropped_view import DroppedView
from iot_mqtt.ports.counters import Counters, Drop
from tests.unit.admin.adminkit import Browser, FakeView, make_browser


class Node:
    """What remembers, at a time that can be set."""

    def __init__(self) -> None:
        self.now = 100.0
        self.counters = Counters(lambda: self.now)
        self.attempts = Attempts(lambda: self.now)
        self.dropped = DroppedView(self.counters.recent, self.attempts, AtOnce().next).dropped

    def drop(self, at: float, client: str, reason: Drop, topic: str, publisher: str) -> None:
        self.now = at
        self.counters.dropped[reason] += 1
        self.counters.recent.note(client, reason, topic, publisher=publisher)

    def refuse(self, at: float, client: str, kind: str = "refused") -> None:
        fields = (client, kind, at, "not_authorized", "no", None, "10.0.0.7:4711", "mqtt", "eve")
        self.attempts._add(fields, "10.0.0.7")


@pytest.fixture
def node() -> Node:
    made = Node()
    made.drop(1, "Press-7", Drop.QUEUE_FULL, "hall/9/temp", "gateway-1")
    made.refuse(2, "stranger")
    made.drop(3, "press-8", Drop.TOO_LARGE, "hall/8/image", "camera")
    made.now = 4
    made.counters.denied["publish"] += 1
    made.counters.recent.note("camera", "denied_publish", "secret")
    made.now = 5
    made.counters.recent.note("camera", "limited", detail="messages")
    return made


@pytest.fixture
def browser(node: Node) -> Browser:
    return make_browser(FakeView(), further=(DroppedResources(lambda: node),))


def test_the_last_of_all_kinds_comes_first(browser: Browser) -> None:
    """With who sent it, who did not get it, when and why."""
    answer = browser.get("/api/v1/dropped").json
    assert [(one["kind"], one["code"], one["client_id"]) for one in answer["items"]] == [
        ("refused", "limited", "camera"),
        ("denied", "publish", "camera"),
        ("dropped", "too_large", "press-8"),
        ("connect", "not_authorized", "stranger"),
        ("dropped", "queue_full", "Press-7"),
    ]
    assert answer["items"][2] == {
        "kind": "dropped",
        "code": "too_large",
        "client_id": "press-8",
        "publisher": "camera",
        "topic": "hall/8/image",
        "count": 1,
        "first": 3,
        "last": 3,
        "detail": "",
        "user": None,
        "claimed_user": None,
        "peer": "",
        "node": "n1",
    }
    assert (answer["items"][3]["claimed_user"], answer["items"][3]["peer"]) == ("eve", "10.0.0.7:4711")
    assert answer["totals"]["dropped"] == {"queue_full": 1, "too_large": 1}
    assert answer["totals"]["denied"] == {"publish": 1}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("kind=dropped", ["too_large", "queue_full"]),
        ("reason=queue_full", ["queue_full"]),
        ("topic=HALL", ["too_large", "queue_full"]),
        ("client=press-7", ["queue_full"]),
        ("publisher=gate&kind=dropped", ["queue_full"]),
        ("topic=hall&publisher=nobody", []),
        ("limit=2", ["limited", "publish"]),
    ],
)
def test_it_is_narrowed(browser: Browser, query: str, found: list[str]) -> None:
    """By kind and reason as they are, by parts of topics and names whatever their case."""
    assert [one["code"] for one in browser.get(f"/api/v1/dropped?{query}").json["items"]] == found


def test_what_is_no_kind_is_400(browser: Browser) -> None:
    """Not an empty list, which would look as if all was well."""
    assert browser.get("/api/v1/dropped?kind=lost").status == 400


def test_who_said_nothing_of_himself_has_no_name(node: Node) -> None:
    """He is kept under his address; that is no client id."""
    node.refuse(6, "\x0010.0.0.7", "unnamed")
    (first,) = browser_items(node, 1)
    assert (first["client_id"], first["peer"]) == ("", "10.0.0.7:4711")


def browser_items(node: Node, limit: int) -> list[dict[str, object]]:
    browser = make_browser(FakeView(), further=(DroppedResources(lambda: node),))
    items: list[dict[str, object]] = browser.get(f"/api/v1/dropped?limit={limit}").json["items"]
    return items


def test_sessions_that_end_are_not_among_it(node: Node) -> None:
    """They are remembered in the same place, for other questions."""
    node.attempts.ended("gone", None, "expired")
    assert node.attempts.of("gone")
    assert "gone" not in [one["client_id"] for one in browser_items(node, 100)]


def test_nodes_are_one_list() -> None:
    """The newest of all, as many as were asked for; sums over all."""
    answers = [
        {
            "node": name,
            "limit": 3,
            "items": [{"last": last} for last in lasts],
            "totals": {"dropped": {"expired": 2, name: 1}, "refused": {}, "denied": {}, "connect": {}},
        }
        for name, lasts in (("a", (9, 5, 1)), ("b", (8, 2)))
    ]
    answer = all_dropped(answers, {})
    assert [(one["last"], one["node"]) for one in answer["items"]] == [(9, "a"), (8, "b"), (5, "a")]
    assert answer["totals"]["dropped"] == {"expired": 4, "a": 1, "b": 1}
