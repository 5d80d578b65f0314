"""Nodes that left the list of members before it was known here what they want.

Others take their sessions over, and tell of them later. What those wanted is in the grid, where it was before any
client had its SUBACK, so it is read there: once the node is fenced, and writes nothing more. Until then whatever is
acknowledged is recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial

from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Interest
from iot_mqtt.ports.cluster_status import node_words

log = logging.getLogger(__name__)

#: What a node noted, given to whoever asked for it; None: the grid did not say.
Noted = Callable[[Sequence[Interest] | None], None]


class Untold:
    """Of one life of this node; nearly always there are none."""

    def __init__(
        self,
        read: Callable[[int, Noted], None],
        found: Callable[[int, Sequence[Interest]], None],
        changed: Callable[[], None],
        clock: Clock,
        again: float,
        words: Callable[[int], str] = node_words,
    ) -> None:
        """``read`` asks the grid what a node has noted, and ``found`` takes the answer; ``changed``: there may be none
        any more. ``again``: seconds until a question that failed is asked once more; ``words``: a node, for people.
        """
        self._words = words
        self._read = read
        self._found = found
        self._changed = changed
        self._clock = clock
        self._again = again
        #: Number → the latest time that it left.
        self._left: dict[int, object] = {}

    def __bool__(self) -> bool:
        return bool(self._left)

    def left(self, number: int) -> None:
        """It is off the list, and will be fenced."""
        self._left[number] = object()

    def are_back(self, numbers: Collection[int]) -> None:
        """These are on the list, and say themselves what they want."""
        for number in self._left.keys() & set(numbers):
            del self._left[number]

    def fenced(self, number: int) -> None:
        """It writes nothing more."""
        which = self._left.get(number)
        if which is not None:
            self._ask(number, which)

    def cleaned(self, number: int) -> None:
        """Others have all that it left, and have said what that wants."""
        if self._left.pop(number, None) is not None:
            self._changed()

    def stop(self) -> None:
        """The life is over."""
        self._left.clear()

    def _ask(self, number: int, which: object) -> None:
        if self._left.get(number) is which:
            self._read(number, partial(self._answered, number, which))

    def _answered(self, number: int, which: object, interest: Sequence[Interest] | None) -> None:
        if self._left.get(number) is not which:
            return
        if interest is None:
            log.warning("what %s wanted cannot be read, trying again", self._words(number))
            self._clock.call_later(self._again, partial(self._ask, number, which))
            return
        self._found(number, interest)
        del self._left[number]
        self._changed()
