"""Commands to devices that drop, move between connections and come back, while the broker is killed: each has an end.

``FLEET_COMMANDS``, ``FLEET_DEVICES``, ``FLEET_SECONDS`` (of posting) and ``FLEET_MOVES`` (a second) make it larger:
10000, 1000, 60 and 50 are the size that is promised. ``FLEET_SEED`` repeats a run.
"""

from __future__ import annotations

import asyncio
import os
import random
import time

import pytest
from systemkit.process import MOSQUITTO
from systemkit.starting import StartBroker

from tests.cluster.ordering import Crowd

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto knows no commands")

COMMANDS = int(os.environ.get("FLEET_COMMANDS", "600"))
DEVICES = int(os.environ.get("FLEET_DEVICES", "100"))
SECONDS = float(os.environ.get("FLEET_SECONDS", "8"))
MOVES = float(os.environ.get("FLEET_MOVES", "10"))
SEED = int(os.environ.get("FLEET_SEED", random.SystemRandom().randrange(1_000_000)))
KILLS = 2


@pytest.mark.timeout(300 + COMMANDS // 10)
def test_every_command_to_a_moving_fleet_has_an_end(start_broker: StartBroker) -> None:
    """Devices behind gateways and by themselves, MQTT and REST, ``kill -9`` in the middle: none silent, none twice."""
    print(f"FLEET_SEED={SEED} commands={COMMANDS} devices={DEVICES} in {SECONDS} s, moves={MOVES}/s")
    dice = random.Random(SEED)
    broker = start_broker()
    crowd = Crowd([broker], dice, devices=DEVICES, commands=COMMANDS)

    def kill() -> None:
        for _ in range(KILLS):
            time.sleep(SECONDS / (KILLS + 1))
            broker.restart()

    found = asyncio.run(crowd.run(SECONDS, MOVES, kill))
    print(f"{found} moves={crowd.moves}")
    crowd.judge(found)
    assert found.states["acked"] > COMMANDS / 2
    assert found.states["uncertain"] and found.states["expired"]
