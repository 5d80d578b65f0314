"""A page that is open and that nobody attends: it goes on asking, and its login ends all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.admin.event_resources import EventResources
from iot_mqtt.admin.streams import Stream
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from tests.unit.admin.adminkit import Connection
from tests.unit.admin.loginkit import IDLE, LoginNode, Page, cheap
from tests.unit.auth.authkit import outcome, start

__all__ = ["cheap"]


class Source:
    """Makes streams."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []

    def listen(self, kinds: frozenset[str], node: str | None, place: str | None) -> Stream:
        self.streams.append(Stream())
        return self.streams[-1]


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def node(tmp_path: Path, source: Source) -> LoginNode:
    clock, grid = ManualClock(), MemoryGrid()
    clock.advance(1_000_000)
    outcome(start(grid.open()))
    node = LoginNode(grid, clock, tmp_path, "n1", further=(EventResources(source),))
    node.add("ann")
    return node


@pytest.mark.parametrize(("unattended", "status"), [("", 200), ("1", 401)])
def test_what_a_page_asks_by_itself_is_no_use(node: LoginNode, unattended: str, status: int) -> None:
    """It says so; whatever does not is somebody's."""
    page = Page(node, node.log_in("ann"))
    for _ in range(2):
        assert page.ask("GET", "status", X_Unattended=unattended).status == 200
        node.clock.advance(IDLE / 2)
    assert page.ask("GET", "status", X_Unattended=unattended).status == status


def test_a_stream_is_no_use_and_ends_with_the_login(node: LoginNode, source: Source) -> None:
    """Its listener's right to it is looked at every second, which is nobody's doing; nor does the page's own count."""
    page = Page(node, node.log_in("ann"))
    connection = Connection(node.browser.site)
    lines = f"Host: localhost:18083\r\nCookie: {page.cookie}\r\nContent-Length: 0\r\n"
    node.clock.advance(IDLE / 2)
    connection.receive(f"GET /api/v1/events HTTP/1.1\r\n{lines}\r\n".encode())
    reactor = node.browser.site.reactor
    reactor.advance(1)
    assert [one.ended for one in source.streams] == [False]
    node.clock.advance(IDLE / 2)
    reactor.advance(1)
    assert [one.ended for one in source.streams] == [True]


def test_nothing_but_the_api_is_use(node: LoginNode) -> None:
    """The page's files, and whether a node is alive, are asked for by anybody."""
    page = Page(node, node.log_in("ann"))
    for _ in range(2):
        page.ask("GET", "/health")
        page.ask("GET", "/metrics")
        node.clock.advance(IDLE / 2)
    assert page.ask("GET", "status").status == 401
