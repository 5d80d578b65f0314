"""Clients as the admin side sees them: those that are connected, and what became of others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """One connected client."""

    client_id: str
    #: The verified user; None: an anonymous client.
    username: str | None
    #: What the client calls itself, where that is another name.
    claimed_user: str | None
    peer: str
    listener: str
    protocol: str  # of MQTT: "3.1", "3.1.1", "5.0"; of a gateway the name of its codec
    clean_start: bool
    keep_alive: int
    connected_at: float
    bytes_received: int
    bytes_sent: int
    outbox_bytes: int
    writable: bool
    subscriptions: int
    inflight: int
    queued: int
    #: Why it is not read from: "disk_full", "uncommitted", "rate"; None: it is.
    paused: str | None


@dataclass(frozen=True, slots=True)
class AttemptInfo:
    """What became of a client that is not there: a CONNECT that was refused, or a session that has ended."""

    client_id: str
    #: "refused" or "ended".
    kind: str
    at: float
    #: A name, for programs.
    reason: str
    #: The same for people.
    text: str
    #: The verified user; None: nobody was verified, or an anonymous client.
    username: str | None
    #: Empty where nobody was connected when the session ended.
    peer: str
    #: Empty where that is not known any more: of connections in the life of the node before this one.
    listener: str
    #: What a client that was refused calls itself, where that is another name.
    claimed_user: str | None = None


@dataclass(frozen=True, slots=True)
class ClientsWanted:
    """Which clients are listed; None: whatever it is."""

    #: What the client id begins with.
    prefix: str | None = None
    #: The verified one; "": none.
    user: str | None = None
    #: An address, or a network such as 10.0.7.0/28.
    address: str | None = None
    listener: str | None = None
    #: A part of the client id, whatever the case of its letters.
    contains: str | None = None
