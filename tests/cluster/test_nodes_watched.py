"""What happens at one node is seen at another, and one node is changed through another: by the API and by ``ctl``."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from systemkit.process import our_command

from iot_mqtt.admin.token import read_token
from tests.cluster.nodes import BrokerNode, Nodes, eventually
from tests.cluster.test_nodes_basics import enter, send, unique
from tests.ports import free_port


def _command(node: BrokerNode, *words: str) -> list[str]:
    """``ctl``, asked at this node."""
    return [*our_command(), "ctl", "--data-dir", str(node.data_dir), *words, "--json"]


def _ctl(node: BrokerNode, *words: str) -> Any:
    done = subprocess.run(_command(node, *words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return json.loads(done.stdout) if done.stdout.strip() else None


def _first_event(node: BrokerNode, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first event of the stream that is wanted."""
    url = f"http://127.0.0.1:{node.ports['admin']}/api/v1/events?kind=client.connected"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {read_token(str(node.data_dir))}"})
    with urllib.request.urlopen(request, timeout=20) as stream:
        for line in stream:
            if line.startswith(b"data: ") and wanted(event := json.loads(line[6:])):
                return dict(event)
    raise AssertionError("the stream has ended")


def test_events_of_all_nodes_come_to_who_listens_at_one(nodes: Nodes) -> None:
    """With the node at which it happened."""
    name = unique("watched")
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        listening = pool.submit(_first_event, nodes[0], lambda one: name in json.dumps(one))

        def found() -> bool:
            # Until the others are listened to: what was before is not told.
            enter(stack, nodes[2], unique(name))
            return listening.done()

        assert eventually(found)
        assert listening.result()["node"] == nodes[2].name


def test_a_trace_at_one_node_has_the_packets_of_another(nodes: Nodes, tmp_path: Path) -> None:
    """Of a client there, without its payloads."""
    name = unique("traced")
    # A pipe that nobody reads would fill, and the trace would not end.
    told = tmp_path / "trace"
    with ExitStack() as stack:
        client = enter(stack, nodes[2], name)
        command = _command(nodes[0], "trace", name, "--seconds", "3")
        with told.open("wb") as output, subprocess.Popen(command, stdout=output) as tracing:
            while tracing.poll() is None:
                send(client, f"traced/{name}", b"hidden-payload", 1)
    text = told.read_text(encoding="utf-8")
    packets = [one for one in map(json.loads, text.splitlines()) if one["event"] == "packet"]
    assert {one["node"] for one in packets} == {nodes[2].name}
    assert {"in", "out"} == {one["direction"] for one in packets}
    assert "hidden-payload" not in text


def test_a_key_of_one_node_is_changed_through_another(nodes: Nodes) -> None:
    """And of no other; taking it back is seen, too."""
    key = "mqtt.max_queued_messages"

    def values() -> list[Any]:
        return [node.api(f"config/{key}?node={node.name}")["value"] for node in nodes]

    before = values()
    _ctl(nodes[0], "config", "set", f"{key}=77", "--on", nodes[2].name)
    assert values() == [*before[:2], 77]
    assert nodes[1].api(f"config/{key}?node={nodes[2].name}")["value"] == 77
    _ctl(nodes[1], "config", "unset", key, "--on", nodes[2].name)
    assert values() == before


def test_a_listener_of_one_node_is_opened_and_closed_through_another(nodes: Nodes) -> None:
    """Every node lists it with its node; clients get in there."""
    port = free_port()
    _ctl(nodes[0], "listeners", "open", "extra", "protocol=mqtt", f"port={port}", "--on", nodes[2].name)
    try:
        for node in nodes:
            listed = [one for one in node.api("listeners?limit=100")["items"] if one["name"] == "extra"]
            assert [(one["node"], one["port"]) for one in listed] == [(nodes[2].name, port)]
        socket.create_connection(("127.0.0.1", port), 5).close()
    finally:
        _ctl(nodes[1], "listeners", "close", "extra", "--on", nodes[2].name)
    assert not [one for one in nodes[0].api("listeners?limit=100")["items"] if one["name"] == "extra"]
