"""A node that is gone for good: what it recorded is owed all the same, and to nobody who subscribed later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from systemkit.users import call

from tests.cluster.nodes import BrokerNode, Nodes, eventually
from tests.cluster.test_nodes_basics import burst, drain, enter

EXPIRY = 3600
OLD = [b"old-%d" % number for number in range(100)]


@pytest.fixture(scope="module")
def gone(_three_nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerNode]:
    """A fourth node, which has acknowledged ``OLD`` for a session at home on the first one, left, and is cleaned up
    after; the first one has been started again since.
    """
    nodes = _three_nodes
    nodes.mend()
    node = BrokerNode(tmp_path_factory.mktemp("gone") / "node-gone", "node-gone", nodes.settings)
    node.start()
    try:
        with ExitStack() as stack:
            enter(stack, nodes[0], "gone-reader", expiry=EXPIRY).subscribe(("gone/#", 1))
        with ExitStack() as stack:
            burst(enter(stack, node), "gone/t", OLD, qos=1)
        assert node.terminate() == 0
        # As its adopter does after half a minute.
        nodes.note_cleaned(node.name)
        nodes[0].restart(kill=False)
        yield node
    except BaseException:
        node.reap()
        raise
    node.close()


def test_a_session_gets_what_a_node_that_is_gone_has_acknowledged(nodes: Nodes, gone: BrokerNode) -> None:
    """Its home has never seen that node in this life: the log is there."""
    with ExitStack() as stack:
        reader = enter(stack, nodes[0], "gone-reader", clean=False, expiry=EXPIRY)
        assert drain(reader) == OLD


def test_a_new_subscriber_gets_nothing_that_was_published_before(nodes: Nodes, gone: BrokerNode) -> None:
    """Neither while the node is away nor when it comes back, and all that is published there then."""
    with ExitStack() as stack:
        late = enter(stack, nodes[0], "gone-late", expiry=EXPIRY)
        late.subscribe(("gone/#", 1))
        gone.start()
        burst(enter(stack, gone), "gone/t", [b"new"], qos=1)
        assert drain(late) == [b"new"]


def test_a_new_node_goes_on_with_the_log_of_a_removed_one(
    nodes: Nodes, gone: BrokerNode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Under its number: who has read the old log up to some place gets what the new node appends to it, and that once.
    Should the removed one come back, it is a node like any new one.
    """
    number = gone.api("cluster")["number"]
    assert call(nodes[0], "DELETE", f"cluster/nodes/{gone.name}")[0] == 409, "it is there"
    assert gone.terminate() == 0
    nodes.note_cleaned(gone.name)
    assert eventually(lambda: call(nodes[0], "DELETE", f"cluster/nodes/{gone.name}")[0] == 204)
    assert call(nodes[0], "DELETE", f"cluster/nodes/{gone.name}")[0] == 404
    new = BrokerNode(tmp_path_factory.mktemp("gone") / "node-new", "node-new", nodes.settings)
    new.start()
    try:
        assert new.api("cluster")["number"] == number
        with ExitStack() as stack:
            burst(enter(stack, new), "gone/t", [b"from-new"], qos=1)
            for name in ("gone-reader", "gone-late"):
                reader = enter(stack, nodes[0], name, clean=False, expiry=EXPIRY)
                assert drain(reader)[-1:] == [b"from-new"], name
        gone.start()
        assert gone.api("cluster")["number"] not in {number, *(node.api("cluster")["number"] for node in nodes)}
    except BaseException:
        new.reap()
        raise
    new.close()
