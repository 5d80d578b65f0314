"""What a node says of itself in figures, over the API."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import iot_mqtt
from iot_mqtt.admin.call import Call
from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.figures_resources import FiguresResources
from iot_mqtt.admin.openapi import describe
from iot_mqtt.admin.turns import AtOnce
from iot_mqtt.app.node.figures import NodeFigures
from iot_mqtt.broker.driving import breath, drive
from iot_mqtt.broker.views import paging
from iot_mqtt.codec import PacketType
from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.marks import GridMarks
from iot_mqtt.pipeline import OutboxSettings
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.ports.identity import Account, Mark
from iot_mqtt.ports.slow import CAUSES
from tests.unit.broker.harness import Node, run


def ask(figures: NodeFigures, path: str, **query: str) -> Any:
    (route,) = [one for one in FiguresResources(figures).routes if one.path == path]
    assert set(query) <= set(route.query)
    return route.handler(Call(query=query))


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def figures(node: Node, tmp_path: Path) -> NodeFigures:
    figures = NodeFigures(tmp_path / "history.bin", clustered=False)
    run(figures.begin(node.broker, node.view, node.grid, 0, AtOnce().next))
    node.view.ready = True
    return figures


def test_nothing_is_said_before_the_node_has_begun(tmp_path: Path) -> None:
    figures = NodeFigures(tmp_path / "history.bin", clustered=False)
    figures.look()
    figures.sample()
    figures.close()
    for path in ("identity", "history"):
        with pytest.raises(Unavailable):
            ask(figures, path)


def test_the_identity_of_a_node(node: Node, figures: NodeFigures) -> None:
    """Delivered, waiting and dropped, and nothing else."""
    reader, away = node.connect("r"), node.connect("away", clean=False, expiry=60)
    reader.subscribe("t", qos=1)
    away.subscribe("t", qos=1)
    away.lose()
    node.connect("w").publish("t", b"1", qos=1)
    reader.drain()
    node.connect("w").publish("t", b"2", qos=0)
    found = ask(figures, "identity")
    assert (found.matched, found.delivered, found.waiting, found.unexplained) == (4, 2, 1, 0)
    assert found.dropped == {"offline_qos0": 1}
    assert (found.account.lives, found.between) == (1, 0)
    node.counters.messages_matched += 3
    assert ask(figures, "identity").unexplained == 3


def test_what_a_node_adds_to_the_clusters_identity(node: Node, figures: NodeFigures, tmp_path: Path) -> None:
    """With what the store has of all nodes, if there may be others."""
    found = run(ask(figures, "identity/cluster"))
    assert (found.number, found.unexplained, found.kept) == (0, 0, ())
    batch = WriteBatch()
    GridMarks(node.grid, 3).stage(batch, Mark(Account(1.0, matched=5), 4, 0, stopped=True))
    run(node.grid.commit(batch))
    clustered = NodeFigures(tmp_path / "history2.bin", clustered=True)
    other = Node()
    run(clustered.begin(other.broker, other.view, node.grid, 1, AtOnce().next))
    (kept,) = run(ask(clustered, "identity/cluster")).kept
    assert (kept.number, kept.waiting, kept.account.matched) == (3, 4, 5)


def test_the_history_of_a_node(node: Node, figures: NodeFigures) -> None:
    """Rates of what was counted between two samples."""
    figures.sample()
    node.clock.advance(10.0)
    node.counters.messages_received += 30
    figures.late(0.5, 0.0)
    figures.late(0.25, 0.0)
    figures.sample()
    found = ask(figures, "history", series="messages_received,loop_lag", step="10")
    assert [one.values[-2:].count(None) for one in found.series] == [1, 1]
    assert {value for one in found.series for value in one.values if value is not None} == {3.0, 0.5}


@pytest.mark.parametrize(
    "query",
    [
        {"series": "nonsense"},
        {"from": "yesterday"},
        {"from": "nan"},
        {"to": "inf"},
        {"from": "-1"},
        {"step": "0"},
        {"step": "1.5"},
        {"step": "7"},
        {"from": "99999999999"},
    ],
)
def test_questions_that_are_refused(figures: NodeFigures, query: dict[str, str]) -> None:
    """With a sentence, as bad requests."""
    with pytest.raises(ApiError) as caught:
        ask(figures, "history", **query)
    assert caught.value.status == 400


def test_it_is_described(figures: NodeFigures) -> None:
    """Every parameter and every schema that a route names."""
    resource = FiguresResources(figures)
    found = describe(resource.routes, resource.schemas(), "1")
    assert {one.answer for one in resource.routes} <= set(found["components"]["schemas"])


def test_a_clock_that_stands_still(tmp_path: Path, node: Node) -> None:
    """Two samples at one moment are one."""
    assert isinstance(node.clock, ManualClock)
    figures = NodeFigures(tmp_path / "history.bin", clustered=False)
    run(figures.begin(node.broker, node.view, node.grid, 0, AtOnce().next))
    node.view.ready = True
    figures.sample()
    figures.sample()
    assert all(value is None for one in ask(figures, "history").series for value in one.values)


# Who does not keep up.


def slow(figures: NodeFigures, **query: str) -> Any:
    return shown_of(run(ask(figures, "slow", **query)))


def shown_of(page: Any) -> Any:
    """A page as it is answered."""
    shown = run(page.part(0, len(page)))
    return {"items": [item for item, _ in shown], "after": shown[-1][1] if page.more else None}


def test_who_does_not_keep_up_and_why(node: Node, figures: NodeFigures) -> None:
    """A full window, a full outbox, somebody who is away; those for whom most waits first."""
    node.outbox = OutboxSettings(high_water=50_000, low_water=10_000, hard_limit=10_000_000)
    window = node.connect("window", clean=False, expiry=60, receive_maximum=2)
    away = node.connect("away", clean=False, expiry=60)
    quick, stuck = node.connect("quick"), node.connect("stuck")
    for client in (window, away, quick):
        client.subscribe("t", qos=1)
    stuck.subscribe("t", qos=0)
    away.lose()
    stuck.wire.link.capacity = 0
    writer = node.connect("w")
    for _ in range(5):
        writer.publish("t", b"x" * 60_000, qos=1)
        quick.drain()
    node.clock.advance(30.0)
    window_one = window.messages()[0]
    window.ack(PacketType.PUBACK, window_one.packet_id)
    found = {one.client_id: one for one in slow(figures)["items"]}
    assert list(found) == ["away", "window", "stuck"]
    assert [(one.state, one.waiting) for one in found.values()] == [
        ("offline", 5),
        ("inflight_full", 4),
        ("outbox_full", 0),
    ]
    assert (found["window"].inflight, found["window"].window, found["window"].backlog) == (2, 2, 2)
    assert "window is full" in found["window"].cause
    assert found["away"].oldest_seconds == found["window"].oldest_seconds == 30.0
    assert found["stuck"].outbox_bytes > 60_000
    assert found["stuck"].oldest_seconds is None
    assert not found["away"].connected


def test_the_list_has_pages_and_a_filter(node: Node, figures: NodeFigures) -> None:
    """However many there are, a page is as long as was asked for."""
    for number in range(7):
        client = node.connect(f"c{number}", clean=False, expiry=60)
        client.subscribe("t" if number % 2 else "u", qos=1)
        if number != 5:
            client.lose()
    writer = node.connect("w")
    for topic in ("t", "u", "u"):
        writer.publish(topic, b"x", qos=1)
    everybody = [one.client_id for one in slow(figures)["items"]]
    assert everybody == ["c0", "c2", "c4", "c6", "c1", "c3", "c5"]
    paged: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = slow(figures, limit="3", **after)
        paged += [one.client_id for one in page["items"]]
        if page["after"] is None:
            break
        after = {"after": page["after"]}
    assert paged == everybody
    assert [one.client_id for one in slow(figures, connected="true")["items"]] == ["c5"]
    assert len(slow(figures, connected="false")["items"]) == 6


def test_many_sessions_are_looked_at_in_several_turns(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others get their turn meanwhile, and the answer is the same."""
    figures = NodeFigures(tmp_path / "history.bin", clustered=False)
    run(figures.begin(node.broker, node.view, node.grid, 0, partial(breath, node.broker.turn.call_soon)))
    monkeypatch.setattr(paging, "PIECE", 2)
    for number in range(7):
        client = node.connect(f"c{number}", clean=False, expiry=60)
        client.subscribe("t", qos=1)
        client.lose()
    node.connect("w").publish("t", b"x", qos=1)
    answers: list[Any] = []
    drive(ask(figures, "slow", limit="3"), answers.append, answers.append)
    assert not answers
    node.turn()
    assert [one.client_id for one in shown_of(answers[0])["items"]] == ["c0", "c1", "c2"]


@pytest.mark.parametrize(
    "query", [{"after": "x"}, {"after": "x/y"}, {"after": "9" * 400 + "/y"}, {"connected": "maybe"}]
)
def test_wrong_questions_about_the_slow(figures: NodeFigures, query: dict[str, str]) -> None:
    with pytest.raises(ApiError) as caught:
        slow(figures, **query)
    assert caught.value.status == 400


def test_every_state_has_a_cause() -> None:
    """As ``Outflow.state`` names them."""
    source = (Path(iot_mqtt.__file__).parent / "broker/sending/outflow.py").read_text()
    body = source[source.index("def state(") :]
    assert set(re.findall(r'return "(\w+)"', body)) == set(CAUSES)
