"""What ``docs/cluster.md`` asks of its three nodes, typed as the page has it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from contextlib import ExitStack

from systemkit.pages import ROOT, blocks

from tests.cluster.nodes import Nodes
from tests.cluster.test_nodes_basics import enter

ME = "tests/cluster/test_nodes_page.py::test_any_node_is_asked_by_its_data_directory"


def typed(nodes: Nodes, command: str) -> str:
    """What a command prints whose nodes are these."""
    folders = {f".cluster/{node.name}": str(node.data_dir) for node in nodes}
    program, *words = shlex.split(command)
    assert program == ".venv/bin/iot-mqtt"
    line = [sys.executable, "-m", "iot_mqtt", *(folders.get(word, word) for word in words)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_any_node_is_asked_by_its_data_directory(nodes: Nodes) -> None:
    """One tells of all of them, and of a session that is at home on another."""
    (block,) = [one for one in blocks(ROOT / "docs" / "cluster.md") if ME in one.marked("run by")]
    status, why = (command.text for command in block.commands)
    with ExitStack() as stack:
        enter(stack, nodes[1], "logger", clean=False, expiry=60).subscribe(("plant/#", 1))
        told = typed(nodes, status)
        assert all(node.name in told for node in nodes), told
        told = typed(nodes, why)
        assert nodes[1].name in told, told
