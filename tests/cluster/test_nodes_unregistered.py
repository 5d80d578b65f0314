"""All of ZooKeeper is away for longer than a session lasts: nobody serves, nothing is lost, nobody has to help."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress

from systemkit.plain import Plain

from tests.cluster.load import PATIENCE
from tests.cluster.nodes import SESSION_SECONDS, BrokerNode, Nodes, eventually
from tests.cluster.test_nodes_basics import burst, drain, enter

EXPIRY = 3600
#: Seconds from when ZooKeeper is back until every node lets clients in.
BACK_SECONDS = 10.0 * PATIENCE


def _lets_in(node: BrokerNode) -> bool:
    with suppress(OSError, AssertionError), Plain(node.port, timeout=2) as guest:
        guest.connect(f"probe-{node.name}")
        return True
    return False


def test_without_any_zookeeper_nodes_serve_nobody_until_it_is_back(nodes: Nodes) -> None:
    """As ``docs/cluster.md`` says: clients are sent away after the session's time, and find everything afterwards."""
    pids = [node.pid for node in nodes]
    with ExitStack() as stack:
        reader = enter(stack, nodes[0], "unregistered", expiry=EXPIRY)
        reader.subscribe(("unregistered/#", 1))
        reader.disconnect()
        publisher = enter(stack, nodes[1], keep_alive=0)
        burst(publisher, "unregistered/t", [b"before"], qos=1)
        for server in nodes.servers.zookeeper:
            server.pause()
        began = time.monotonic()
        # For half of that time, publishing goes on.
        burst(publisher, "unregistered/t", [b"meanwhile"], qos=1)
        publisher.sock.settimeout(3 * SESSION_SECONDS)
        publisher.until_closed()
        assert SESSION_SECONDS / 2 < time.monotonic() - began < SESSION_SECONDS + 2.0 * PATIENCE
        assert not any(map(_lets_in, nodes))
        for server in nodes.servers.zookeeper:
            server.resume()
        assert eventually(lambda: all(map(_lets_in, nodes)), BACK_SECONDS)
        burst(enter(stack, nodes[2]), "unregistered/t", [b"after"], qos=1)
        again = enter(stack, nodes[0], "unregistered", clean=False, expiry=EXPIRY)
        assert sorted(drain(again)) == [b"after", b"before", b"meanwhile"]
    assert [node.pid for node in nodes] == pids
