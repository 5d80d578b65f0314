"""A node that is told to stop while it is not part of the cluster, or is just becoming part of it again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.load import PATIENCE
from tests.cluster.nodes import SESSION_SECONDS, BrokerNode, Nodes, eventually

#: Of a node that has clients to see off; who is not part of the cluster takes nothing like it.
DRAIN_SECONDS = 30
STOPPED_SECONDS = 8.0 * PATIENCE
OVER = "this life of the node is over"
AGAIN = "the node is part of the cluster again"
JOINED = "] joined ["
UNREAD = "retained messages cannot be read"


@pytest.fixture
def node(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerNode]:
    """A fourth one, patient with its clients."""
    settings = {**nodes.settings, "node.drain_seconds": DRAIN_SECONDS}
    node = BrokerNode(tmp_path_factory.mktemp("stopped") / "node-stopped", "node-stopped", settings)
    node.start()
    try:
        yield node
    finally:
        node.reap()


def says(node: BrokerNode, line: str) -> Callable[[], bool]:
    """Whether its log has such a line."""
    return lambda: line in node.log_text()


def pause_until_it_is_over(node: BrokerNode) -> None:
    """It is declared dead, and finds out."""
    node.pause()
    time.sleep(SESSION_SECONDS + 3.0)
    node.resume()
    assert eventually(says(node, OVER), 10), node.log_text()[-3000:]


def stop(node: BrokerNode) -> float:
    """SIGTERM; the seconds that it took."""
    assert node.process is not None
    began = time.monotonic()
    node.process.terminate()
    assert node.process.wait(DRAIN_SECONDS + 10) == 0
    return time.monotonic() - began


def ending(nodes: Nodes, node: BrokerNode) -> str:
    """What another node says of it."""
    return str(next(one["state"] for one in nodes[0].api("cluster")["members"] if one["node_id"] == node.name))


@pytest.mark.parametrize("later", [0.0, 0.2, 1.0])
def test_a_node_whose_next_life_begins_stops_in_order(nodes: Nodes, node: BrokerNode, later: float) -> None:
    """At whatever step of it: it serves nobody any more, and no other node says that it died."""
    pause_until_it_is_over(node)
    time.sleep(later)
    begun = says(node, AGAIN)()
    took = stop(node)
    assert took < STOPPED_SECONDS, node.log_text()[-3000:]
    assert begun or not says(node, AGAIN)(), "it has begun although it was told to stop"
    if node.log_text().count(JOINED) > 1:
        assert eventually(lambda: ending(nodes, node) in ("stopped", "left"), 10), ending(nodes, node)
    print(f"later={later} begun={begun} took={took:.2f}s")


def test_a_node_without_any_zookeeper_stops_at_once(nodes: Nodes, node: BrokerNode) -> None:
    """There is nobody that it could leave."""
    for server in nodes.servers.zookeeper:
        server.pause()
    try:
        assert eventually(says(node, OVER), 3 * SESSION_SECONDS)
        time.sleep(2.0)
        took = stop(node)
        assert took < STOPPED_SECONDS, node.log_text()[-3000:]
        print(f"took={took:.2f}s")
    finally:
        for server in nodes.servers.zookeeper:
            server.resume()


def test_nothing_of_the_life_before_goes_on(nodes: Nodes, node: BrokerNode) -> None:
    """It could not read what it wanted, and nobody is to try that again for it."""
    for server in nodes.servers.zookeeper:
        server.pause()
    try:
        assert eventually(says(node, OVER), 3 * SESSION_SECONDS)
        time.sleep(SESSION_SECONDS)
    finally:
        for server in nodes.servers.zookeeper:
            server.resume()
    assert eventually(says(node, AGAIN), 60)
    time.sleep(2.0)
    before = node.log_text().count(UNREAD)
    time.sleep(4.0)
    assert node.log_text().count(UNREAD) == before
    assert stop(node) < STOPPED_SECONDS
