"""Which random cases a run tries: those that failed once, and fresh ones.

A run draws one number, says it before its first test and again behind a failure, and makes all its seeds of it::

    TEST_SEED=271828 pytest tests/unit/broker/test_elsewhere.py        the same cases again

``make test`` draws it from the sources: what passed passes again, and every change tries other cases. Hypothesis draws
its examples from it, too.

A case that failed is written into ``FAILED``, with the fault that it found, and is tried by every run from then on.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from typing import Final

#: By test; what each of them found is beside it.
FAILED: Final[Mapping[str, Sequence[int]]] = {
    # A node that answered what its sessions have of a durable group before it had read that.
    # One that heard of an adopter later than of the node that was back, and told that one what its members had done.
    # A session that left for another node in the turn in which its messages arrived, before that was written.
    # A second loan of a client of which nobody knows where it is, while the first one was looked for.
    # A group that was read by half gave out what came later, and counted what had been returned to it twice.
    # What was out at QoS 2 was looked for in the store, and had gone to another node with its group meanwhile.
    "nodes and members": (
        *(556426364, 887861036, 720732640, 761174663, 649673301, 192078394, 350752081),
        *(912446570, 1425),
    ),
    # A SUBSCRIBE in front of messages that had been gathered by receivers: flattened, they came in another order.
    # PUBACKs of messages that nobody keeps waited for the commit of those behind them in the same batch.
    # A row for kept sessions went to a publisher that did not want its own.
    "batches": (599349519, 615110923, 472545936, 399706764),
    # A node that did not hear where a device is at home said that it has no session, of commands for it.
    "commands": (204, 278),
    # A follower that met a start with more shards in two steps, and read none of the new ones.
    "courses of the log": (392977522,),
    # A hole over the beginning of a block of the write-ahead log: batches behind it, in the same block, were not found.
    "damage of some length": (191777330,),
}

#: Seeds are below it, so that they can be read and typed.
_END: Final = 1_000_000_000

#: What this run is made of.
RUN: Final = int(os.environ.get("TEST_SEED") or random.SystemRandom().randrange(_END))


def seed_of(test: str) -> int:
    """One fresh seed, for a test that takes only one."""
    return fresh(test, 1)[0]


def seeds_of(test: str, count: int) -> list[int]:
    """Those that failed once, and ``count`` fresh ones."""
    return [*FAILED.get(test, ()), *fresh(test, count)]


def fresh(test: str, count: int) -> list[int]:
    """No two tests of a run have the same."""
    dice = random.Random(f"{RUN} {test}")
    return [dice.randrange(_END) for _ in range(count)]
