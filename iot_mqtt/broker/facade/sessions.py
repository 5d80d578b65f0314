"""Sessions as the admin side sees them, and what waits for one."""

from __future__ import annotations

from dataclasses import dataclass

#: Why nothing more is being sent to a session.
STATES = ("offline", "committing", "outbox_full", "inflight_full", "reading", "caught_up")


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One session, connected or not."""

    client_id: str
    #: The user who began it, "" for an anonymous client; None: nobody knows, it was kept before there were owners.
    owner: str | None
    connected: bool
    durable: bool
    expiry_interval: int
    created_at: float
    disconnected_at: float | None
    #: Why the last connection ended, by reason name.
    last_disconnect: str | None
    subscriptions: int
    inflight: int
    awaiting_release: int
    received: int
    queued: int
    queued_bytes: int
    #: Messages that wait in the log; None while they are being counted.
    backlog: int | None
    #: How far it has read the log; None if it does not read it.
    position: int | None
    #: Batches written since then, if anything waits.
    lag: int
    delivered: int
    dropped: dict[str, int]
    denied: dict[str, int]
    has_will: bool
    #: One of ``STATES``.
    state: str
    #: False: more than ``backlog`` may wait in the logs of other nodes.
    backlog_complete: bool = True


@dataclass(frozen=True, slots=True)
class ClaimInfo:
    """What a session, or a group it is in, is owed from the log for one filter."""

    filter: str
    #: "subscription", "ended" (still owed something), "shared" or "replay".
    kind: str
    #: The claim begins there; None: it began elsewhere.
    since: int | None
    #: It ends there; None: it goes on.
    until: int | None
    #: How far it was read.
    position: int
    live: bool
    #: Messages found for it, at least; of a group: that wait for it, None while they are being counted.
    messages: int | None


@dataclass(frozen=True, slots=True)
class BacklogInfo:
    """What waits for one session."""

    client_id: str
    #: None while messages are being counted.
    messages: int | None
    bytes: int
    #: False: there are more bytes, the log was not read to its end.
    complete: bool
    claims: list[ClaimInfo]


@dataclass(frozen=True, slots=True)
class SessionsWanted:
    """Which sessions are listed; None: whatever it is."""

    prefix: str | None = None
    #: The owner.
    user: str | None = None
    connected: bool | None = None
    #: As ``SessionInfo.state``.
    state: str | None = None
    #: Has subscribed to exactly that; to a shared group with ``$share/<group>/``.
    filter: str | None = None
