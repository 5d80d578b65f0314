"""Bans: who is not let in, whatever proves who he is, and who imposed that."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

#: Kind of their documents in the directory.
BANS: Final = "bans"


class Cause(StrEnum):
    """Why there is a ban."""

    OPERATOR = "operator"
    FLAPPING = "flapping"  # a client that connects and disconnects without end
    GUESSING = "guessing"  # a client that shows wrong passwords without end


@dataclass(frozen=True, slots=True)
class Ban:
    """It concerns whom all of it fits that is not None; one of the three is there."""

    id: str
    #: A client id, or a pattern with * and ?.
    client: str | None
    user: str | None
    #: An address, or a network.
    address: str | None
    #: Seconds since 1970; None: for good.
    until: float | None
    cause: str
    reason: str
    made_by: str
    made_at: float
    #: The client id has no signs that stand for others, whatever is in it.
    exact: bool = False


class Bans(Protocol):
    """What is known of bans now; asking waits for nothing. It is false where there is none."""

    def __len__(self) -> int: ...

    def find(self, client_id: str, user: str, host: str) -> Ban | None:
        """One that concerns a client; an empty text is nobody's."""
        ...

    def impose(self, cause: Cause, client_id: str, address: str, seconds: float, reason: str) -> None:
        """Ban a client at an address, from now on."""
        ...


class NoBans:
    """Nobody is banned, ever."""

    def __len__(self) -> int:
        return 0

    def find(self, client_id: str, user: str, host: str) -> Ban | None:
        return None

    def impose(self, cause: Cause, client_id: str, address: str, seconds: float, reason: str) -> None: ...
