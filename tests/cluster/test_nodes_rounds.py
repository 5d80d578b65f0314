"""Trouble by lot under load, round after round: with nodes, with grid servers, with ZooKeeper, with all at once.

Each round kills, stops or freezes something and brings it back. Meanwhile publishers and subscribers move from node to
node, and subscribers leave for good and others come. What was acknowledged arrives, once at QoS 2, and no session is
forgotten. ``CLUSTER_ROUNDS``, ``CLUSTER_SUBSCRIBERS`` and ``CLUSTER_RATE`` (messages a second) make it larger; 30, 300
and 1500 are the size that the cluster is meant for. ``CLUSTER_TROUBLE`` is a list of the troubles to choose from,
``CLUSTER_GRID=disk`` puts the grid on disk, where all servers may be killed, too. ``CLUSTER_SEED`` repeats a run.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.conftest import ON_DISK
from tests.cluster.load import PATIENCE, Figures, Load, size
from tests.cluster.nodes import SESSION_SECONDS, BrokerNode, Nodes, eventually
from tests.enginekit.servers import Server

ROUNDS, SUBSCRIBERS, RATE, SEED = size(rounds=3, subscribers=60, rate=300)
#: Seconds until a client whose node was killed is served by another one, but for one in a hundred.
BACK_SECONDS = 10.0 * PATIENCE
#: Seconds after the last trouble within which everybody has everything.
DRAIN_SECONDS = 60.0
#: Seconds until every entry of the grid has its copies again.
COPIED_SECONDS = 60.0
#: Seconds between two moves, and between two subscribers that leave for good.
MOVE_EVERY, LEAVE_EVERY = 0.2, 1.0
#: A server dies with the thread that started it, and is to outlive this test.
_STARTER = ThreadPoolExecutor(1, "starter")

Trouble = Callable[[Nodes, random.Random], None]


def _outage(dice: random.Random) -> float:
    """Longer than it takes to be declared dead, or shorter."""
    return dice.choice((dice.uniform(0.0, 2.0), dice.uniform(1.5, 2.0) * SESSION_SECONDS))


def _end(node: BrokerNode, *, kill: bool) -> None:
    if kill:
        node.kill()
    else:
        assert node.terminate() == 0


def node_killed(nodes: Nodes, dice: random.Random) -> None:
    """SIGKILL."""
    node = dice.choice(nodes.all)
    _end(node, kill=True)
    time.sleep(_outage(dice))
    node.start()


def node_stopped(nodes: Nodes, dice: random.Random) -> None:
    """SIGTERM: it sends its clients away."""
    node = dice.choice(nodes.all)
    _end(node, kill=False)
    time.sleep(_outage(dice))
    node.start()


def node_frozen(nodes: Nodes, dice: random.Random) -> None:
    """SIGSTOP, and on."""
    node = dice.choice(nodes.all)
    node.pause()
    time.sleep(_outage(dice))
    node.resume()


def nodes_killed(nodes: Nodes, dice: random.Random) -> None:
    """All of them, or all but one."""
    victims = dice.sample(nodes.all, dice.choice((len(nodes) - 1, len(nodes))))
    for node in victims:
        _end(node, kill=True)
    time.sleep(_outage(dice))
    _start(victims)


def grid_server_killed(nodes: Nodes, dice: random.Random) -> None:
    """SIGKILL of one; no other suffers anything before each entry has its copies again."""
    server = dice.choice(nodes.servers.ignite)
    server.kill()
    time.sleep(dice.uniform(0.0, 6.0))
    _bring_back(nodes, server)


def grid_server_frozen(nodes: Nodes, dice: random.Random) -> None:
    """SIGSTOP, and on; it may have been given up meanwhile."""
    server = dice.choice(nodes.servers.ignite)
    server.pause()
    time.sleep(dice.choice((dice.uniform(0.0, 3.0), dice.uniform(12.0, 20.0))))
    server.resume()
    time.sleep(2.0)
    _bring_back(nodes, server)


def registry_server_killed(nodes: Nodes, dice: random.Random) -> None:
    """ZooKeeper's leader, or another one."""
    server = dice.choice([nodes.servers.leader, dice.choice(nodes.servers.zookeeper)])
    server.kill()
    time.sleep(dice.uniform(0.0, 6.0))
    server.start()


def registry_server_frozen(nodes: Nodes, dice: random.Random) -> None:
    """SIGSTOP of one, and on."""
    server = dice.choice(nodes.servers.zookeeper)
    server.pause()
    time.sleep(_outage(dice))
    server.resume()


def everything_killed(nodes: Nodes, dice: random.Random) -> None:
    """As a power switch would, and all of it started in any order."""
    servers = [*nodes.servers.ignite, *nodes.servers.zookeeper]
    kills = [victim.kill for victim in nodes] + [victim.kill for victim in servers]
    for kill in dice.sample(kills, len(kills)):
        kill()
    time.sleep(_outage(dice))
    # ``start`` of one waits until it works, which it may do only with the others.
    nodes.servers.cluster.start([server.member for server in dice.sample(servers, len(servers))])
    _start(nodes.all)
    _copied(nodes)


def _start(nodes: list[BrokerNode]) -> None:
    with ThreadPoolExecutor(len(nodes)) as threads:
        for starting in [threads.submit(node.start, 60) for node in nodes]:
            starting.result()


def _bring_back(nodes: Nodes, server: Server) -> None:
    def back() -> bool:
        # It ends by itself when it learns that it was given up, which may be now.
        if not server.alive:
            server.start()
        return nodes.servers.copied()

    _copied(nodes, back)


def _copied(nodes: Nodes, copied: Callable[[], bool] | None = None) -> None:
    assert eventually(copied or nodes.servers.copied, COPIED_SECONDS), (
        f"the grid lacks copies: {[server.copies_missing for server in nodes.servers.ignite]}"
    )


TROUBLES: dict[str, Trouble] = {
    trouble.__name__: trouble
    for trouble in (
        node_killed,
        node_stopped,
        node_frozen,
        nodes_killed,
        grid_server_killed,
        grid_server_frozen,
        registry_server_killed,
        registry_server_frozen,
        *([everything_killed] if ON_DISK else []),
    )
}
CHOICE = [name for name in os.environ.get("CLUSTER_TROUBLE", "").split(",") if name] or list(TROUBLES)


def _troubles(dice: random.Random) -> Iterator[str]:
    """The first first; then as many as there are rounds, none again before all others have been."""
    drawn: list[str] = CHOICE[:1]
    while len(drawn) < ROUNDS:
        drawn += dice.sample(CHOICE, len(CHOICE))
    yield from drawn[:ROUNDS]


async def _run(nodes: Nodes, load: Load, dice: random.Random) -> Figures:
    await load.start()
    unrest = asyncio.create_task(load.stay_unsettled(MOVE_EVERY, LEAVE_EVERY))
    try:
        for name in _troubles(dice):
            await asyncio.sleep(dice.uniform(1.0, 2.0))
            load.note(name)
            load.take_stall()
            began = time.monotonic()
            await asyncio.get_running_loop().run_in_executor(_STARTER, TROUBLES[name], nodes, dice)
            load.note(f"over: {name}")
            await asyncio.sleep(dice.uniform(1.0, 3.0))
            print(f"{name}: {time.monotonic() - began:.1f} s, no answer to anybody for {load.take_stall():.1f} s")
        unrest.cancel()
        return await load.finish(DRAIN_SECONDS)
    finally:
        unrest.cancel()
        await load.stop()


@pytest.mark.timeout(120 + 90 * ROUNDS)
def test_nothing_acknowledged_is_lost_whatever_dies(nodes: Nodes) -> None:
    """Whoever was connected there is back within seconds, with its session."""
    print(f"CLUSTER_SEED={SEED} rounds={ROUNDS} subscribers={SUBSCRIBERS} rate={RATE} grid on disk: {ON_DISK}")
    dice = random.Random(SEED)
    load = Load(nodes.ports, dice, subscribers=SUBSCRIBERS, rate=RATE, name="rounds")
    figures = asyncio.run(_run(nodes, load, dice))
    print(f"{figures}\n  {load.left_for_good} left for good, and as many came")
    print(load.outages_by_event())
    load.check(figures)
    assert figures.account.acked > RATE * ROUNDS, "hardly any load"
    back = load.back_after("node_killed")
    assert back <= BACK_SECONDS, f"clients of a node that was killed were away for {back:.1f} s"
    assert figures.drained_in < DRAIN_SECONDS, f"not drained: {figures}"
