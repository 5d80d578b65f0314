"""The cluster as the admin side sees it, and clients that are sent to other nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

#: Clients a second that are sent to other nodes, unless something else is asked for.
DEFAULT_RATE = 100
MAX_RATE = 100_000
#: States of members that are not there, and that have nothing any more that another node would not have.
AWAY: Final = frozenset({"stopped", "gone", "left"})


@dataclass(frozen=True, slots=True)
class DrainInfo:
    """Clients on their way to other nodes."""

    #: "serving", "draining", "drained" or "rebalancing".
    state: str
    #: Newcomers are refused.
    refusing: bool
    #: Clients are told that this node will not come back.
    moved: bool
    #: Clients a second.
    rate: int
    #: None: nobody is or was being sent away.
    began_at: float | None
    #: Clients that are still connected.
    clients: int
    #: Clients that were sent away.
    sent_away: int
    #: Of ``clients``, those that leave as soon as what they sent is committed.
    leaving: int
    #: Of ``clients``, those that are still to be sent away.
    remaining: int
    #: Newcomers that were refused.
    refused: int
    #: Seconds, at this rate; None: there is nothing to do.
    estimate: float | None


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """One node, as it looks from the one that was asked; of what a link counts, that one has nothing."""

    number: int
    node_id: str
    #: The number of its present life.
    boot: int
    version: str
    #: "self", "up", "deaf" (it does not hear us), "silent" (we do not hear it), "dead" (and its sessions are being
    #: adopted), and then "stopped" (in order) or "gone" (without a word), or "left" (it is not known how).
    state: str
    draining: bool
    clients: int
    #: 0 (idle) to 1; None: it is the node that was asked.
    load: float | None = None
    #: Filters that it wants.
    routes: int = 0
    #: Whether both have the same of what it wants.
    routes_agree: bool = True
    #: Changes of what we want that it does not act on yet.
    routes_behind: int = 0
    #: How far the link lags: bytes that were sent to it and that it has not confirmed.
    unconfirmed: int = 0
    #: So much that QoS 0 for it is dropped.
    crowded: bool = False
    datagrams_sent: int = 0
    items_sent: int = 0
    bytes_sent: int = 0
    datagrams_received: int = 0
    items_received: int = 0
    bytes_received: int = 0
    repairs_asked: int = 0
    repairs_served: int = 0
    #: Times that something was lost for good, and had to be read from the log.
    gaps: int = 0
    items_missed: int = 0
    #: Seconds that its wall clock is ahead of that of the node that was asked; None: not known.
    clock_offset: float | None = None
    #: Of one that is not there: when it was stopped, or was gone; None: it is there, or nobody knows.
    left_at: float | None = None

    @property
    def away(self) -> bool:
        """It is not there, and nobody misses what it had."""
        return self.state in AWAY


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster as it looks from one node; a sole node is all there is."""

    clustered: bool
    node_id: str
    number: int = 0
    boot: int = 0
    #: "connected", "suspended", "lost"; "none" for a sole node.
    registry: str = "none"
    registry_trouble: str | None = None
    #: Why this node is not part of the cluster any more, until it begins a new life; None: it is.
    over: str | None = None
    #: Why commits fail; None: they do not.
    grid_trouble: str | None = None
    #: Bytes that are used in the fullest server of the grid, or by this node's own, and those that may be.
    room_used: int = 0
    room_limit: int = 0
    #: "none", "alarm" (from 80 % on), "full" (what would be stored is refused or waits).
    room_level: str = "none"
    #: Parts of the grid that have fewer copies than they should: until it is 0, no server of it may be taken away.
    #: None: not known now, or the grid is this node's own.
    copies_missing: int | None = None
    #: Servers of the grid. None: not known now, or the grid is this node's own.
    grid_servers: int | None = None
    members: list[MemberInfo] = field(default_factory=list)
    #: Filters that this node wants of the others.
    routes: int = 0
    routes_version: int = 0
    #: Everybody on the list acts on what the others want.
    routes_agree: bool = True
    #: Subscriptions that were confirmed although some peer had not said that it acts on them.
    known_late: int = 0
    #: Clients that this node has become the home of, by where their session was before.
    claims_granted: dict[str, int] = field(default_factory=dict)
    claims_refused: dict[str, int] = field(default_factory=dict)
    #: Clients that other nodes asked for.
    released: int = 0
    releases_refused: int = 0
    fences: int = 0
    #: Numbers of dead nodes whose sessions nobody has taken over yet.
    dead: list[int] = field(default_factory=list)
    adoptions: int = 0
    adopted_clients: int = 0
    adoption_failures: int = 0
    unreadable_channels: int = 0
    incompatible: list[str] = field(default_factory=list)
    strangers: int = 0
    messages_forwarded: int = 0
    messages_from_peers: int = 0
    forwards_dropped: dict[str, int] = field(default_factory=dict)
    #: What does not work as it should, and why, in words; empty: all is well.
    degraded: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ShareInfo:
    """One node's part of a rebalancing."""

    number: int
    node_id: str
    clients: int
    #: How many it should have.
    mean: int
    #: How many it sends away; 0: it has not so many more than the others that it would be worth it.
    surplus: int
    #: Why there is no answer, or why it does nothing.
    note: str | None


class ClusterPart(Protocol):
    """This node among the others, and its clients on their way to them."""

    def info(self) -> ClusterInfo: ...

    def progress(self) -> DrainInfo:
        """Cheap enough to be asked every second."""
        ...

    def drain(self, rate: int | None, *, moved: bool) -> DrainInfo:
        """Let no clients in and send all away; again: with another rate."""
        ...

    def resume(self) -> None:
        """Let clients in again."""
        ...

    async def rebalance(self, rate: int | None, *, dry_run: bool) -> list[ShareInfo]:
        """Have every node send away what it has more than the others; by number."""
        ...

    async def remove(self, node_id: str) -> bool:
        """A node will not come back, and its number is for the next new one; False: there is none of this name. Raises
        ``NotGone``.
        """
        ...
