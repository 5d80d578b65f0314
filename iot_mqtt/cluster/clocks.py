"""Whose wall clock is wrong. Clocks have to agree: what expires (messages, commands, bans, delayed wills) carries the
time of the node that made it, and is over by the clock of the node that has it.

A clock is wrong that is apart from the middle of the others'. Where as many nodes say one thing as another nobody knows
who is right, and all are named. So nothing new is said while one of them is being measured anew: the others alone would
say something else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from statistics import median_high, median_low
from typing import Final

from iot_mqtt.ports.cluster_status import clock_words

log = logging.getLogger(__name__)

#: Seconds from which on a clock is wrong, and below which it is right again.
_WRONG: Final = 2.0
_RIGHT: Final = 1.0


class Clocks:
    """Of the nodes that are heard, as they look from this one."""

    def __init__(self, node_id: str, ahead: Callable[[], Mapping[str, float]], settled: Callable[[], bool]) -> None:
        """``ahead``: the others, as far as it is known, and how far their clocks are ahead of this node's. ``settled``:
        none of these is being measured anew.
        """
        self._node_id = node_id
        self._ahead = ahead
        self._settled = settled
        #: Node id → seconds that it is ahead of the others; negative: behind.
        self.wrong: Mapping[str, float] = {}

    def look(self) -> None:
        """Every few seconds."""
        if not self._settled():
            return
        before, self.wrong = self.wrong, wrong({self._node_id: 0.0, **self._ahead()}, self.wrong)
        for name in self.wrong.keys() - before.keys():
            log.warning("%s: see that NTP sets it", clock_words(name, self.wrong[name]))
        for name in before.keys() - self.wrong.keys():
            log.warning("the clock of %s agrees with the others again", name)


def wrong(clocks: Mapping[str, float], before: Collection[str]) -> dict[str, float]:
    """Those that are wrong, and by how much; ``before``: those that were."""
    found = {}
    for name, clock in clocks.items():
        others = [one for other, one in clocks.items() if other != name]
        if not others:
            continue
        apart = clock - min(max(clock, median_low(others)), median_high(others))
        if abs(apart) > (_RIGHT if name in before else _WRONG):
            found[name] = apart
    return found
