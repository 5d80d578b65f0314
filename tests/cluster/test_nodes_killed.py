"""kill -9 of nodes under load: their clients go on elsewhere, and what was acknowledged arrives, once at QoS 2.

``CLUSTER_ROUNDS``, ``CLUSTER_SUBSCRIBERS``, ``CLUSTER_RATE`` (messages a second) and ``CLUSTER_PAUSE`` (seconds between
two kills) make it larger: 10, 300, 1500 and 20 are the size that the cluster is meant for. ``CLUSTER_SEED`` repeats a
run.
"""

from __future__ import annotations

import asyncio
import os
import random

from tests.cluster.load import PATIENCE, Figures, Load
from tests.cluster.nodes import Nodes

ROUNDS = int(os.environ.get("CLUSTER_ROUNDS", "2"))
SUBSCRIBERS = int(os.environ.get("CLUSTER_SUBSCRIBERS", "60"))
RATE = int(os.environ.get("CLUSTER_RATE", "300"))
PAUSE = float(os.environ.get("CLUSTER_PAUSE", "12"))
SEED = int(os.environ.get("CLUSTER_SEED", random.SystemRandom().randrange(1_000_000)))
#: Seconds until a client whose node died is served by another one, but for one in a hundred.
BACK_SECONDS = 10.0 * PATIENCE
DRAIN_SECONDS = 40.0


async def _run(nodes: Nodes, load: Load, dice: random.Random) -> Figures:
    await load.start()
    try:
        for number in range(ROUNDS):
            await asyncio.sleep(dice.uniform(1.0, 2.0))
            victim = dice.choice(nodes.all)
            load.note(f"kill {victim.port}")
            victim.kill()
            # Longer than it takes to be declared dead in one round, shorter in the next.
            await asyncio.sleep(PAUSE * (0.7 if number % 2 == 0 else 0.2))
            load.note(f"start {victim.port}")
            await asyncio.to_thread(victim.start)
            load.note(f"ready {victim.port}")
            await asyncio.sleep(PAUSE * (0.15 if number % 2 == 0 else 0.65))
        return await load.finish(DRAIN_SECONDS)
    finally:
        await load.stop()


def test_kill_9_of_a_node_loses_nothing_acknowledged(nodes: Nodes) -> None:
    """Whoever was connected there is back within seconds, with its session."""
    print(f"CLUSTER_SEED={SEED} rounds={ROUNDS} subscribers={SUBSCRIBERS} rate={RATE}")
    dice = random.Random(SEED)
    load = Load(nodes.ports, dice, subscribers=SUBSCRIBERS, rate=RATE, name="killed")
    figures = asyncio.run(_run(nodes, load, dice))
    print(figures)
    print(load.outages_by_event())
    load.check(figures)
    assert figures.account.acked > RATE * ROUNDS, "hardly any load"
    assert figures.outages[1] <= BACK_SECONDS, f"clients were away for too long: {figures}"
    assert figures.drained_in < DRAIN_SECONDS, f"not drained: {figures}"
