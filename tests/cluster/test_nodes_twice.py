"""A ``node.id`` that was given twice: the node that is there does not notice, and the other one says where that is."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.cluster.nodes import BrokerNode, Nodes
from tests.cluster.test_nodes_basics import burst, drain, enter

#: Seconds that a newcomer waits for an answer, and a start.
REFUSED_SECONDS = 60


def test_a_second_process_with_the_name_of_a_node_is_refused_and_costs_nobody_anything(
    nodes: Nodes, tmp_path: Path
) -> None:
    """The clients of the first stay where they are, with their sessions."""
    twin = BrokerNode(tmp_path / "twin", nodes[1].name, nodes.settings)
    before = nodes[1].log_text()
    with ExitStack() as stack:
        reader = enter(stack, nodes[1], "at-the-first", keep_alive=0)
        reader.subscribe(("twice/#", 1))
        ended = subprocess.run(
            twin.command(),
            capture_output=True,
            text=True,
            env=twin.environment(),
            timeout=REFUSED_SECONDS,
            check=False,
        )
        assert ended.returncode == 1, ended
        assert str(nodes[1].data_dir) in ended.stderr and "a node.id of its own" in ended.stderr
        burst(enter(stack, nodes[0]), "twice/t", [b"still here"], qos=1)
        assert drain(reader) == [b"still here"]
    said = nodes[1].log_text().removeprefix(before)
    assert "wants to be this node" in said and "a new one" not in said
