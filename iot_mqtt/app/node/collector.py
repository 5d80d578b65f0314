"""When Python's garbage collector runs, so that it holds nobody up.

Reference counts free nearly everything; the collector is there for cycles. What it costs grows with the objects that it
looks at: a million of them, which ten thousand clients have, is a second in which nobody is served. So it looks at the
youngest only, after each ``threshold`` allocations that were not freed again: some 0.1 ms. What outlives that is not
looked at any more, until Python's memory has grown by ``GROWTH`` and at least ``ROOM_BLOCKS`` since everything was
looked at, not counting what clients take (``held``). That is as much as old cycles can take, and where there are none
it does not happen: a node of a cluster that another one's clients come to must not stand still for as long as it takes
to look at them. See docs/adr/0016.
"""

from __future__ import annotations

import gc
import logging
import resource
import sys
from collections.abc import Callable
from typing import Final

from iot_mqtt.broker.composition import Composition
from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)

#: As many collections of the young as never come: the old are collected by ``look`` alone.
NEVER = 2**31 - 1
#: By what part of itself Python's memory grows, beside what is explained, before everything is looked at.
GROWTH = 1.0
#: Objects (a client has about forty), and kilobytes of the process, that it may grow by in any case.
ROOM_BLOCKS = 4_000_000
ROOM_KILOBYTES = 1_000_000
#: Seconds between two looks at how much there is.
LOOK_SECONDS = 60.0
#: Objects that one of them takes, rather more than it does.
OF_A_CONNECTION, OF_A_SESSION, OF_A_SUBSCRIPTION, OF_A_RETAINED = 10, 35, 15, 5


def peak_kilobytes() -> int:
    """The most memory that the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Collector:
    """Sets Python's collector; ``look`` is to be called every ``LOOK_SECONDS``."""

    def __init__(
        self,
        threshold: int,
        clock: Clock,
        held: Callable[[], int],
        blocks: Callable[[], int] = sys.getallocatedblocks,
        kilobytes: Callable[[], int] = peak_kilobytes,
    ) -> None:
        self._threshold = threshold
        self._clock = clock
        #: How many objects what is there has, as far as that is known: no garbage.
        self._held = held
        self._blocks = blocks
        self._kilobytes = kilobytes
        self._most_blocks = self._most_kilobytes = 0.0

    def begin(self, *, again: bool = False) -> None:
        """What was loaded stays. With a threshold of 0 everything else is as Python has it. ``again``: an earlier life
        of the node is over, whose objects are looked at, for nobody is served yet.
        """
        if again:
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        if self._threshold:
            gc.set_threshold(self._threshold, NEVER, NEVER)
            self._note()

    def look(self) -> None:
        """Collect everything, the old as well, if there is much more than the last time."""
        if not self._threshold:
            return
        if self._unexplained() < self._most_blocks and self._kilobytes() < self._most_kilobytes:
            return
        begin = self._clock.monotonic()
        gc.unfreeze()
        found = gc.collect()
        gc.freeze()
        self._note()
        seconds = round(self._clock.monotonic() - begin, 3)
        log.info("memory has grown: all of it was searched for cycles", extra={"seconds": seconds, "found": found})

    def _unexplained(self) -> int:
        return self._blocks() - self._held()

    def _note(self) -> None:
        blocks, kilobytes = self._unexplained(), self._kilobytes()
        self._most_blocks = blocks + max(GROWTH * blocks, ROOM_BLOCKS)
        self._most_kilobytes = kilobytes + max(GROWTH * kilobytes, ROOM_KILOBYTES)


def held(broker: Composition) -> int:
    """About how many objects a broker's clients, sessions, subscriptions and retained messages are."""
    return (
        OF_A_CONNECTION * broker.clients.connections.clients
        + OF_A_SESSION * len(broker.sessions)
        + OF_A_SUBSCRIPTION * broker.routing.routes.subscription_count
        + OF_A_RETAINED * broker.publishing.retention.index.count
    )


#: Bytes of a block that malloc asks the system for by itself. It keeps twice as many free ones.
LARGE: Final = 4 * 1024 * 1024


def keep_freed() -> None:
    """Raise what malloc keeps when it is free, for the life of the process.

    As glibc begins, 128 KiB are kept: buffers of a few messages of 100 kB go back to the system after each turn, and
    come again as pages that have to be cleared, which costs more than to receive and send such a message. Its bound
    follows the largest block that was ever freed (mallopt(3), "dynamic mmap threshold"), so one is. Other libraries
    lose nothing.
    """
    bytes(LARGE)
