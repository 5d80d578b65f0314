"""What became of messages, over all lives of a node: the loss identity, kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from iot_mqtt.ports.grid import WriteBatch


@dataclass(frozen=True, slots=True)
class Account:
    """Sums over lives: what came to receivers, and what became of it; what waited when a life ended is in ``left``."""

    #: When the first of these lives began, by the wall clock.
    began_at: float
    #: The present one included.
    lives: int = 1
    #: Lives that were killed: what they counted last is missing.
    killed: int = 0
    matched: int = 0
    restored: int = 0
    delivered: int = 0
    handed_over: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    #: What waited at the ends of the lives before, summed.
    left: int = 0
    #: What was written off of ``between``, because nobody could have counted it.
    settled: int = 0

    @property
    def between(self) -> int:
        """What waited at the end of a life, or went to another node, and has not been found again here.

        Of a node by itself this is 0 once everything is counted, or messages were lost (above 0) or came back
        (below) between two lives.
        """
        return self.left + self.handed_over - self.restored - self.settled


@dataclass(frozen=True, slots=True)
class Mark:
    """What is kept: all lives so far, the present one with them."""

    account: Account
    #: What waits.
    waiting: int
    #: Nothing comes after it in this life.
    stopped: bool


class Marks(Protocol):
    """Where one node's marks are kept."""

    async def load(self) -> Mark | None:
        """None: there is none, or it cannot be read."""
        ...

    def stage(self, batch: WriteBatch, mark: Mark) -> None:
        """Put it into a batch."""
        ...


@dataclass(frozen=True, slots=True)
class LossIdentity:
    """``matched + restored = delivered + waiting + handed_over + sum(dropped) + unexplained``, per receiver."""

    node_id: str
    #: Of this life.
    matched: int
    restored: int
    delivered: int
    waiting: int
    handed_over: int
    #: By reason; without ``retained_quota``, for such a message was delivered all the same.
    dropped: dict[str, int]
    #: Readers of the log whose part is still being counted; their messages are on neither side yet.
    uncounted: int
    #: 0, or it is a fault of the node.
    unexplained: int
    #: Of all lives.
    account: Account
    #: See ``Account.between``; None while it says nothing: something is uncounted, or there are other nodes.
    between: int | None
