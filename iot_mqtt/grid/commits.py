"""The commits of a node: what was staged in a turn leaves as one batch, and who waits for it is told when it is safe.

A commit that fails is repeated until the grid takes it (see ``committer``); what waits for it waits. A batch that
cannot even be made (no memory, a fault of ours) ends the store: who was asked for a part of it believes that it is in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr
from twisted.internet.defer import Deferred

from iot_mqtt.grid.committer import Committer
from iot_mqtt.grid.retained_changes import RetainedChanges
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch
from iot_mqtt.ports.store import CommitOrder, CommitParticipant

log = logging.getLogger(__name__)

#: Seconds that what nobody waits for may gather: a sync of the disk each 5 ms is no load for it.
PATIENCE: Final = 0.005


@mypyc_attr(allow_interpreted_subclasses=True)
class Commits:
    """The committing half of ``GridStore``."""

    def __init__(
        self, grid: Grid, clock: Clock, counters: Counters, on_broken: Callable[[BaseException], None] | None = None
    ) -> None:
        """``on_broken`` is told why a batch could not be made; without, whoever flushes is."""
        self._on_broken: Callable[[BaseException], None] = on_broken or _raise
        self._clock = clock
        self._committer = Committer(grid, clock, counters, self._committed)
        self._retained = RetainedChanges()
        self._gathering = WriteBatch()
        # By key; None: it is no more, which nobody waits for.
        self._wills: dict[bytes, bytes | None] = {}
        # There is something for the next batch besides what was gathered; somebody may wait for that.
        self._reserved = self._soon = False
        #: Seconds that a batch gathers which nobody waits for; 0: it leaves at the turn's end, as any other.
        self.patience = 0.0
        self._gathering_on = False
        self._submitted = 0
        self.committed = 0
        # Since when something gathers behind the batch under way, and has gathered for that one; 0: nothing does.
        self._gathers_since = 0.0
        self._gathered_since = 0.0
        self.waited = 0.0
        #: By ``CommitOrder``.
        self._participants: dict[CommitOrder, CommitParticipant] = {}
        self._meanwhile: list[Callable[[], None]] = []
        self._settling: list[tuple[int, Deferred[None]]] = []
        self.on_committed: Callable[[], None] = _nothing
        #: See the port.
        self.outage: Callable[[], str | None] = _none

    @property
    def latest(self) -> int:
        """The newest batch that holds anything."""
        return self._submitted + 1 if self._gathering or self._reserved else self._submitted

    @property
    def failing(self) -> bool:
        """See the port."""
        return self._committer.failing or self.outage() is not None

    @property
    def trouble(self) -> str | None:
        """See the port."""
        return self._committer.trouble or self.outage()

    def enlist(self, place: CommitOrder, participant: CommitParticipant) -> None:
        assert place not in self._participants, f"two participants as {place.name}"
        self._participants = dict(sorted([*self._participants.items(), (place, participant)]))

    def meanwhile(self, call: Callable[[], None]) -> None:
        """See the port."""
        self._meanwhile.append(call)

    def reserve(self, *, soon: bool = True) -> int:
        """See the port."""
        self._reserved = True
        if soon:
            self._soon = True
        return self._submitted + 1

    def hurry(self) -> None:
        """See the port."""
        self._soon = True

    @property
    def waiting(self) -> int:
        """Operations that are not committed yet."""
        batch = self._committer.batch
        gathering = len(self._gathering) + len(self._retained) + len(self._wills)
        return gathering + (len(batch) if batch is not None else 0)

    @property
    def unanswered(self) -> float:
        """Seconds since the batch under way was handed over, however often it was repeated; 0: none is under way."""
        return 0.0 if self._committer.batch is None else self._clock.monotonic() - self._committer.began

    def flush(self) -> bool:
        """Hand over what gathered, unless a batch is under way; its end hands over the next. Whether anything waits."""
        committer = self._committer
        # Asked in every turn, most of which have nothing: no call for an answer that an attribute has.
        if self._gathering.operations or self._reserved:
            if self.patience and not (self._soon or self._gathering.operations):
                self._gather_on()
                return committer.batch is not None
            if committer.batch is not None or committer.given_up:
                # Of the first turn that it waits for: one look at the clock for each batch.
                self._gathers_since = self._gathers_since or self._clock.monotonic()
                return True
            self._submitted += 1
            try:
                batch = self._made()
            except Exception as error:  # noqa: BLE001 - whatever it is, what was in it must not be acknowledged
                self.give_up()
                self._on_broken(error)
                return True
            self._gathering, self._reserved, self._soon = WriteBatch(), False, False
            now = self._clock.monotonic()
            self._gathered_since, self._gathers_since = self._gathers_since or now, 0.0
            committer.commit(batch, now)
            for call in self._meanwhile:
                call()
        return committer.batch is not None

    def _gather_on(self) -> None:
        if not self._gathering_on:
            self._gathering_on = True
            self._clock.call_later(self.patience, self._gathered)

    def _gathered(self) -> None:
        """Whatever there is now has waited for long enough, or for less, if a batch has left meanwhile."""
        self._gathering_on = False
        if self._reserved:
            self._soon = True
            self.flush()

    def _made(self) -> WriteBatch:
        """What participants have comes first, in their order: where a batch is not atomic, its first part may be all
        that is written, and must not take away a will, say, whose message is not there.
        """
        batch = WriteBatch()
        for participant in self._participants.values():
            participant.contribute(batch, self._submitted)
        self._retained.stage(batch)
        batch.operations += self._gathering.operations
        batch.whole |= self._gathering.whole
        if self._wills:
            batch.operations += [(CacheName.WILLS, key, record) for key, record in self._wills.items()]
            batch.whole |= None in self._wills.values()
            self._wills = {}
        return batch

    def _committed(self, now: float) -> None:
        self.waited = now - self._gathered_since
        self.committed = self._submitted
        for participant in self._participants.values():
            try:
                participant.committed(self.committed)
            except Exception:
                # It has what it gave, and so have the others: they are to hear of it.
                log.exception("who took part in a commit could not go on after it")
        self.on_committed()
        self._release_settled()
        self.flush()

    async def settled(self) -> None:
        """Wait for everything staged so far."""
        self._soon = True
        self.flush()
        if self.latest > self.committed:
            waiting: Deferred[None] = Deferred()
            self._settling.append((self.latest, waiting))
            await waiting

    def give_up(self) -> None:
        """This life is over and nothing more can be written: what waits is not committed, and nobody is told so."""
        self._committer.give_up()

    def _release_settled(self) -> None:
        due = [waiting for ticket, waiting in self._settling if ticket <= self.committed]
        self._settling = [entry for entry in self._settling if entry[0] > self.committed]
        for waiting in due:
            waiting.callback(None)


def _nothing() -> None:
    """Nobody waits for commits yet."""


def _none() -> str | None:
    """It can be reached."""
    return None


def _raise(error: BaseException) -> None:
    raise error
