"""The inbox: where commands come in that were ordered through the data platform, and what reads it.

A *letter* is one record of the platform's topic of commands. It stays there; what the inbox keeps is a position for
each partition, and that moves when everything before it has been *settled*: a command is committed, or a letter that
nobody can do anything with is buried in another topic.

    topic ─▶ inbox ─(came)─▶ reader ─▶ command ─(committed)─▶ settled ─▶ position

Whatever dies in between, the letters behind the position come again, and their ids say that they did.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

#: Called once in the reactor's thread: None: the letter is buried; else why not.
Buried = Callable[[Exception | None], None]


class Letter(NamedTuple):
    """One record."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    #: When it was written, in seconds since 1970; None: nobody knows.
    timestamp: float | None


@dataclass(frozen=True, slots=True)
class InboxFacts:
    """What the inbox knows of itself."""

    topic: str
    group: str
    #: Whether it takes part in its group now.
    joined: bool
    #: The partitions that are read here.
    partitions: tuple[int, ...]
    #: Letters behind the kept positions of these partitions, as far as that is known.
    lag: int
    #: Kept positions.
    commits: int
    #: Times that it had to begin anew.
    restarts: int


class Reader(Protocol):
    """What reads letters. Everything is called in the reactor's thread."""

    def assigned(self, partitions: Sequence[int]) -> None:
        """Letters of these will come."""
        ...

    def came(self, letters: Sequence[Letter]) -> None:
        """In order within each partition."""
        ...

    def revoked(self, partitions: Sequence[int], done: Callable[[], None]) -> None:
        """Another node will read these as soon as ``done`` is called: finish what is under way, forget the rest."""
        ...

    def lost(self, partitions: Sequence[int]) -> None:
        """Another node may be reading these by now: forget everything of them."""
        ...


class Inbox(Protocol):
    """Where letters come from. Everything is called in the reactor's thread, and returns at once."""

    @property
    def trouble(self) -> str | None:
        """What keeps letters from coming, in words; None: nothing."""
        ...

    def begin(self, reader: Reader) -> None:
        """Bring letters from now on; try for ever if that can't be done now."""
        ...

    def settled(self, partition: int, position: int) -> None:
        """Nothing before this position of the partition need come again."""
        ...

    def bury(self, letter: Letter, reason: str, buried: Buried) -> None:
        """Put it where people look for letters that could not be dealt with."""
        ...

    def hold(self) -> None:
        """Bring no more for now; what is on its way still comes."""
        ...

    def go_on(self) -> None:
        """There is room again."""
        ...

    def facts(self) -> InboxFacts:
        """Figures."""
        ...

    def close(self) -> Awaitable[None]:
        """Keep the positions, and end."""
        ...

    def abandon(self) -> None:
        """End; keep nothing more."""
        ...
