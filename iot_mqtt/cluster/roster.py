"""Which lives of which nodes are alive, by the registry's list and by what it has shown before.

    ALIVE    the list has that node with that boot
    DEAD     the list has shown it, or a later life of the node, and does not have it now
    UNSEEN   the list has never shown it: it may be about to appear; after a grace it counts as dead

Only asked while the registry is connected. To be wrong about DEAD spoils nothing: it is fenced before anything is
taken from it, and a node that was alive after all begins a new life.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class Standing(Enum):
    """Of one life of one node."""

    ALIVE = auto()
    DEAD = auto()
    UNSEEN = auto()


class Life(NamedTuple):
    """One life of one node."""

    number: int
    boot: int
