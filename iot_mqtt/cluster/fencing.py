"""Keeping the dead from writing: each life of a node is fenced once, however many wait for it.

A fence is idempotent and says nothing about who asked, so every survivor may fence a life that has left the list of
members; nobody has to be told by another that it was done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twisted.internet.defer import Deferred

from iot_mqtt.ports.grid import Grid


class SharedGrid(Grid, Protocol):
    """A grid that several nodes write, and that keeps the dead ones out."""

    @property
    def copies_missing(self) -> int | None:
        """Parts of it that have fewer copies than they should; None: not known now."""
        ...

    @property
    def servers(self) -> int | None:
        """How many servers it has; None: not known now."""
        ...

    @property
    def read_trouble(self) -> str | None:
        """Why the log cannot be read; None: it can, as far as is known."""
        ...

    @property
    def read_failures(self) -> int:
        """Reads of it that failed."""
        ...

    async def identify(self, node: int, boot: int) -> None:
        """Write as this life of this node from now on."""
        ...

    async def fence(self, node: int, boot: int) -> None:
        """When this returns, nothing is written any more by that life of that node, nor by an earlier one."""
        ...

    async def finish(self, node: int, boot: int) -> None:
        """When this returns, a batch in the middle of which such a life was fenced is there whole or not at all."""
        ...


class Fences:
    """What has been fenced from here."""

    def __init__(self, grid: SharedGrid) -> None:
        self._grid = grid
        #: Number → the greatest boot that is fenced.
        self._fenced: dict[int, int] = {}
        self._waiting: dict[tuple[int, int], list[Deferred[None]]] = {}
        #: Requests made of the grid.
        self.asked = 0
        #: Told (number, boot) after each fence that is new.
        self.on_fenced: Callable[[int, int], None] = _nobody

    def is_fenced(self, number: int, boot: int) -> bool:
        return boot <= self._fenced.get(number, 0)

    async def fence(self, number: int, boot: int) -> None:
        """Raises what the grid raises; then it is not done, or not known to be, and can be tried again."""
        if self.is_fenced(number, boot):
            return
        key = number, boot
        waiting = self._waiting.get(key)
        if waiting is not None:
            deferred: Deferred[None] = Deferred()
            waiting.append(deferred)
            await deferred
            return
        waiting = self._waiting[key] = []
        try:
            if number:
                self.asked += 1
                await self._grid.fence(number, boot)
                await self._grid.finish(number, boot)
            # A sole node that was migrated (number 0) has never written here.
        except Exception as error:
            del self._waiting[key]
            for one in waiting:
                one.errback(error)
            raise
        self._fenced[number] = max(boot, self._fenced.get(number, 0))
        del self._waiting[key]
        self.on_fenced(number, boot)
        for one in waiting:
            one.callback(None)


def _nobody(number: int, boot: int) -> None:
    """Nobody wants to know."""
