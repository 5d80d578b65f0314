"""All sessions of a node's lives that are over, taken over at once: by its next life, or by a survivor.

What one client's connection takes is in ``ownership``. Both are by compare-and-set, so both may be at it at once.
"""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.cluster.channels import Channels
from iot_mqtt.cluster.loading import Loading
from iot_mqtt.cluster.roster import Life
from iot_mqtt.cluster.strays import Strays


class BulkTakeover:
    """Of one life, which takes."""

    def __init__(self, channels: Channels, loading: Loading, strays: Strays, chunk: int) -> None:
        """``chunk``: clients that the broker is given to load at once."""
        self._channels = channels
        self._loading = loading
        self._strays = strays
        self._chunk = chunk
        #: Clients that came from other nodes.
        self.adopted = 0

    async def inherit(self, life: Life) -> frozenset[str]:
        """Take what this node's lives up to this one have left: clients that the broker has yet to load, and that are
        loading until it has.
        """
        clients: set[str] = set()
        async for portion in self._channels.take_over(life, self._loading.begin):
            self._loading.end(portion.lost)
            if portion.failed:
                raise next(iter(portion.failed.values()))
            clients.update(portion.taken)
        return frozenset(clients)

    async def adopt(self, life: Life, may_go_on: Callable[[], bool]) -> int:
        """Take what another node has left, and have the broker load it; returns how many clients that were.

        Raises what the grid raises; then some may be left, or become ours later.
        """
        ours: list[str] = []
        failed: dict[str, BaseException] = {}
        count = 0
        async for portion in self._channels.take_over(life, self._loading.begin):
            self._loading.end([*portion.lost, *portion.failed])
            failed.update(portion.failed)
            ours += portion.taken
            if len(ours) >= self._chunk:
                count += len(ours)
                await self._loading.load(ours)
                ours = []
            if failed or not may_go_on():
                break
        if ours:
            count += len(ours)
            await self._loading.load(ours)
        self.adopted += count
        for client_id in failed:
            # It may have become ours.
            self._strays.add(client_id)
        if failed:
            raise next(iter(failed.values()))
        return count
