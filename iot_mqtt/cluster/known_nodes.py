"""The nodes that the grid knows, whether they are there or not: their numbers and names, which of them are lacking, and
what becomes of those that went.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from iot_mqtt.cluster import leaving
from iot_mqtt.cluster.joining import Known, known_nodes, note_cleaned, remove
from iot_mqtt.cluster.membership import Membership
from iot_mqtt.cluster.roster import Life
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster_status import AbsentNode, Ending, NotGone, node_words
from iot_mqtt.ports.grid import CacheName, Grid

log = logging.getLogger(__name__)


class KnownNodes:
    """As one life of a node sees and changes them."""

    def __init__(self, grid: Grid, membership: Membership, clock: Clock) -> None:
        self._grid = grid
        self._membership = membership
        self._clock = clock
        #: Of the last look, by number.
        self._known: Mapping[int, Known] = {}
        self._ended: Mapping[int, leaving.Note] = {}

    async def look(self) -> None:
        """Whenever somebody came or went, and every few seconds: others remove nodes, too."""
        self._ended = await leaving.notes(self._grid)
        self._known = {known.number: known for known in await known_nodes(self._grid)}

    async def others(self) -> list[Known]:
        """Every node but this one that ever joined, by number."""
        await self.look()
        return [known for number, known in self._known.items() if number != self._membership.own.number]

    async def numbers(self) -> Mapping[int, int | None]:
        """See ``ports.cluster.Peers``."""
        return {known.number: known.boot if known.cleaned >= known.boot else None for known in await self.others()}

    # From memory.

    def name(self, number: int) -> str:
        """As the list has shown it, or as the grid has it; "": neither has."""
        known = self._known.get(number)
        return self._membership.name(number) or ("" if known is None else known.node_id)

    def words(self, number: int) -> str:
        """A node, for people."""
        return node_words(number, self.name(number))

    @property
    def absent(self) -> tuple[AbsentNode, ...]:
        """Those that are lacking. What was migrated from a sole node (number 0) is none that could come back."""
        there = {0, self._membership.own.number, *self._membership.members}
        return tuple(
            self._absent(known) for number, known in self._known.items() if known.node_id and number not in there
        )

    def _absent(self, known: Known) -> AbsentNode:
        boot = max(known.boot, self._membership.latest(known.number))
        note = self._ended.get(known.number)
        if note is None or note.boot < boot:
            return AbsentNode(known.number, known.node_id, boot, Ending.LEFT, None)
        return AbsentNode(known.number, known.node_id, boot, note.how, note.at)

    # What becomes of them.

    async def stops(self) -> None:
        """This node does, in order."""
        await leaving.note(self._grid, self._membership.own, Ending.STOPPED, self._clock.wall())

    async def ended(self, life: Life) -> None:
        """It is fenced: it is gone, unless it has said that it stops."""
        await leaving.note(self._grid, life, Ending.GONE, self._clock.wall())
        await self.look()

    async def remove(self, node_id: str) -> bool:
        """Give the number of a node that will not come back to the next new one; False: none is called that. Raises
        ``NotGone``.
        """
        found = next((one for one in await known_nodes(self._grid) if one.node_id == node_id), None)
        if found is None:
            return False
        if found.number == self._membership.own.number or found.number in self._membership.members:
            raise NotGone(f"{node_id} is there: drain it and stop it first")
        await remove(self._grid, found)
        await self.look()
        log.warning("a node was removed from the cluster", extra={"node": node_id, "number": found.number})
        return True

    async def clean(self, life: Life) -> bool:
        """What a node has kept up to this life goes, and it is noted that nothing is left. False: it has begun again,
        and what it keeps is that of a later life.
        """
        begun_again = any(known.number == life.number and known.boot > life.boot for known in await self.others())
        if begun_again or life.number in self._membership.members:
            return False
        await self._grid.remove_prefix(CacheName.ROUTES, bytes((life.number,)))
        await note_cleaned(self._grid, *life)
        return True
