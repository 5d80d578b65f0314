"""Commands to devices that move between the nodes of a cluster, one of which dies: each has an end.

``FLEET_COMMANDS``, ``FLEET_DEVICES``, ``FLEET_SECONDS`` (of posting) and ``FLEET_MOVES`` (a second) make it larger:
10000, 1000, 90 and 25 are the size that is promised. ``FLEET_SEED`` repeats a run.
"""

from __future__ import annotations

import asyncio
import os
import random
import time

import pytest

from tests.cluster.nodes import Nodes
from tests.cluster.ordering import Crowd

COMMANDS = int(os.environ.get("FLEET_COMMANDS", "300"))
DEVICES = int(os.environ.get("FLEET_DEVICES", "60"))
SECONDS = float(os.environ.get("FLEET_SECONDS", "8"))
MOVES = float(os.environ.get("FLEET_MOVES", "5"))
SEED = int(os.environ.get("FLEET_SEED", random.SystemRandom().randrange(1_000_000)))


@pytest.mark.timeout(300 + COMMANDS // 10)
def test_every_command_to_a_fleet_among_nodes_has_an_end(nodes: Nodes) -> None:
    """Devices behind gateways and by themselves, orders to any node, one node killed: none silent, none twice."""
    print(f"FLEET_SEED={SEED} commands={COMMANDS} devices={DEVICES} in {SECONDS} s, moves={MOVES}/s")
    crowd = Crowd(nodes.all, random.Random(SEED), devices=DEVICES, commands=COMMANDS)

    def kill() -> None:
        time.sleep(SECONDS / 3)
        nodes[1].kill()
        # Its sessions are adopted meanwhile, or come back with it.
        time.sleep(SECONDS / 3)
        nodes[1].start()

    found = asyncio.run(crowd.run(SECONDS, MOVES, kill))
    print(f"{found} moves={crowd.moves}")
    crowd.judge(found)
    assert found.states["acked"] > COMMANDS / 2
    assert found.states["uncertain"]
