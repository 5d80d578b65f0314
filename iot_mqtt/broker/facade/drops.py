"""What did not arrive, as the admin side sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DroppedInfo:
    """What did not arrive: of one client, for one reason, with one topic."""

    #: "dropped": messages that a receiver did not get; "refused": publishes and requests that were not taken, or not as
    #: asked; "denied": the right was missing; "connect": a client that was not let in.
    kind: str
    #: The reason.
    code: str
    #: Who did not get it, or was refused; empty where that was not said.
    client_id: str
    #: Of the last dropped message; empty where that is not known.
    publisher: str
    #: A topic or a filter; empty where there is none.
    topic: str
    #: How often, since the first one that is remembered.
    count: int
    first: float
    last: float
    detail: str
    #: Of clients that were not let in: the verified user, if it came so far.
    user: str | None
    peer: str
    #: What such a client calls itself, where that is another name.
    claimed_user: str | None = None


@dataclass(frozen=True, slots=True)
class DroppedWanted:
    """Which of those; None: whatever it is. Texts are parts, whatever the case of their letters."""

    kind: str | None = None
    reason: str | None = None
    topic: str | None = None
    client: str | None = None
    publisher: str | None = None
