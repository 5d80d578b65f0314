"""Letters on their way into the reactor's thread: some at a time, and the next ones when those were taken."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from iot_mqtt.ports.inbox import InboxFacts, Letter, Reader
from iot_mqtt.thread_bridge import Job, ThreadBridge

#: Letters, and their bytes, that cross at once.
MOST_LETTERS = 200
MOST_BYTES = 4 * 1024**2


class Owner(Reader, Protocol):
    """What is told; each call crosses into the reactor's thread."""

    def heard(self, trouble: str | None, facts: InboxFacts) -> None: ...

    def ended(self) -> None: ...


class Crossing:
    """Of all lives of a thread."""

    def __init__(self, bridge: ThreadBridge[Job], owner: Owner) -> None:
        self._bridge = bridge
        self._owner = owner
        self._batch: list[Letter] = []
        self._bytes = 0
        self._under_way = 0

    @property
    def waiting(self) -> bool:
        """The reactor has not taken the last ones yet."""
        return self._under_way > 0

    @property
    def full(self) -> bool:
        """It is time to ``go``."""
        return len(self._batch) >= MOST_LETTERS or self._bytes >= MOST_BYTES

    def add(self, letter: Letter) -> None:
        self._batch.append(letter)
        self._bytes += len(letter.value)

    def go(self) -> None:
        """Before anything else is said of partitions, too: the order is the thing."""
        if self._batch:
            letters, self._batch, self._bytes = self._batch, [], 0
            self._under_way += 1
            self._bridge.hand(partial(self._hand_over, letters))

    def drop(self) -> None:
        """Those that did not go come again, in another life."""
        self._batch, self._bytes = [], 0

    def _hand_over(self, letters: list[Letter]) -> None:
        """In the reactor's thread."""
        try:
            self._owner.came(letters)
        finally:
            self._bridge.put(self._taken)

    def _taken(self) -> None:
        self._under_way -= 1
