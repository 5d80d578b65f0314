"""What a node says of itself in figures, over the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.figures_resources import FiguresResources
from iot_mqtt.admin.openapi import describe
from iot_mqtt.app.node.figures import NodeFigures
from iot_mqtt.errors import Unavailable
from iot_mqtt.pipeline.clock import ManualClock
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
    run(figures.begin(node.broker, node.view, node.grid, 0))
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
    run(figures.begin(node.broker, node.view, node.grid, 0))
    node.view.ready = True
    figures.sample()
    figures.sample()
    assert all(value is None for one in ask(figures, "history").series for value in one.values)
