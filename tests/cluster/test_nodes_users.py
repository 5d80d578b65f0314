"""Users of the grid are the same on every node: added at one, let in at all; disabled at another, out at all."""

from __future__ import annotations

import time

from systemkit import wire
from systemkit.plain import Plain
from systemkit.users import delete_user, put_user

from tests.cluster.nodes import BrokerNode, Nodes, eventually

NOT_AUTHORIZED = 0x87
#: What is promised, and air for a machine that does other things as well.
PROMISED, AIR = 1.0, 2.0


def _reason(node: BrokerNode, user: str) -> int:
    with Plain(node.port, version=5, timeout=20) as client:
        client.send(wire.connect(f"probe-{user}", version=5, user=user, password=b"pw"))
        return client.expect(wire.CONNACK).reason()


def test_a_user_who_is_changed_at_one_node_is_changed_at_all(nodes: Nodes) -> None:
    """Within a second, for clients that are connected, too."""
    put_user(nodes[0], "grid-ann", new=True, password="pw")
    began = time.monotonic()
    assert eventually(lambda: all(_reason(node, "grid-ann") == 0 for node in nodes), PROMISED + AIR)
    clients = []
    for number, node in enumerate(nodes):
        client = Plain(node.port, version=5, timeout=20)
        client.send(wire.connect(f"ann-{number}", version=5, user="grid-ann", password=b"pw"))
        assert client.expect(wire.CONNACK).reason() == 0
        clients.append(client)
    began = time.monotonic()
    put_user(nodes[2], "grid-ann", enabled=False)
    for client in clients:
        assert client.expect(wire.DISCONNECT).reason() == NOT_AUTHORIZED
    assert time.monotonic() - began < PROMISED + AIR
    for node in nodes:
        assert _reason(node, "grid-ann") != 0
    delete_user(nodes[1], "grid-ann")
