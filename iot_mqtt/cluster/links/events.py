"""What a link tells its owner: whose life begins, who is heard, what has come and what will not come."""

from __future__ import annotations

from dataclasses import dataclass

from iot_mqtt.cluster.links.values import Heartbeat, Item


@dataclass(frozen=True, slots=True)
class Started:
    """A life of the peer begins for us, or it is on the list of members again: send it all it has to know."""

    boot: int


@dataclass(frozen=True, slots=True)
class Up:
    """The peer is heard."""


@dataclass(frozen=True, slots=True)
class Down:
    """The peer has not been heard for a while, or has left the list of members."""


@dataclass(frozen=True, slots=True)
class StoodStill:
    """This process itself did, so it does not blame the peer: but what it reads now may have been sent long ago."""


@dataclass(frozen=True, slots=True)
class Items:
    """The next items in order; ``end`` as in ``values.Data``."""

    items: tuple[Item, ...]
    end: int


@dataclass(frozen=True, slots=True)
class Gap:
    """The items with these numbers will not come."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """A heartbeat came, and everything the peer sent before it had come or was given up."""

    heartbeat: Heartbeat


Event = Started | Up | Down | StoodStill | Items | Gap | CaughtUp
