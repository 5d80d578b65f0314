"""Clients that connect to the other node again and again, while messages for them are published.

``CLUSTER_TAKEOVERS`` (a second), ``CLUSTER_SECONDS``, ``CLUSTER_RATE`` (messages a second) and ``CLUSTER_SUBSCRIBERS``
make it larger: 200, 30, 1000 and 200 are the size that the cluster is meant for.
"""

from __future__ import annotations

import asyncio
import os
import random
import time

from tests.cluster.load import Figures, Load, size
from tests.cluster.nodes import Nodes

TAKEOVERS = float(os.environ.get("CLUSTER_TAKEOVERS", "50"))
SECONDS = float(os.environ.get("CLUSTER_SECONDS", "5"))
_, SUBSCRIBERS, RATE, SEED = size(subscribers=50, rate=250)
DRAIN_SECONDS = 30.0


async def _run(load: Load) -> tuple[Figures, float]:
    for index, client in enumerate(load.publishers):
        # They stay where they are: their order is promised.
        client.fixed = client.ports[index % len(client.ports)]
    await load.start()
    try:
        began = time.monotonic()
        turn = done = 0
        while (now := time.monotonic() - began) < SECONDS:
            # A client that has not arrived yet is passed over: it would not be one takeover more, but one less.
            for _ in load.subscribers:
                if done >= now * TAKEOVERS:
                    break
                turn = (turn + 1) % len(load.subscribers)
                if load.subscribers[turn].is_up:
                    load.subscribers[turn].hop()
                    done += 1
            await asyncio.sleep(0.005)
        rate = done / (time.monotonic() - began)
        figures = await load.finish(DRAIN_SECONDS)
        return figures, rate
    finally:
        await load.stop()


def test_sessions_that_move_all_the_time_lose_nothing(nodes: Nodes) -> None:
    """Each move leaves a connection behind, which its node closes; order is kept per publisher."""
    print(f"CLUSTER_SEED={SEED} takeovers={TAKEOVERS}/s for {SECONDS} s, rate={RATE}, subscribers={SUBSCRIBERS}")
    load = Load(nodes.ports[:2], random.Random(SEED), subscribers=SUBSCRIBERS, rate=RATE, name="moving")
    figures, rate = asyncio.run(_run(load))
    hops = sum(client.hops for client in load.subscribers)
    closed = sum(client.closed_behind for client in load.subscribers)
    print(f"{figures}\n  takeovers={hops} per_second={rate:.0f} closed_behind={closed}")
    load.check(figures, ordered=True)
    assert closed == hops, "an old connection was left open"
    assert rate > TAKEOVERS / 4, "hardly any takeovers"
    assert figures.account.acked > RATE * SECONDS / 4, "hardly any load"
