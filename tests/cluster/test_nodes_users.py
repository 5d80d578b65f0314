"""Users of the grid are the same on every node: added at one, let in at all; disabled at another, out at all. So are
those of the admin port.
"""

from __future__ import annotations

import json
import time
from http.client import HTTPConnection
from typing import Any

from systemkit import wire
from systemkit.plain import Plain
from systemkit.users import call, delete_user, put_user
from systemkit.waiting import AIR

from tests.cluster.nodes import BrokerNode, Nodes, eventually

NOT_AUTHORIZED, BANNED = 0x87, 0x8A
#: What is promised, and air for a machine that does other things as well.
PROMISED = 1.0


def _reason(node: BrokerNode, user: str) -> int:
    with Plain(node.port, version=5, timeout=50) as client:
        client.send(wire.connect(f"probe-{user}", version=5, user=user, password=b"pw"))
        return client.expect(wire.CONNACK).reason()


def test_a_user_who_is_changed_at_one_node_is_changed_at_all(nodes: Nodes) -> None:
    """Within a second, for clients that are connected, too."""
    put_user(nodes[0], "grid-ann", new=True, password="pw")
    began = time.monotonic()
    assert eventually(lambda: all(_reason(node, "grid-ann") == 0 for node in nodes), PROMISED + AIR)
    clients = []
    for number, node in enumerate(nodes):
        client = Plain(node.port, version=5, timeout=50)
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


def test_who_is_banned_at_one_node_is_out_at_all(nodes: Nodes) -> None:
    """Within a second, those that are connected, too; and in again when another node takes it back."""
    clients = []
    for number, node in enumerate(nodes):
        client = Plain(node.port, version=5, timeout=50)
        client.connect(f"banned-{number}")
        clients.append(client)
    began = time.monotonic()
    status, ban = call(nodes[2], "POST", "bans", {"client": "banned-?", "seconds": 600, "reason": "loud"})
    assert status == 200, ban
    for client in clients:
        farewell = client.expect(wire.DISCONNECT)
        assert (farewell.reason(), b"banned: loud" in farewell.body) == (0x98, True)
    assert time.monotonic() - began < PROMISED + AIR
    assert [_answer(node, "banned-7") for node in nodes] == [BANNED] * len(clients)
    assert [one["id"] for one in call(nodes[1], "GET", "bans")[1]["items"]] == [ban["id"]]
    assert call(nodes[1], "DELETE", f"bans/{ban['id']}")[0] == 204
    assert eventually(lambda: all(_answer(node, "banned-7") == 0 for node in nodes), PROMISED + AIR)


def _answer(node: BrokerNode, client_id: str) -> int:
    with Plain(node.port, version=5, timeout=50) as client:
        client.send(wire.connect(client_id, version=5))
        return client.expect(wire.CONNACK).reason()


def _page(node: BrokerNode, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any, str]:
    """What a browser does: status, answer, and the cookie that came with it."""
    asked = HTTPConnection("127.0.0.1", node.ports["admin"], timeout=50)
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    asked.request(method, f"/api/v1/{path}", None if body is None else json.dumps(body), named)
    answer = asked.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if text else None, (answer.getheader("Set-Cookie") or "").partition(";")[0]


def test_a_login_and_the_log_of_changes_are_of_all_nodes(nodes: Nodes) -> None:
    """Logged in at one node, known at once at another, out at all; and any node shows what was changed at each."""
    status, answer = call(nodes[0], "POST", "admins", {"name": "eve", "role": "operator", "password": "of-eve-12"})
    assert status == 200, answer
    status, me, cookie = _page(nodes[0], "POST", "login", {"name": "eve", "password": "of-eve-12"})
    assert (status, me["role"]) == (200, "operator")
    for node in nodes:
        status, _, _ = _page(node, "DELETE", f"clients/by-{node.name}", Cookie=cookie, X_CSRF_Token=me["csrf"])
        assert status == 404
        assert _page(node, "DELETE", "clients/nobody", Cookie=cookie)[0] == 403
    assert call(nodes[2], "DELETE", "admins/eve")[0] == 204
    began = time.monotonic()
    assert eventually(lambda: all(_page(one, "GET", "me", Cookie=cookie)[0] == 401 for one in nodes), PROMISED + AIR)
    assert time.monotonic() - began < PROMISED + AIR
    for node in nodes:
        page = call(node, "GET", "audit?limit=20")[1]
        assert page["missing"] == []
        shown = [(one["node"], one["who"], one["path"]) for one in page["items"]]
        changes = [("eve", f"clients/by-{one.name}", one.name) for one in reversed(nodes.all)]
        wanted = [(nodes[2].name, "admin.token", "admins/eve"), *((name, who, path) for who, path, name in changes)]
        assert [one for one in shown if one in wanted] == wanted
        found = call(node, "GET", "audit/verify")[1]
        assert (found["whole"], [one["node"] for one in found["items"]]) == (True, sorted(one.name for one in nodes))
