"""The loss identity over all lives of a node: sums that are kept with the batches of the store.

A mark goes with a batch that leaves anyway, once a second at most, and with each that hands sessions over or has them
come; where nothing leaves although something was counted, it makes a batch of its own every few seconds. The last mark
of a life that stops says so. The next life begins where that one ended, and what it finds waiting must be what waited
then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.ports.identity import Account, Mark, Marks

#: Between two marks in batches that leave anyway.
MARK_SECONDS = 1.0


class LossLedger:
    """A participant in commits. ``load`` it before anything is counted."""

    def __init__(self, marks: Marks, counters: Counters, clock: Clock, reserve: Callable[[], object]) -> None:
        """``reserve``: have the store make a batch soon."""
        self._marks = marks
        self._counters = counters
        self._clock = clock
        self._reserve = reserve
        self._before = Account(clock.wall())
        self._marked_at = float("-inf")
        # Messages that had come or gone with sessions when the last mark was made.
        self._moved = 0
        #: What waits in no store, as it was a moment ago.
        self.in_memory = 0
        self._marked: Account | None = None
        self._ending = False
        #: What waited when a life was killed was not counted to the last, and cannot be compared.
        self._incomparable = False
        #: Readers that nobody had counted and that are no more, as far as they are settled.
        self._uncounted = 0

    async def load(self) -> None:
        """Go on with the account of the lives before."""
        mark = await self._marks.load()
        if mark is not None:
            account, killed = mark.account, not mark.stopped
            self._incomparable = killed
            gone = min(mark.in_memory, mark.waiting) if killed else 0
            left = mark.waiting - gone
            self._before = replace(
                account,
                lives=account.lives + 1,
                killed=account.killed + killed,
                left=account.left + left,
                left_by_killed=account.left_by_killed + (left if killed else 0),
                dropped=dict(Counter(account.dropped) + Counter({str(Drop.KILLED): gone})),
            )

    @property
    def account(self) -> Account:
        """All lives, and this one so far."""
        before, now = self._before, self._counters
        return replace(
            before,
            matched=before.matched + now.messages_matched,
            restored=before.restored + now.messages_restored,
            delivered=before.delivered + now.messages_delivered,
            handed_over=before.handed_over + now.messages_handed_over,
            passed_on=before.passed_on + now.messages_passed_on,
            taken_over=before.taken_over + now.messages_taken_over,
            lent=before.lent + now.messages_lent,
            borrowed=before.borrowed + now.messages_borrowed,
            found=before.found + now.messages_found,
            dropped=dict(Counter(before.dropped) + Counter(losses(now))),
        )

    @property
    def unsettled(self) -> bool:
        """Whether ``Account.between`` says nothing before ``settle``."""
        return self._incomparable or self._counters.readers_uncounted != self._uncounted

    def settle(self) -> None:
        """Everything that waits is counted: write off what is between two lives now, for there is no telling why."""
        self._incomparable, self._uncounted = False, self._counters.readers_uncounted
        self._before = replace(self._before, settled=self._before.settled + self.account.between)

    def look(self) -> None:
        """Have a mark made if something was counted since the last one. Called every few seconds."""
        if self._marked != self.account:
            self._reserve()

    def close(self) -> None:
        """This life stops: every batch that is still to come has a mark, and there is one."""
        self._ending = True
        self._reserve()

    # As a participant in commits.

    def contribute(self, batch: WriteBatch, ticket: int) -> None:
        now, counters = self._clock.monotonic(), self._counters
        moved = counters.messages_passed_on + counters.messages_taken_over
        if self._ending or moved != self._moved or now - self._marked_at >= MARK_SECONDS:
            self._marked_at, self._moved = now, moved
            self._marked = self.account
            self._marks.stage(batch, Mark(self._marked, counters.unconfirmed, self.in_memory, self._ending))

    def committed(self, ticket: int) -> None:
        """Nobody waits for a mark."""


def losses(counters: Counters) -> dict[str, int]:
    """Drops by reason, without those that were delivered all the same."""
    return {str(reason): count for reason, count in counters.dropped.items() if count and reason != Drop.RETAINED_QUOTA}
