"""The end of what the nodes stand on, under load: a grid server's by kill -9 or a full heap, and that of ZooKeeper's
leader. The nodes live on.

``CLUSTER_SUBSCRIBERS`` and ``CLUSTER_RATE`` (messages a second) make it larger, ``CLUSTER_ROUNDS`` longer,
``CLUSTER_IGNITES`` says of how many grid servers one is killed: 300, 1500, 3 and 3 are the size that it is meant for.
Before the next server is killed the grid says that each entry has its copies again, as whoever operates it would wait.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.load import PATIENCE, Figures, Load, size
from tests.cluster.nodes import Nodes, eventually
from tests.enginekit.servers import Server

ROUNDS, SUBSCRIBERS, RATE, SEED = size(subscribers=60, rate=300)
#: Seconds in which nothing may be acknowledged.
STALL_SECONDS = 8.0 * PATIENCE
DRAIN_SECONDS = 40.0
#: Seconds until every entry has its copies again.
COPIED_SECONDS = 60.0
#: A server dies with the thread that started it, and is to outlive this test.
_STARTER = ThreadPoolExecutor(1, "starter")
#: What a node says when it has had to let go of everything and begin anew.
NEW_LIFE = "the life of this node is over"


async def _run(load: Load, nodes: Nodes, victim: Callable[[], Server], *, full: bool) -> tuple[Figures, float]:
    await load.start()
    longest = 0.0
    try:
        for _ in range(ROUNDS):
            await asyncio.sleep(1.0)
            load.take_stall()
            server = await asyncio.to_thread(victim)
            await asyncio.to_thread(server.run_out_of_memory if full else server.kill)
            await asyncio.sleep(STALL_SECONDS + 2.0)
            longest = max(longest, load.take_stall())
            await asyncio.get_running_loop().run_in_executor(_STARTER, server.start)
            began = time.monotonic()
            copied = await asyncio.to_thread(eventually, nodes.servers.copied, COPIED_SECONDS)
            taken = time.monotonic() - began
            assert copied, f"the grid lacks copies: {[one.copies_missing for one in nodes.servers.ignite]}"
            print(f"{server.name}: stall {longest:.2f} s, back {load.take_stall():.2f} s, copies after {taken:.1f} s")
        return await load.finish(DRAIN_SECONDS), longest
    finally:
        await load.stop()


@pytest.mark.parametrize("kind", ["ignite", "ignite out of memory", "zookeeper"])
def test_the_end_of_a_server_stalls_the_nodes_and_no_more(nodes: Nodes, kind: str) -> None:
    """Publishing goes on within seconds, no node ends or begins anew, and nothing is lost."""
    print(f"CLUSTER_SEED={SEED} kind={kind} rounds={ROUNDS} subscribers={SUBSCRIBERS} rate={RATE}")
    dice = random.Random(SEED)

    def victim() -> Server:
        return dice.choice(nodes.servers.ignite) if kind != "zookeeper" else nodes.servers.leader

    before = [node.log_text().count(NEW_LIFE) for node in nodes]
    pids = [node.pid for node in nodes]
    load = Load(nodes.ports, dice, subscribers=SUBSCRIBERS, rate=RATE, name=f"without-{kind.replace(' ', '-')}")
    figures, stall = asyncio.run(_run(load, nodes, victim, full=kind == "ignite out of memory"))
    print(figures)
    assert [node.pid for node in nodes if node.process is not None and node.process.poll() is None] == pids
    assert [node.log_text().count(NEW_LIFE) for node in nodes] == before, "a node has begun anew"
    load.check(figures)
    assert stall <= STALL_SECONDS, f"nothing was acknowledged for {stall:.1f} s: {figures}"
    assert figures.drained_in < DRAIN_SECONDS, f"not drained: {figures}"
