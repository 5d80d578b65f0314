"""Who does not keep up, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: By what a session waits for (``Outflow.state``): why it does not get more.
CAUSES: Final = {
    "offline": "the client is away",
    "committing": "what it gets waits for a commit",
    "outbox_full": "the client reads more slowly than it is sent to, or its network does",
    "inflight_full": "the client has not acknowledged what it has: its window is full",
    "reading": "it is catching up with the log",
    "caught_up": "the client has not acknowledged yet what it has just been sent",
}


@dataclass(frozen=True, slots=True)
class SlowInfo:
    """One session for which something waits, or whose client does not read."""

    client_id: str
    #: The verified user who began it; None: nobody knows.
    owner: str | None
    connected: bool
    #: A key of ``CAUSES``, and what stands there.
    state: str
    cause: str
    #: Messages, all of them.
    waiting: int
    queued: int
    #: In the log; None: it is still being counted, and ``waiting`` has what is known.
    backlog: int | None
    inflight: int
    #: Messages that may be under way at once.
    window: int
    #: Batches between it and the end of the log.
    lag: int
    #: Bytes for its client that the network has not taken.
    outbox_bytes: int
    #: Since the oldest message came that waits; None: nobody knows.
    oldest_seconds: float | None
    #: Messages that it did not get, by reason.
    dropped: dict[str, int]
