"""An earlier release beside this one: node after node is replaced under load, back and forth, and nothing is lost.

``CLUSTER_SUBSCRIBERS``, ``CLUSTER_RATE`` and ``CLUSTER_SEED`` as for kills.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import subprocess
import sys
from pathlib import Path

import pytest
from systemkit.forking import clean_environment
from systemkit.process import Options

from tests.cluster import earlier
from tests.cluster.load import Figures, Load, size
from tests.cluster.nodes import Nodes, eventually

_, SUBSCRIBERS, RATE, SEED = size(subscribers=40, rate=150)
DRAIN_SECONDS = 40.0
#: What a node may be to another: those of other tests, which are stopped, among them.
SETTLED = ("self", "up", "left", "dead", "stopped", "gone")


@pytest.fixture(scope="module")
def earlier_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it lies; nodes that are told so run it, and not this one."""
    source = earlier.unpack(tmp_path_factory.mktemp("earlier"))
    asked = [sys.executable, "-c", "import iot_mqtt; print(iot_mqtt.__file__)"]
    environment = clean_environment() | {"PYTHONPATH": str(source)}
    found = subprocess.run(asked, cwd="/", env=environment, capture_output=True, check=True)
    assert found.stdout.decode().strip() == str(source / "iot_mqtt" / "__init__.py")
    return source


def replace(nodes: Nodes, index: int, source: Path | None) -> None:
    """Stop a node in peace, and start the other release on its data."""
    node = nodes[index]
    assert node.terminate() == 0
    node.source = source
    told, node.options = node.options, known_to(source, node.options)
    try:
        node.start()
    finally:
        node.options = told
    assert eventually(lambda: agree(nodes), 40), "the nodes do not come to agree"


def known_to(source: Path | None, options: Options) -> Options:
    """What the nodes are told, without what the earlier release does not know."""
    if source is None:
        return options
    known = {key: value for key, value in options.settings.items() if not key.startswith("telemetry.traces.")}
    return dataclasses.replace(options, settings=known)


def agree(nodes: Nodes) -> bool:
    """Whether every node sees the others, and both sides act on the same."""
    return all(
        member["state"] in SETTLED and (member["state"] != "up" or member["routes_agree"])
        for node in nodes
        for member in node.api("cluster")["members"]
    )


async def _run(nodes: Nodes, load: Load, earlier_release: Path) -> Figures:
    await load.start()
    try:
        for source in (earlier_release, None):
            for index in range(len(nodes)):
                await asyncio.sleep(0.5)
                load.note(f"{nodes[index].port} becomes {'this release' if source is None else 'the earlier one'}")
                await asyncio.to_thread(replace, nodes, index, source)
        return await load.finish(DRAIN_SECONDS)
    finally:
        await load.stop()


def test_nodes_are_replaced_by_an_earlier_release_and_back(nodes: Nodes, earlier_release: Path) -> None:
    """QoS 1 and 2, sessions that move between releases: what was acknowledged arrives, at QoS 2 once."""
    print(f"CLUSTER_SEED={SEED} subscribers={SUBSCRIBERS} rate={RATE} earlier={earlier.named()}")
    load = Load(nodes.ports, random.Random(SEED), subscribers=SUBSCRIBERS, rate=RATE, name="upgrading")
    try:
        figures = asyncio.run(_run(nodes, load, earlier_release))
    finally:
        for node in nodes:
            if node.source is not None:
                node.reap()
                node.source = None
    print(figures)
    print(load.outages_by_event())
    load.check(figures)
    assert figures.account.acked > RATE * 5, "hardly any load"
    assert figures.drained_in < DRAIN_SECONDS, f"not drained: {figures}"
