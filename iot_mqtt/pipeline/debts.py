"""What waits in the outboxes of all connections together: bounded, and those for whom most waits pay.

Each outbox has bounds of its own; a few thousand readers that stall are within theirs and fill the memory all the same.
Only what the kernel did not take is counted: whoever reads owes nothing and costs nothing.
"""

from __future__ import annotations

from typing import Protocol

from iot_mqtt.pipeline.reasons import OUTBOX_TOTAL, CloseReason

__all__ = ["Debts"]

#: Down to this part of the limit, so that whoever comes next does not cut another one for each write.
ENOUGH = 0.9


class Channel(Protocol):
    """The connection of an outbox."""

    def abort(self, reason: CloseReason) -> None: ...


class Debtor(Protocol):
    """An outbox."""

    #: Bytes that wait there.
    pending: int

    @property
    def channel(self) -> Channel: ...


class Debts:
    """All connections of a node."""

    __slots__ = ("held", "limit", "_debtors")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        #: Bytes that wait in all.
        self.held = 0
        self._debtors: dict[Debtor, None] = {}

    def change(self, debtor: Debtor, by: int) -> None:
        """So many bytes more wait for a connection, or fewer."""
        self.held += by
        if not debtor.pending:
            self._debtors.pop(debtor, None)
            return
        self._debtors[debtor] = None
        if by > 0 and self.held > self.limit:
            self._cut()

    def _cut(self) -> None:
        largest = sorted(self._debtors, key=lambda debtor: debtor.pending, reverse=True)
        for debtor in largest:
            if self.held <= self.limit * ENOUGH:
                return
            debtor.channel.abort(OUTBOX_TOTAL)  # which drops what waits, and says so here
