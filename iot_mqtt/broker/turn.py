"""The turn: one pass of the reactor, and the commit that its changes wait for.

::

    staged, written ─▶ end ─▶ the store's batch goes to the grid ─▶ ``at_end`` ─▶ one write to each connection
                              the batch is safe ─▶ ``at_commit`` ─▶ answers that waited ─▶ the same write
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from iot_mqtt.ports.counters import Histogram
from iot_mqtt.ports.store import Store


class Writer(Protocol):
    """What gathers bytes during a turn."""

    def write_out(self) -> None: ...


class Waiter(Protocol):
    """What has answers that wait for a commit."""

    def committed(self) -> None: ...


class Turn:
    """One for each node. Whoever stages or gathers something makes sure by this that the turn's end comes.

    ``at_end``, ``at_wait`` and ``at_commit`` are called in their order; who composes the node says what is in them.
    ``at_wait`` is for ends of a turn with something that waits for a commit: most have nothing.
    """

    __slots__ = (
        "call_soon",
        "acknowledged",
        "at_end",
        "at_wait",
        "at_commit",
        "_store",
        "_waits",
        "_dirty",
        "_end",
        "_awaiting",
        "_planned",
    )

    def __init__(self, store: Store, call_soon: Callable[[Callable[[], None]], None], waits: Histogram) -> None:
        """``waits``: how long acknowledgements wait for their commit."""
        self.call_soon = call_soon
        #: Messages that a commit lets acknowledge; counted by who acknowledges them.
        self.acknowledged = 0
        self._waits = waits
        self.at_end: tuple[Callable[[], None], ...] = ()
        self.at_wait: tuple[Callable[[], None], ...] = ()
        self.at_commit: tuple[Callable[[], None], ...] = ()
        self._store = store
        self._dirty: list[Writer] = []
        self._awaiting: list[Waiter] = []
        self._planned = False
        #: Bound once, and not in every turn.
        self._end = self.end
        store.on_committed = self._committed

    def plan(self) -> None:
        """Something was staged: make sure that it is committed soon."""
        if not self._planned:
            self._planned = True
            self.call_soon(self._end)

    def plan_if_unsettled(self) -> None:
        """Something was staged, perhaps."""
        if self._store.latest > self._store.committed:
            self.plan()

    def reserve(self, *, soon: bool = True) -> int:
        """The ticket of the next batch, which will be committed: a participant has something for it. See the store."""
        self.plan()
        return self._store.reserve(soon=soon)

    async def settled(self) -> None:
        """All that is staged by now is committed when this returns."""
        self.plan()
        await self._store.settled()

    def mark_dirty(self, writer: Writer) -> None:
        """It has bytes for this turn's end."""
        self._dirty.append(writer)
        if not self._planned:
            self._planned = True
            self.call_soon(self._end)

    def await_commit(self, waiter: Waiter) -> None:
        """It has answers that wait for a commit."""
        self._awaiting.append(waiter)
        self._store.hurry()
        self.plan()

    def end(self) -> None:
        """One batch to the grid, one write to each connection that has something."""
        self._planned = False
        waits = self._store.flush()
        for call in self.at_end:
            call()
        if waits:
            for call in self.at_wait:
                call()
        self._write_out()

    def _committed(self) -> None:
        awaiting, self._awaiting = self._awaiting, []
        # Deliver, then acknowledge.
        for call in self.at_commit:
            call()
        self.acknowledged = 0
        for waiter in awaiting:
            waiter.committed()
        if self.acknowledged:
            # All of a batch as its first: one bisection for each commit, however many messages it is about.
            self._waits.observe(self._store.waited, self.acknowledged)
        # Now, and not behind the next batch, which is made ready as soon as this returns.
        self._write_out()

    def _write_out(self) -> None:
        dirty = self._dirty
        if dirty:
            self._dirty = []
            for writer in dirty:
                writer.write_out()
