"""Messages of the log for people: what of it is shown, from when on, page by page."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.log_part import LoggedInfo, LoggedPlace, LoggedWanted
from iot_mqtt.broker.settings import LogUse
from iot_mqtt.errors import MqttError
from tests.unit.broker.harness import Node


def ask(
    node: Node,
    filter: str = "#",
    since: str = "1h",
    *,
    until: str | None = None,
    limit: int = 100,
    behind: LoggedPlace | None = None,
) -> list[LoggedInfo]:
    """A page."""
    found: list[Any] = []
    drive(node.view.log.messages(LoggedWanted(filter, since, until, limit, behind)), found.append, found.append)
    node.turn()
    (answer,) = found
    if isinstance(answer, BaseException):
        raise answer
    assert isinstance(answer, list)
    return answer


def place(one: LoggedInfo) -> LoggedPlace:
    return LoggedPlace(one.came_at, one.writer, one.position)


@pytest.fixture
def node() -> Node:
    """Three messages, a minute apart, and one that is not recorded."""
    node = Node(log_use=LogUse(record=("hall/#",)))
    writer = node.connect("press-7")
    for text in (b"1", b"22", b"333"):
        writer.publish("hall/a" if len(text) < 3 else "hall/b", text, qos=1)
        writer.publish("elsewhere", b"nobody keeps it", qos=1)
        node.clock.advance(60)
    return node


def test_what_came_in_the_order_in_which_it_came(node: Node) -> None:
    found = ask(node)
    assert [(one.topic, one.payload, one.qos, one.size) for one in found] == [
        ("hall/a", b"1", 1, 1),
        ("hall/a", b"22", 1, 2),
        ("hall/b", b"333", 1, 3),
    ]
    assert {one.publisher for one in found} == {"press-7"}
    assert [round(found[-1].came_at - one.came_at) for one in found] == [120, 60, 0]


def test_of_a_filter_and_a_time(node: Node) -> None:
    assert [one.payload for one in ask(node, "+/a")] == [b"1", b"22"]
    assert [one.payload for one in ask(node, since="130s")] == [b"22", b"333"]
    assert [one.payload for one in ask(node, until="130s")] == [b"1"]
    assert ask(node, since="10s") == []


def test_page_by_page(node: Node) -> None:
    """Whatever the size of a page, also inside of what came at once."""
    node.connect("many").publish("hall/c", *(b"%d" % number for number in range(50)), qos=1)
    everything = ask(node)
    assert len(everything) == 53
    for limit in (1, 2, 7, 53):
        found: list[LoggedInfo] = []
        while page := ask(node, limit=limit, behind=place(found[-1]) if found else None):
            assert len(page) <= limit
            found += page
        assert found == everything


def test_a_page_of_another_node_ended_before(node: Node) -> None:
    """Its place says nothing here; what came later than that is shown."""
    first, *others = ask(node)
    assert ask(node, behind=LoggedPlace(first.came_at, 7, 1 << 40)) == others


def test_a_long_payload_is_cut(node: Node) -> None:
    node.connect("long").publish("hall/long", b"x" * 5000, qos=1)
    (found,) = ask(node, "hall/long")
    assert (found.size, found.payload) == (5000, b"x" * 1024)


@pytest.mark.parametrize(
    ("filter", "since", "until"),
    [
        ("a/#/b", "1h", None),
        ("$share/g/a", "1h", None),
        ("$replay/1h/a", "1h", None),
        ("#", "soon", None),
        ("#", "0", None),
        ("#", "1h", "x"),
        ("#", "1h", ""),
    ],
)
def test_what_is_wrong_is_refused(node: Node, filter: str, since: str, until: str | None) -> None:
    with pytest.raises(MqttError):
        ask(node, filter, since, until=until)
