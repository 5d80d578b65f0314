"""Taking over what a dead node leaves: one survivor does it, under a lease; if that one dies, another goes on.

::

    it left the list ─▶ lease ─▶ fence ─▶ its channel records become ours ─▶ the broker loads them, in portions
                     ─▶ everybody knows what we want, and a while has passed ─▶ what it kept is removed ─▶ noted in META

Everything is by compare-and-set, so that two who believe to have the lease, a claim, and the node's own next life may
all be at it at once: each record goes to one of them.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from functools import partial
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from iot_mqtt.cluster.channels import Channels
from iot_mqtt.cluster.fencing import Fences
from iot_mqtt.cluster.joining import known_nodes, note_cleaned
from iot_mqtt.cluster.loading import Loading
from iot_mqtt.cluster.roster import Life, Roster, Standing
from iot_mqtt.cluster.settings import ClusterSettings
from iot_mqtt.cluster.strays import Strays
from iot_mqtt.errors import Unavailable
from iot_mqtt.pause import pause
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.cluster import Node
from iot_mqtt.ports.grid import CacheName, Grid
from iot_mqtt.ports.registry import Lease, Registry

log = logging.getLogger(__name__)


class Adopter(Protocol):
    """What adoption needs of the node that it is part of."""

    @property
    def node(self) -> Node: ...

    @property
    def connected(self) -> bool:
        """The life is not over, the broker is loaded and the list of members is fresh."""
        ...

    def when_all_known(self, call: Callable[[], None]) -> None:
        """``call`` when everybody acts on what this node wants now."""
        ...

    def found_dead(self, life: Life) -> None:
        """It is in no list, and has not been for a while."""
        ...

    def tell_cleaned(self, life: Life) -> None:
        """Everybody, this node included, is to forget what that node kept."""
        ...


class Adoption:
    """The dead that are not cleaned up after yet, and what is done about them."""

    def __init__(
        self,
        adopter: Adopter,
        grid: Grid,
        registry: Registry,
        channels: Channels,
        loading: Loading,
        strays: Strays,
        fences: Fences,
        roster: Roster,
        clock: Clock,
        settings: ClusterSettings,
        own: Life,
        rng: random.Random,
    ) -> None:
        self._adopter = adopter
        self._grid = grid
        self._registry = registry
        self._channels = channels
        self._loading = loading
        self._strays = strays
        self._fences = fences
        self._roster = roster
        self._clock = clock
        self._settings = settings
        self._own = own
        self._rng = rng
        #: Number → the last boot, of nodes that are dead and may have left something.
        self._dead: dict[int, int] = {}
        self._at_work: set[int] = set()
        #: Nodes that are known and not there, since when.
        self._absent: dict[Life, float] = {}
        self._timer: Timer | None = None
        self._stopped = False
        #: Adoptions that were finished, and clients that came with them.
        self.finished = 0
        self.clients = 0
        self.failures = 0

    @property
    def dead(self) -> dict[int, int]:
        return self._dead

    def start(self) -> None:
        """The broker has loaded: from now on the dead are looked after."""
        self._later(self._settings.first_sweep)
        self._look_through()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def died(self, life: Life) -> None:
        """It has left the list. Others that are dead are tried again, too: it may have been about them."""
        self._dead[life.number] = max(life.boot, self._dead.get(life.number, 0))
        self._all()

    def cleaned(self, life: Life) -> None:
        """Somebody has finished."""
        if self._dead.get(life.number, -1) <= life.boot:
            self._dead.pop(life.number, None)

    # Looking.

    def _later(self, seconds: float) -> None:
        if not self._stopped:
            self._timer = self._clock.call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        settings = self._settings
        self._later(settings.first_sweep if self._absent else settings.sweep * self._rng.uniform(2 / 3, 4 / 3))
        self._look_through()

    def _look_through(self) -> None:
        if self._adopter.connected:
            looking = Deferred.fromCoroutine(self._look())
            looking.addErrback(self._failed, "the known nodes cannot be looked through")

    async def _look(self) -> None:
        """Dead nodes that left while nobody was there to see it."""
        now = self._clock.monotonic()
        absent: dict[Life, float] = {}
        others = [known for known in await known_nodes(self._grid) if known.number != self._own.number]
        # One of them may have come and gone without having been in the list that was seen here.
        self._adopter.node.follow([known.number for known in others])
        for known in others:
            life = Life(known.number, known.boot)
            if known.number in self._roster.members:
                continue
            if known.cleaned >= known.boot:
                self.cleaned(life)
            elif known.number not in self._dead:
                # It may be starting: not everything that is on the way is in the list yet.
                since = absent[life] = self._absent.get(life, now)
                if self._roster.standing(life) is Standing.DEAD and now - since >= self._settings.absent_grace:
                    self._adopter.found_dead(life)
        self._absent = absent
        self._all()

    def _all(self) -> None:
        if self._stopped or not self._adopter.connected:
            return
        for number, boot in list(self._dead.items()):
            if number in self._roster.members:
                # Its next life takes what is its own.
                del self._dead[number]
            elif number not in self._at_work:
                self._at_work.add(number)
                adopting = Deferred.fromCoroutine(self._adopt(Life(number, boot)))
                adopting.addErrback(self._not_adopted, number)
                adopting.addBoth(partial(self._over, number))

    def _over(self, number: int, _: object) -> None:
        self._at_work.discard(number)

    def _not_adopted(self, failure: Failure, number: int) -> None:
        self._failed(failure, f"what node {number} has left cannot be taken over now")
        self._clock.call_later(self._settings.fence_again, self._all)

    def _failed(self, failure: Failure, what: str) -> None:
        self.failures += 1
        if failure.check(Unavailable):
            log.warning("%s; trying again: %s", what, failure.value)
        else:
            log.error(what, exc_info=failure.value)

    # Doing.

    async def _adopt(self, life: Life) -> None:
        lease = await self._registry.acquire(f"adopt-{life.number}")
        if lease is None:
            return
        try:
            await self._fences.fence(*life)
            count = await self._take_over(life, lease)
            log.info("a dead node's sessions live here now", extra={"node": life.number, "sessions": count})
            if self._may_go_on(lease):
                await self._clean(life, lease)
        finally:
            lease.release()

    def _may_go_on(self, lease: Lease) -> bool:
        return lease.held and self._adopter.connected and not self._stopped

    async def _take_over(self, life: Life, lease: Lease) -> int:
        ours: list[str] = []
        failed: dict[str, BaseException] = {}
        count = 0
        async for portion in self._channels.take_over(life, self._loading.begin):
            self._loading.end([*portion.lost, *portion.failed])
            failed.update(portion.failed)
            ours += portion.taken
            if len(ours) >= self._settings.adopt_chunk:
                count += len(ours)
                await self._loading.load(ours)
                ours = []
            if failed or not self._may_go_on(lease):
                break
        if ours:
            count += len(ours)
            await self._loading.load(ours)
        self.clients += count
        for client_id in failed:
            # It may have become ours.
            self._strays.add(client_id)
        if failed:
            raise next(iter(failed.values()))
        return count

    async def _clean(self, life: Life, lease: Lease) -> None:
        known: Deferred[None] = Deferred()
        self._adopter.when_all_known(partial(known.callback, None))
        await known
        # Others claimed clients of it one by one, and what those want must be known everywhere as well.
        await pause(self._clock, self._settings.linger)
        if life.number in self._roster.members or not self._may_go_on(lease):
            return
        await self._grid.remove_prefix(CacheName.ROUTES, bytes((life.number,)))
        await note_cleaned(self._grid, *life)
        self.finished += 1
        self.cleaned(life)
        self._adopter.tell_cleaned(life)
