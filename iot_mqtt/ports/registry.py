"""Who is there: the nodes of a cluster, as far as this one can know.

Three states, and what to do in each:

    CONNECTED   the list of members is as fresh as the registry's
    SUSPENDED   the registry cannot be reached: act as owner of nothing new, give out no lock, keep serving
    LOST        our entry has gone and others may own our clients: let them go, then register anew

A member that leaves the list may be dead, paused or cut off; whoever takes its place fences it first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class RegistryState(StrEnum):
    """How far the list of members can be trusted."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Member:
    """One node. A restart keeps ``node_id`` and ``number`` and has a greater ``boot``."""

    node_id: str
    #: Its number in the grid, 1 to 255: who writes a log, and what others call it in records.
    number: int
    #: The number of its present life; greater than that of every earlier one.
    boot: int
    version: str
    #: Link protocol versions it speaks.
    protocols: tuple[int, ...] = (1,)
    #: Listener name → "host:port" that clients reach it by.
    addresses: Mapping[str, str] | None = None
    #: 0 (idle) to 1, and the clients it has; refreshed now and then.
    load: float = 0.0
    clients: int = 0
    #: It wants no new clients.
    draining: bool = False


class Lease(Protocol):
    """An exclusive right that is held."""

    #: Greater than that of every earlier holder: goes into what is written under it.
    number: int

    @property
    def held(self) -> bool:
        """False as soon as it may have passed to another."""
        ...

    def release(self) -> None: ...


class Registry(Protocol):
    """Everything is called in the reactor's thread, and calls back there."""

    #: Told after every change of ``state``.
    on_state: Callable[[RegistryState], None]
    #: Told after every change of the list.
    on_members: Callable[[], None]

    @property
    def state(self) -> RegistryState:
        """Looks at the clock: after a pause it says LOST even before that could be told."""
        ...

    @property
    def members(self) -> Mapping[str, Member]:
        """By node id; this node is among them once it has registered."""
        ...

    async def register(self, member: Member) -> None:
        """Enter the list, in the place of an earlier life's entry. Returns when others can see it."""
        ...

    def update(self, member: Member) -> None:
        """Refresh this node's entry (load, draining, addresses), some time soon."""
        ...

    async def acquire(self, name: str) -> Lease | None:
        """An exclusive right, if nobody else has it; None if somebody has, or the state is not CONNECTED."""
        ...

    async def evict(self, member: Member) -> None:
        """Take another node's entry off the list, if it is still of that life: it is fenced, so nobody has to wait for
        the registry to notice its end. Nothing happens where the list cannot be had now.
        """
        ...

    async def close(self) -> None:
        """Leave the list at once."""
        ...

    @property
    def trouble(self) -> str | None:
        """What is wrong, in words; None: nothing."""
        ...
