"""The nodes that the grid knows, whether they are there or not: their numbers, and what becomes of those that went."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from iot_mqtt.cluster.joining import Known, known_nodes, note_cleaned, remove
from iot_mqtt.cluster.membership import Membership
from iot_mqtt.cluster.roster import Life
from iot_mqtt.ports.cluster_status import NotGone
from iot_mqtt.ports.grid import CacheName, Grid

log = logging.getLogger(__name__)


class KnownNodes:
    """As one life of a node sees and changes them."""

    def __init__(self, grid: Grid, membership: Membership) -> None:
        self._grid = grid
        self._membership = membership

    async def others(self) -> list[Known]:
        """Every node but this one that ever joined, by number."""
        return [known for known in await known_nodes(self._grid) if known.number != self._membership.own.number]

    async def numbers(self) -> Mapping[int, int | None]:
        """See ``ports.cluster.Peers``."""
        return {known.number: known.boot if known.cleaned >= known.boot else None for known in await self.others()}

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
        log.warning("a node was removed from the cluster", extra={"node": found.number, "node_id": node_id})
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
