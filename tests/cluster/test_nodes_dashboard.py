"""Three nodes in one real Chromium: whichever of them is asked, its pages answer for all."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from systemkit import wire
from systemkit.access import ANONYMOUS, attempt
from systemkit.dashboard import CHROMIUM, browse, buildable, person
from systemkit.users import call

from tests.cluster.nodes import Nodes
from tests.cluster.test_nodes_basics import enter, unique

ADMINISTRATIVE_ACTION, BANNED = 0x98, 0x8A


@pytest.mark.skipif(CHROMIUM is None or not buildable(), reason="needs Chromium, Node.js and scripts/setup.sh web")
def test_the_dashboard_of_one_node_answers_for_all(nodes: Nodes) -> None:
    """All that ``web/tests/browser/nodes.mjs`` does at the first node, about a client of the second one; at the end it
    kills the third one.
    """
    asked, other, stopped = nodes
    name = unique("conveyor-of-three")
    settings = person(asked, unique("shift-lead"))
    try:
        with ExitStack() as stack:
            client = enter(stack, other, name)
            browse(
                "nodes",
                {
                    **settings,
                    "client": name,
                    "at": other.name,
                    "nodes": [node.name for node in nodes],
                    "mqtt": {node.name: node.port for node in nodes},
                    "stopped": {"node": stopped.name, "pid": stopped.pid},
                },
            )
            assert client.expect(wire.DISCONNECT).reason() == ADMINISTRATIVE_ACTION
            client.until_closed()
        for node in (asked, other):
            guest, answer = attempt(node, ANONYMOUS, name, version=5)
            with guest:
                assert answer.reason() == BANNED
    finally:
        # It is known that it is not there: what starts it again does.
        stopped.kill()
        # The nodes are those of other tests, too.
        for ban in call(asked, "GET", "bans")[1]["items"]:
            if ban["client"] == name:
                call(asked, "DELETE", f"bans/{ban['id']}")
