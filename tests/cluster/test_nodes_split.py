"""The network between three sites breaks, under load: the one that is cut off serves nobody, and comes back by itself.

``CLUSTER_ROUNDS`` makes it longer: in every other round one site is cut off from the two others, in the rest what one
site sends to another is lost and nothing else. ``CLUSTER_SEED`` repeats a run.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from systemkit import wire
from systemkit.plain import Plain

from tests.cluster.load import PATIENCE, Load
from tests.cluster.nodes import SESSION_SECONDS, eventually
from tests.cluster.sites import SiteNode, Sites, sites, unavailable

WHY_NOT = unavailable()
pytestmark = [pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)), pytest.mark.timeout(900)]
ROUNDS = int(os.environ.get("CLUSTER_ROUNDS", "2"))
SEED = int(os.environ.get("CLUSTER_SEED", random.SystemRandom().randrange(1_000_000)))
#: Seconds until a site that is cut off has sent its clients away, and until all is well after the network is.
SENT_AWAY_SECONDS = SESSION_SECONDS + 2.0 * PATIENCE
CONVERGED_SECONDS = 15.0 * PATIENCE
CUT_SECONDS = SESSION_SECONDS + 6.0
#: Server unavailable, use another server.
REASONS = (0x88, 0x9C)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Sites]:
    with sites(tmp_path) as found:
        yield found


def dial(node: SiteNode, seconds: float = 5) -> Plain:
    return Plain(node.port, version=5, sock=socket.create_connection((node.host, node.port), seconds))


def answer(node: SiteNode) -> int | None:
    """The reason code of CONNACK; None if none comes."""
    try:
        with dial(node) as client:
            client.send(wire.connect(f"probe-{random.randrange(10**9)}", version=5))
            got = client.receive(5)
            return got.reason() if got is not None and got.kind == wire.CONNACK else None
    except OSError:
        return None


def speak(nodes: list[SiteNode]) -> bool:
    """Whether what is published at each is received at all, by clients that connect now."""
    try:
        readers = [dial(node) for node in nodes]
        topic = f"speak/{random.randrange(10**9)}"
        for reader in readers:
            reader.connect(f"probe-{random.randrange(10**9)}")
            reader.subscribe((topic, 0))
        for writer in readers:
            writer.publish(topic, b"")
        for reader in readers:
            for _ in nodes:
                if reader.receive(1.0) is None:
                    return False
    except (OSError, AssertionError):
        return False
    return True


def sent_away(client: Plain) -> int | None:
    """The reason code of DISCONNECT; None if the connection ended without, TimeoutError if it is still there."""
    try:
        while (got := client.receive(SENT_AWAY_SECONDS + 5)) is not None:
            if got.kind == wire.DISCONNECT:
                return got.reason()
    except OSError as error:
        if isinstance(error, TimeoutError):
            raise
    return None


def cut_off(three: Sites, site: int) -> None:
    """One site is cut off from the others, both ways: its clients are sent away, new ones refused, with a reason."""
    others = [index for index in range(len(three.nodes)) if index != site]
    with dial(three.nodes[site]) as guest:
        guest.connect("guest-of-the-cut-off")
        began = time.monotonic()
        for other in others:
            three.network.cut(site, other)
            three.network.cut(other, site)
        reason = sent_away(guest)
        taken = time.monotonic() - began
    refused = answer(three.nodes[site])
    print(f"cut off site {site + 1}: sent away with {reason} after {taken:.1f} s, then CONNACK {refused}")
    assert reason in REASONS
    assert taken <= SENT_AWAY_SECONDS
    assert refused in REASONS
    assert eventually(lambda: speak([three.nodes[other] for other in others]), began + 30 - time.monotonic())
    print(f"  the others spoke with each other {time.monotonic() - began:.1f} s after the cut")
    assert not eventually(lambda: answer(three.nodes[site]) == 0, began + CUT_SECONDS - time.monotonic())


def one_way(three: Sites, sender: int, receiver: int) -> None:
    """What one site sends to another is lost. Whoever suffers is not said; whoever serves clients does it well."""
    print(f"site {sender + 1} is not heard by site {receiver + 1}")
    three.network.cut(sender, receiver)
    ends = time.monotonic() + CUT_SECONDS
    assert not eventually(
        lambda: any(node.process is None or node.process.poll() is not None for node in three.nodes),
        ends - time.monotonic(),
    ), "a node has ended"


async def _run(three: Sites, dice: random.Random) -> None:
    load = Load([node.port for node in three.nodes], dice, subscribers=24, rate=100, name="split")
    for client in load.clients:
        client.hosts = {node.port: node.host for node in three.nodes}
    await load.start()
    try:
        for number in range(ROUNDS):
            await asyncio.sleep(2.0)
            first, second = dice.sample(range(len(three.nodes)), 2)
            load.note(f"cut {first + 1} {'off' if number % 2 == 0 else f'to {second + 1}'}")
            if number % 2 == 0:
                await asyncio.to_thread(cut_off, three, first)
            else:
                await asyncio.to_thread(one_way, three, first, second)
            three.network.heal()
            load.note("heal")
            healed = time.monotonic()
            converged = await asyncio.to_thread(eventually, lambda: speak(three.nodes), 60)
            taken = time.monotonic() - healed
            print(
                f"  converged {taken:.1f} s after the heal; grid servers that run: "
                f"{[server.running for server in three.ignite]}; stall {load.take_stall():.1f} s"
            )
            assert converged and taken <= CONVERGED_SECONDS, f"not converged after {taken:.1f} s"
            assert all(node.process is not None and node.process.poll() is None for node in three.nodes)
            await asyncio.to_thread(three.whole)
        figures = await load.finish(40)
        print(figures)
        load.check(figures)
    finally:
        await load.stop()


def test_a_split_spoils_nothing(three: Sites) -> None:
    """Nothing acknowledged is lost or twice at QoS 2, no node misses a page of a log, and none is started anew."""
    print(f"CLUSTER_SEED={SEED} rounds={ROUNDS}")
    asyncio.run(_run(three, random.Random(SEED)))
    for node in three.nodes:
        node.assert_no_traceback()
        damage = [line for line in node.log_text(whole=True).splitlines() if "the log is damaged" in line]
        assert not damage, damage[:10]
