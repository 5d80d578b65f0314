"""How a cluster looks from one of its nodes: what there is to show an operator and to count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class NotGone(Exception):
    """A node that cannot be removed from the cluster; the text says why."""


class Ending(StrEnum):
    """How a node that is not there has ended."""

    #: In order: nobody misses it.
    STOPPED = "stopped"
    GONE = "gone"
    #: Nothing is noted of it: it has just left, or starts, or ended under an earlier release.
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class AbsentNode:
    """One that has joined, was not removed, and is not in the registry's list."""

    number: int
    node_id: str
    #: The number of its last life.
    boot: int
    ending: Ending
    #: Wall-clock seconds; None: not known.
    since: float | None


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """One other node, as it looks from here."""

    number: int
    node_id: str
    boot: int
    version: str
    #: It is in the registry's list.
    member: bool
    #: It is heard.
    up: bool
    #: It says that it hears this node.
    hears_us: bool
    draining: bool
    load: float
    clients: int
    #: How far its log is safe, as it has announced.
    end: int
    #: Bytes that were sent to it and are not confirmed.
    unconfirmed: int
    crowded: bool
    #: Filters that it wants, in its version; whether both sides have the same is seen with every heartbeat.
    routes: int
    routes_version: int
    routes_agree: bool
    #: The version of our filters that it acts on, -1: none.
    acts_on: int
    #: What links had to do again, what they gave up, and what both took: see ``links.LinkFigures``.
    repairs_asked: int
    repairs_served: int
    gaps: int
    items_missed: int
    datagrams_sent: int
    items_sent: int
    bytes_sent: int
    datagrams_received: int
    items_received: int
    bytes_received: int
    #: Seconds that its wall clock is ahead of this node's; None: not known.
    clock_offset: float | None


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The cluster from this node's point of view."""

    node_id: str
    number: int
    boot: int
    #: Why this life is over; None: it is not.
    over: str | None
    registry: str
    registry_trouble: str | None
    #: Parts of the grid that have fewer copies than they should; None: not known now.
    copies_missing: int | None
    #: Why this node cannot read the log from the grid; None: it can, as far as is known.
    read_trouble: str | None
    #: Reads of it that failed.
    read_failures: int
    #: Servers of the grid; None: not known now.
    grid_servers: int | None
    routes: int
    routes_version: int
    draining: bool
    peers: tuple[PeerStatus, ...]
    #: By number.
    absent: tuple[AbsentNode, ...]
    #: Subscriptions that were confirmed although some peer had not said that it acts on them.
    known_late: int
    claims_granted: Mapping[str, int]
    claims_refused: Mapping[str, int]
    released: int
    releases_refused: int
    fences: int
    #: Dead nodes whose sessions nobody has taken over yet, as far as is known: number → boot.
    dead: Mapping[int, int]
    adoptions: int
    adopted_clients: int
    adoption_failures: int
    unreadable_channels: int
    incompatible: tuple[str, ...]
    strangers: int
    #: Of those whose clock is wrong: node id → seconds that it is ahead of the others'; negative: behind.
    clocks_wrong: Mapping[str, float]


def node_words(number: int, name: str = "") -> str:
    """A node, for people: a number alone reads like another one's name, for numbers go by the order of joining."""
    return name or f"a node (number {number})"


def clock_words(node_id: str, ahead: float) -> str:
    """That the clock of a node is wrong."""
    where = "ahead of" if ahead > 0 else "behind"
    return f"the clock of {node_id} is {abs(ahead):.1f} s {where} those of the other nodes"
