"""Taking over what a dead node leaves: one survivor does it, under a lease; if that one dies, another goes on.

::

    it left the list ─▶ fence ─▶ lease ─▶ its channel records become ours ─▶ the broker loads them, in portions
                     ─▶ everybody is told that they are here
                     ─▶ everybody knows what we want, and a while has passed ─▶ what it kept is removed ─▶ noted in META

Everything is by compare-and-set, so that two who believe to have the lease, a claim, and the node's own next life may
all be at it at once: each record goes to one of them.
"""

from __future__ import annotations

import logging
import random
from functools import partial
from typing import Final

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from iot_mqtt.cluster.bulk_takeover import BulkTakeover
from iot_mqtt.cluster.conversation import Conversation
from iot_mqtt.cluster.fencing import Fences
from iot_mqtt.cluster.known_nodes import KnownNodes
from iot_mqtt.cluster.links import Request
from iot_mqtt.cluster.membership import Membership
from iot_mqtt.cluster.roster import Life, Standing
from iot_mqtt.cluster.settings import ClusterSettings
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.registry import Lease

log = logging.getLogger(__name__)

#: A request: the sessions of that life live elsewhere now.
ADOPTED: Final = "adopted"
#: A request: everybody is to forget what that node kept.
CLEANED: Final = "cleaned"


class Adoption:
    """The dead that are not cleaned up after yet, and what is done about them."""

    def __init__(
        self,
        membership: Membership,
        conversation: Conversation,
        known: KnownNodes,
        fences: Fences,
        takeover: BulkTakeover,
        clock: Clock,
        settings: ClusterSettings,
        rng: random.Random,
    ) -> None:
        self._membership = membership
        self._conversation = conversation
        self._known = known
        self._fences = fences
        self._takeover = takeover
        self._clock = clock
        self._settings = settings
        self._rng = rng
        #: Number → the last boot, of nodes that have gone; and of those whose sessions live elsewhere.
        self._gone: dict[int, int] = {}
        self._adopted: dict[int, int] = {}
        #: Number → the last boot, of nodes that are fenced and may have left something.
        self._dead: dict[int, int] = {}
        self._at_work: set[int] = set()
        #: Whose sessions are adopted, until what it kept is removed: what ends that sooner.
        self._lingering: dict[Life, Deferred[None]] = {}
        #: Nodes that are known and not there, since when.
        self._absent: dict[Life, float] = {}
        self._timer: Timer | None = None
        #: Adoptions that were finished, and what failed and is tried again.
        self.finished = 0
        self.failures = 0
        fences.on_fenced = self._fenced
        conversation.requests[ADOPTED] = self._take_adopted
        conversation.requests[CLEANED] = self._take_cleaned

    @property
    def dead(self) -> dict[int, int]:
        """Those that are not there, and whose sessions nobody has taken over yet: number → boot."""
        return {
            number: boot
            for number, boot in self._gone.items()
            if boot > self._adopted.get(number, -1) and number not in self._membership.members
        }

    def start(self) -> None:
        """The broker has loaded: from now on the dead are looked after."""
        self._later(self._settings.first_sweep)
        self._look_through()

    def stop(self) -> None:
        """The life is over."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _connected(self) -> bool:
        """The life is not over, the broker is loaded and the list of members is fresh."""
        return self._conversation.loaded and self._membership.connected()

    # Fencing.

    def gone(self, life: Life) -> None:
        """It is dead, or will be: fence it, so that its log has an end, and look after its sessions."""
        if self._membership.is_over or life.number in self._membership.members:
            return
        self._gone[life.number] = max(life.boot, self._gone.get(life.number, 0))
        if not self._membership.connected():
            self._clock.call_later(self._settings.fence_again, partial(self.gone, life))
            return
        fencing = Deferred.fromCoroutine(self._fences.fence(*life))
        fencing.addCallbacks(lambda _: self._died(life), partial(self._not_fenced, life))
        fencing.addErrback(_report, "a dead node cannot be looked after")

    def _not_fenced(self, life: Life, failure: Failure) -> None:
        log.warning("%s cannot be fenced now, trying again: %s", self._known.words(life.number), failure.value)
        self._clock.call_later(self._settings.fence_again, partial(self.gone, life))

    def _fenced(self, number: int, boot: int) -> None:
        """From here; whoever wanted it."""
        membership = self._membership
        if number != membership.own.number and number not in membership.members and not membership.is_over:
            self._conversation.node.node_gone(number)

    def _died(self, life: Life) -> None:
        """It writes nothing more. Others that are dead are tried again, too: it may have been about them."""
        self._conversation.untold.fenced(life.number)
        self._dead[life.number] = max(life.boot, self._dead.get(life.number, 0))
        for earlier in [one for one in self._lingering if one.number == life.number and one.boot < life.boot]:
            # This one has sessions again, which nobody has.
            self._lingered(earlier)
        self._all()
        self._note(life)

    def _note(self, life: Life) -> None:
        """Fenced it cannot say any more that it stops; nothing waits for the note."""
        if not self._membership.is_over:
            noting = Deferred.fromCoroutine(self._known.ended(life))
            noting.addErrback(partial(self._not_noted, life))

    def _not_noted(self, life: Life, failure: Failure) -> None:
        log.warning("how %s ended cannot be noted now, trying again: %s", self._known.words(life.number), failure.value)
        self._clock.call_later(self._settings.fence_again, partial(self._note, life))

    # Looking.

    def _later(self, seconds: float) -> None:
        if not self._membership.is_over:
            self._timer = self._clock.call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        settings = self._settings
        self._later(settings.first_sweep if self._absent else settings.sweep * self._rng.uniform(2 / 3, 4 / 3))
        self._look_through()

    def _look_through(self) -> None:
        if self._connected:
            looking = Deferred.fromCoroutine(self._look())
            looking.addErrback(self._failed, "the known nodes cannot be looked through")

    async def _look(self) -> None:
        """Dead nodes that left while nobody was there to see it."""
        now = self._clock.monotonic()
        absent: dict[Life, float] = {}
        others = await self._known.others()
        # One of them may have come and gone without having been in the list that was seen here.
        self._conversation.node.follow([known.number for known in others])
        for known in others:
            life = Life(known.number, known.boot)
            if known.number in self._membership.members:
                continue
            if known.cleaned >= known.boot:
                if known.number in self._dead:
                    # Who cleaned up has said so, and that was lost.
                    self._forget(life)
            elif self._dead.get(known.number, 0) < known.boot:
                # It may be starting: not everything that is on the way is in the list yet.
                since = absent[life] = self._absent.get(life, now)
                if self._membership.standing(life) is Standing.DEAD and now - since >= self._settings.absent_grace:
                    self.gone(life)
        self._absent = absent
        self._all()

    def _all(self) -> None:
        if not self._connected:
            return
        for number, boot in list(self._dead.items()):
            if number in self._membership.members:
                # Its next life takes what is its own.
                del self._dead[number]
            elif number not in self._at_work:
                self._at_work.add(number)
                adopting = Deferred.fromCoroutine(self._adopt(Life(number, boot)))
                adopting.addErrback(self._not_adopted, number)
                adopting.addBoth(partial(self._over, Life(number, boot)))

    def _over(self, life: Life, _: object) -> None:
        self._at_work.discard(life.number)
        if self._dead.get(life.number, 0) > life.boot:
            self._all()

    def _not_adopted(self, failure: Failure, number: int) -> None:
        self._failed(failure, f"what {self._known.words(number)} has left cannot be taken over now")
        self._clock.call_later(self._settings.fence_again, self._all)

    def _failed(self, failure: Failure, what: str) -> None:
        self.failures += 1
        if failure.check(Unavailable):
            log.warning("%s; trying again: %s", what, failure.value)
        else:
            log.error(what, exc_info=failure.value)

    # Doing.

    async def _adopt(self, life: Life) -> None:
        lease = await self._membership.acquire(f"adopt-{life.number}")
        if lease is None:
            return
        try:
            await self._fences.fence(*life)
            count = await self._takeover.adopt(life, partial(self._may_go_on, lease))
            log.info(
                "a dead node's sessions live here now",
                extra={"node": self._known.words(life.number), "sessions": count},
            )
            if self._may_go_on(lease):
                self._have_adopted(life)
                self._conversation.tell_all(ADOPTED, _written(life))
                await self._clean(life, lease)
        finally:
            lease.release()

    def _may_go_on(self, lease: Lease) -> bool:
        return lease.held and self._connected

    async def _clean(self, life: Life, lease: Lease) -> None:
        known: Deferred[None] = Deferred()
        conversation = self._conversation
        conversation.when_known(conversation.ours.version, partial(known.callback, None))
        await known
        # Others claimed clients of it one by one, and what those want must be known everywhere as well.
        await self._linger(life)
        if not self._may_go_on(lease) or not await self._known.clean(life):
            return
        self.finished += 1
        conversation.tell_all(CLEANED, _written(life))
        self._forget(life)

    async def _linger(self, life: Life) -> None:
        over = self._lingering[life] = Deferred()
        timer = self._clock.call_later(self._settings.linger, partial(self._lingered, life))
        await over
        timer.cancel()

    def _lingered(self, life: Life) -> None:
        self._lingering.pop(life).callback(None)

    # Cleaned up after, here or elsewhere.

    def _take_adopted(self, _peer: int, request: Request) -> None:
        self._have_adopted(_read(request.body))

    def _have_adopted(self, life: Life) -> None:
        self._adopted[life.number] = max(life.boot, self._adopted.get(life.number, -1))

    def _take_cleaned(self, _peer: int, request: Request) -> None:
        self._forget(_read(request.body))

    def _forget(self, life: Life) -> None:
        """What it kept is wanted no more; what a later life kept is."""
        self._have_adopted(life)
        if self._dead.get(life.number, -1) <= life.boot:
            self._dead.pop(life.number, None)
        if life.number != self._membership.own.number and not self._membership.has_followed(life):
            self._conversation.keeps(life.number, (), full=True)
            self._conversation.untold.cleaned(life.number)


def _written(life: Life) -> bytes:
    return bytes((life.number,)) + life.boot.to_bytes(8, "big")


def _read(body: bytes) -> Life:
    return Life(body[0], int.from_bytes(body[1:9], "big"))


def _report(failure: Failure, what: str) -> None:
    log.error(what, exc_info=failure.value)
