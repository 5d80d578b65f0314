"""Claims: making this node the home of a client, wherever its home was.

::

    nobody's                    ─▶ ours
    ours already                ─▶ ours anew: whoever was about to take it finds the record changed
    in a life that is alive     ─▶ asked to release it ─▶ ours, or another user's, and left alone
    in a life that is dead      ─▶ fenced, once for all its clients ─▶ ours
    in a life never seen        ─▶ waited for a little, then dead

The record is read first: that is cheap, for crowds of clients share a round trip (see ``grid.ignite.paging``); a
compare-and-set is not, for it has a place among the commits.

While the registry is not connected only what is ours already is granted. A client at a time is the caller's business.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from twisted.internet.defer import Deferred

from iot_mqtt.cluster.channels import Channels, read
from iot_mqtt.cluster.fencing import Fences
from iot_mqtt.cluster.links import LinkError
from iot_mqtt.cluster.loading import Loading
from iot_mqtt.cluster.membership import Membership
from iot_mqtt.cluster.roster import Life, Standing
from iot_mqtt.cluster.settings import ClusterSettings
from iot_mqtt.cluster.strays import Strays
from iot_mqtt.errors import Unavailable
from iot_mqtt.pause import pause
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Claim

log = logging.getLogger(__name__)

#: Bodies of the answer to "release".
RELEASED: Final = b"released"
BUSY: Final = b"busy"
FOREIGN: Final = b"foreign"

#: Asks a node to release a client to an owner: (number, client id, owner), fires with the answer or ``LinkError``.
Ask = Callable[[int, str, str | None], "Deferred[bytes | LinkError]"]


class Refusal(StrEnum):
    """Why a claim was refused, for counters."""

    NOT_CONNECTED = "not_connected"
    HOME_SILENT = "home_silent"
    HOME_BUSY = "home_busy"
    GRID = "grid"
    UNWANTED = "unwanted"
    FOREIGN = "foreign"


_TEXTS: Final = {
    Refusal.NOT_CONNECTED: "this node cannot see the others and takes no clients from elsewhere",
    Refusal.HOME_SILENT: "the node that has its session does not answer",
    Refusal.HOME_BUSY: "the node that has its session is busy with it",
    Refusal.GRID: "the grid does not answer",
    Refusal.UNWANTED: "the client has given up",
    Refusal.FOREIGN: "its session is another user's",
}

_ANSWERS: Final[dict[bytes, Refusal | None]] = {RELEASED: None, FOREIGN: Refusal.FOREIGN}


class Ownership:
    """What this life owns, and how it comes to own more."""

    def __init__(
        self,
        membership: Membership,
        channels: Channels,
        loading: Loading,
        strays: Strays,
        fences: Fences,
        clock: Clock,
        settings: ClusterSettings,
        ask: Ask,
    ) -> None:
        self._membership = membership
        self._channels = channels
        self._loading = loading
        self._strays = strays
        self._fences = fences
        self._clock = clock
        self._settings = settings
        self._ask = ask
        self.refused: Counter[Refusal] = Counter()
        #: By where the session was: nowhere (new), here, or with another node (moved).
        self.granted: Counter[str] = Counter()

    def loaded(self) -> None:
        """The broker has all that became ours before."""
        self._loading.end_all()

    def stop(self) -> None:
        """The life is over."""
        self._loading.stop()
        self._strays.stop()

    def stray(self, client_id: str) -> None:
        """See ``ports.cluster.Peers``."""
        self._strays.add(client_id)

    async def let_go(self, client_id: str, unused: Callable[[], bool]) -> None:
        """See ``ports.cluster.Peers``."""
        if not self._membership.is_over:
            await self._channels.let_go(client_id, unused)

    async def claim(
        self, client_id: str, wanted: Callable[[], bool] | None = None, owner: str | None = None
    ) -> tuple[Claim, str]:
        """``wanted``: somebody still waits for it; ``owner``: who that is."""
        try:
            return await self._claim(client_id, wanted or _always, owner)
        except Unavailable as error:
            log.warning("a client's home cannot be settled: %s", error, extra={"client": client_id})
            return self._refuse(Refusal.GRID)

    async def _claim(self, client_id: str, wanted: Callable[[], bool], owner: str | None) -> tuple[Claim, str]:
        seconds = self._settings.claim_pause
        for attempt in range(self._settings.claim_attempts):
            if attempt:
                await pause(self._clock, seconds)
                seconds *= 2
            record = await self._settled(client_id)
            life = read(record).life if record is not None else None
            dead = False
            if life != self._membership.own:
                if not wanted():
                    return self._refuse(Refusal.UNWANTED)
                if not self._membership.connected():
                    return self._refuse(Refusal.NOT_CONNECTED)
                reason = await self._release_from(life, client_id, owner) if life is not None else None
                if reason is Refusal.HOME_BUSY:
                    continue
                if reason is not None:
                    return self._refuse(reason)
                if not self._membership.connected():
                    return self._refuse(Refusal.NOT_CONNECTED)
                dead = life is not None and self._membership.standing(life) is Standing.DEAD
            if await self._take(client_id, record):
                return self._granted(life, dead=dead)
        return self._refuse(Refusal.HOME_BUSY)

    async def _take(self, client_id: str, record: bytes | None) -> bool:
        try:
            taken = await self._channels.take(client_id, record)
        except Unavailable:
            # It may be ours.
            self._strays.add(client_id)
            raise
        if taken:
            self._strays.discard(client_id)
        return taken

    async def _settled(self, client_id: str) -> bytes | None:
        """The record of a client that is not about to be loaded here: one that says so is not for a claim."""
        while True:
            record = await self._channels.get(client_id)
            if client_id not in self._loading:
                return record
            await self._loading.over(client_id)

    async def _release_from(self, life: Life, client_id: str, owner: str | None) -> Refusal | None:
        """See that a life has nothing to do with a client any more; or why that cannot be had now."""
        standing = self._membership.standing(life)
        if standing is Standing.ALIVE:
            answer = await self._ask(life.number, client_id, owner)
            if not isinstance(answer, LinkError):
                return _ANSWERS.get(answer, Refusal.HOME_BUSY)
            standing = self._membership.standing(life)
            if standing is Standing.ALIVE:
                return Refusal.HOME_SILENT
        if standing is Standing.UNSEEN:
            return Refusal.HOME_BUSY
        if not self._membership.connected():
            return Refusal.NOT_CONNECTED
        await self._fences.fence(*life)
        return None

    def _granted(self, life: Life | None, *, dead: bool = False) -> tuple[Claim, str]:
        if life is None:
            self.granted["new"] += 1
            return Claim.NEW, ""
        here = life.number == self._membership.own.number
        self.granted["here" if here else "moved"] += 1
        return Claim.INHERITED if dead else Claim.TAKEN, ""

    def _refuse(self, reason: Refusal) -> tuple[Claim, str]:
        self.refused[reason] += 1
        return Claim.FOREIGN if reason is Refusal.FOREIGN else Claim.REFUSED, _TEXTS[reason]


def _always() -> bool:
    return True
