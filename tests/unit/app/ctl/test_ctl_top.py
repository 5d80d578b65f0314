"""``ctl slow`` and ``ctl top``: what they make of a node's answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from iot_mqtt.app.ctl.cli import ctl
from iot_mqtt.app.ctl.target import Target

SLOW = {
    "client_id": "late\x1b[2J",
    "owner": "alice",
    "connected": True,
    "state": "inflight_full",
    "cause": "its window is full",
    "waiting": 12,
    "queued": 0,
    "backlog": 10,
    "inflight": 2,
    "window": 2,
    "lag": 3,
    "outbox_bytes": 2500,
    "oldest_seconds": 75.0,
    "dropped": {"outbox_full": 4},
    "node": "n1",
}


class FakeNode:
    """Answers as a node whose counters grow with each look."""

    missing: dict[str, str] = {}

    def __init__(self) -> None:
        self.looks = 0
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.started_at = 1000.0

    def get(self, path: str, query: dict[str, str] | None = None) -> Any:
        self.asked.append((path, query or {}))
        if path == "history":
            return {"items": [{"series": [{"values": [None, 0.25, None]}]}]}
        self.looks += 1
        counters: dict[str, Any] = {}
        for name in ("messages_received", "messages_delivered", "bytes_received", "bytes_sent", "commits"):
            counters[name] = 1000 * self.looks
        counters |= {"connects_accepted": 5, "connections_closed": 4, "dropped": {"queue_full": 10 * self.looks}}
        levels = dict.fromkeys(("clients", "sessions", "queued", "inflight", "waiting", "unexplained", "paused"), 1)
        return {"node_id": "n1", "state": "serving", "started_at": self.started_at, "counters": counters, **levels}

    def items(self, path: str, *, query: dict[str, str], limit: int | None) -> Iterator[Any]:
        self.asked.append((path, query))
        if path == "slow":
            yield SLOW
            return
        for number, (client_id, since) in enumerate((("idle", 1), ("busy", 1), ("back", self.looks))):
            count = 0 if client_id == "idle" else 10_000 * number * (self.looks if client_id == "busy" else 1)
            one = {"client_id": client_id, "username": None, "connected_at": since}
            yield {**one, "bytes_received": count, "bytes_sent": 0}


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    node, times = FakeNode(), iter(range(0, 1000, 2))
    monkeypatch.setattr(Target, "connect", lambda target: node)
    monkeypatch.setattr("iot_mqtt.app.ctl.slow.time.sleep", lambda seconds: None)
    monkeypatch.setattr("iot_mqtt.app.ctl.slow.time.monotonic", lambda: next(times))
    return node


def run(*arguments: str) -> Result:
    return CliRunner().invoke(ctl, arguments)


def test_the_slow_are_listed_with_their_cause(node: FakeNode) -> None:
    """Control characters of a client id are spelled out."""
    said = run("slow", "--connected").output
    assert node.asked == [("slow", {"connected": True})]
    for part in ("inflight_full", "1 min 15 s", "2/2", "2.5 kB", "outbox_full 4", "its window is full"):
        assert part in said
    assert "\x1b" not in said
    assert json.loads(run("slow", "--json").output) == [SLOW]


@pytest.mark.parametrize("command", [("slow",), ("pipeline", "alarms"), ("pipeline", "letters")])
def test_a_list_of_the_first_says_how_many_that_are(command: tuple[str, ...]) -> None:
    """Where it does not show all without a limit."""
    words = " ".join(run(*command, "--help").output.split())
    assert "At most so many. [default: 100; x>=1]" in words


def test_rates_between_two_looks(node: FakeNode) -> None:
    """Of counters, of drops by reason, of clients; the busiest first, who is idle not at all."""
    found = json.loads(run("top", "--once", "--json").output)
    assert found["rates"] == {
        "received": 500.0,
        "delivered": 500.0,
        "bytes_in": 500.0,
        "bytes_out": 500.0,
        "connects": 0.0,
        "disconnects": 0.0,
        "commits": 500.0,
    }
    assert found["dropped"] == {"queue_full": 5.0}
    assert found["loop_lag"] == 0.25
    # One has come back meanwhile: its counts begin anew.
    assert [(one["client_id"], one["bytes_per_second"]) for one in found["busiest"]] == [
        ("back", 10_000.0),
        ("busy", 5_000.0),
    ]
    assert [one["client_id"] for one in found["slowest"]] == [SLOW["client_id"]]
    assert all(query.get("node") == "n1" for path, query in node.asked if path != "status")


def test_a_screen_for_people(node: FakeNode) -> None:
    said = run("top", "--once").output
    for part in (
        "n1, serving",
        "received 500",
        "bytes in 500 B",
        "queue_full 5.0",
        "250 ms",
        "busy",
        "its window is full",
    ):
        assert part in said
    assert "\x1b" not in said


def test_a_node_that_was_started_again(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its counters cannot be compared."""

    def restarted(seconds: float) -> None:
        node.started_at += 1

    monkeypatch.setattr("iot_mqtt.app.ctl.slow.time.sleep", restarted)
    result = run("top", "--once")
    assert result.exit_code == 1
    assert "started again" in result.output
