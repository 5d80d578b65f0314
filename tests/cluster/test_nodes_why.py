"""Any node names the cause of a client that is, or was, at another one."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import pytest
from systemkit import wire
from systemkit.access import attempt
from systemkit.users import call

from tests.cluster.nodes import BrokerNode, Nodes, eventually
from tests.cluster.test_nodes_basics import burst, enter, unique

EXPIRY = 600


def _found(node: BrokerNode, client_id: str, *codes: str) -> dict[str, Any] | None:
    findings = node.api(f"clients/{client_id}/why")["findings"]
    return next((one for one in findings if one["code"] in codes), None)


def _named(nodes: Iterable[BrokerNode], client_id: str, codes: str | tuple[str, ...], *words: str) -> None:
    """Every one of them has it, with these words."""
    codes = (codes,) if isinstance(codes, str) else codes
    for node in nodes:
        found: list[dict[str, Any]] = []

        def look(node: BrokerNode = node, found: list[dict[str, Any]] = found) -> bool:
            one = _found(node, client_id, *codes)
            found += [] if one is None else [one]
            return bool(found)

        assert eventually(look), node.api(f"clients/{client_id}/why")
        for word in words:
            assert word in found[0]["text"], found


def test_every_node_names_what_one_of_them_knows(nodes: Nodes) -> None:
    """A refusal, a full window, a takeover by a connection to another node, and a group whose members are at two."""
    with ExitStack() as stack:
        refused, full, moved = unique("refused"), unique("full"), unique("moved")
        client, answer = attempt(nodes[0], "alice", refused, version=5, password=b"wrong")
        with client:
            assert answer.reason() == 0x86
        _named(nodes, refused, "login_refused", "'alice'", "127.0.0.1:")
        reader = enter(stack, nodes[1], full, receive_maximum=1)
        reader.subscribe((f"why/{full}", 1))
        burst(enter(stack, nodes[0]), f"why/{full}", [b"1", b"2"], qos=1)
        reader.expect(wire.PUBLISH)
        _named(nodes, full, "window_full", "1 messages were sent")
        first = enter(stack, nodes[0], moved, clean=False, expiry=EXPIRY)
        enter(stack, nodes[2], moved, clean=False, expiry=EXPIRY)
        first.until_closed()
        _named(nodes, moved, "taken_over", f"connected to {nodes[2].name}", "127.0.0.1:")
        starved, eager = unique("starved"), unique("eager")
        shared = f"$share/team/why/{starved}"
        enter(stack, nodes[1], starved, receive_maximum=1).subscribe((shared, 1))
        enter(stack, nodes[2], eager).subscribe((shared, 1))
        burst(enter(stack, nodes[1]), f"why/{starved}", [b"x"] * 8, qos=1)
        _named(nodes, starved, "group_passes_by", "its window is full", f"goes to '{eager}' (at another node)")
        assert all(node.api("clients/nobody-knows-it/why")["findings"][0]["code"] == "never_seen" for node in nodes)


def test_a_refusal_by_a_node_that_is_drained_is_named_by_the_others(nodes: Nodes) -> None:
    """With the node that it was, and how that takes clients again."""
    name = unique("drained")
    assert call(nodes[1], "POST", "node/drain", {})[0] == 200
    try:
        client, answer = attempt(nodes[1], "alice", name, version=5)
        with client:
            assert answer.reason() in (0x9C, 0x9D)
        _named(nodes, name, "node_drained")
        for node in nodes:
            found = node.api(f"clients/{name}/why")["findings"][0]
            assert (found["code"], found["node"]) == ("node_drained", nodes[1].name)
            assert "ctl node resume" in found["helps"]
    finally:
        assert call(nodes[1], "DELETE", "node/drain")[0] in (200, 204)


def test_a_session_whose_node_is_dead_is_said_to_be_there(nodes: Nodes) -> None:
    """By the nodes that are left, until one of them has it."""
    with ExitStack() as stack:
        enter(stack, nodes[2], "why-left", clean=False, expiry=EXPIRY).disconnect()
        nodes[2].kill()
        # It does not answer, is not heard, is dead: whatever is known at that moment.
        _named(nodes.all[:1], "why-left", ("node_unheard", "link_cut", "home_dead"), f"is on {nodes[2].name}")
        # And once another one has taken it over, that is where it is.
        assert eventually(lambda: nodes[0].api("clients/why-left/why")["session"] is not None, 60)
        assert _found(nodes[1], "why-left", "node_unheard", "home_dead") is None


def test_a_node_does_not_join_a_grid_of_a_later_format(nodes: Nodes) -> None:
    """It ends with a sentence; those that are in go on."""
    late = nodes[2]
    assert [(one.api("status")["data_format"], one.api("status")["grid_format"]) for one in nodes] == [(1, 1)] * 3
    late.kill()
    nodes.set_format(b'{"format": 2, "written_by": "9.0"}')
    try:
        with pytest.raises(AssertionError, match=r"the grid has format 2, written by iot-mqtt 9\.0"):
            late.start()
        assert nodes[0].api("status")["ready"]
    finally:
        nodes.set_format(b'{"format": 1, "written_by": "0.1.0"}')
    late.start()
