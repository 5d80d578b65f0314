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
    #: Of ``left``, what waited when lives were killed, as their last marks have it.
    left_by_killed: int = 0
    #: Of ``handed_over``: with sessions whose records say how many; of ``restored``: what these records said. Both are
    #: marked in the batch that has the records, so their sums over all nodes agree after ``kill -9``, too.
    passed_on: int = 0
    taken_over: int = 0
    #: Of ``handed_over``: by links, for members of groups; of ``matched`` and ``restored``: what came so.
    lent: int = 0
    borrowed: int = 0
    #: Of ``restored``: what was found without anybody saying how much there should be.
    found: int = 0
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
    #: Of these, what was in no store, some seconds before at most: it is gone if the node is killed.
    in_memory: int
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
class KeptAccount:
    """What the store has of one node, which may be here no more."""

    number: int
    waiting: int
    account: Account


@dataclass(frozen=True, slots=True)
class NodeAccounts:
    """What one node adds to the identity of the cluster."""

    number: int
    #: Of this life.
    unexplained: int
    waiting: int
    uncounted: int
    #: Of all its lives.
    account: Account
    #: Of all nodes that the store knows, this one included.
    kept: tuple[KeptAccount, ...]
    #: Readers that lost messages, or ended, in this life, before anybody had counted what they were owed.
    uncounted_losses: int = 0


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """All nodes and all their lives as one sum; those that do not answer as the store has them."""

    #: What no node can explain, and ``moving``. While nothing moves this is 0, or messages were lost (above) or counted
    #: twice (below).
    unexplained: int
    #: Handed over with sessions, and not taken over yet: on the way, or lost. Exact over ``kill -9`` of nodes; not
    #: where a node and the server of the grid that wrote for it end in the middle of the same batch.
    moving: int
    matched: int
    restored: int
    delivered: int
    handed_over: int
    dropped: dict[str, int]
    #: Nodes that do not answer: as their last marks have it.
    waiting: int
    uncounted: int
    lives: int
    killed: int
    #: What waited when lives ended; of this by lives that were killed, as their last marks have it.
    left: int
    left_by_killed: int
    #: What was found for sessions and groups of lives that were over. With ``left`` it cannot be compared to the last
    #: message: what came while nobody had the session is in it, too.
    found: int
    #: Given to members of groups on other nodes by links, less what came: on the way, lost with a link, or, below 0,
    #: given to a second member after a link broke, or by a life that was killed before it had marked that. What lives
    #: that are over have left in it stays, so it is an estimate unless it is 0.
    on_links: int
    #: What of all this is not exact: "missing_nodes", "uncounted", "uncounted_losses", "killed_lives",
    #: "links".
    estimated: tuple[str, ...]


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
