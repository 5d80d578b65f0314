"""What is remembered of clients that are not there: refused CONNECTs, sessions that have ended, connections that broke.

For whoever asks "why is it not connected?" The memory is bounded, in entries and in bytes, and no address may have more
than a part of it: a flood of refusals pushes out what its own address did before, and not what others did. Passwords
never come here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from iot_mqtt.broker.facade import AttemptInfo
from iot_mqtt.codec import Connect
from iot_mqtt.pipeline import Context
from iot_mqtt.ports.addresses import host_of, source_of
from iot_mqtt.ports.endings import CLIENT_DISCONNECTED, end_text
from iot_mqtt.ports.events import CLIENT_REFUSED, SESSION_ENDED, Events

__all__ = ["Attempts", "MemoryBounds", "tell_attempt"]

_REFUSALS: Final = frozenset({"refused", "unnamed"})
_EVENTS = {"refused": CLIENT_REFUSED, "ended": SESSION_ENDED}
_TOLD = ("client", "user", "peer", "listener", "reason", "text")
_TOLD_REFUSED = (*_TOLD, "claimed_user")

#: Those of an ``AttemptInfo``; every session that ends with its connection leaves some, and hardly anybody asks.
Fields = tuple[str, str, float, str, str, str | None, str, str, str | None]
#: Characters that are kept of what a client says.
LONGEST = 256
#: Bytes of an entry beside its texts, about.
AROUND = 600


#: Ends of connections that said nothing, and from which nothing is learned.
_SILENT: Final = frozenset({"peer_closed", "peer_reset", "closed", "aborted", "shutting_down", "server_shutting_down"})


def _unnamed(host: str) -> str:
    """What stands in place of a client id; no client id has this sign [MQTT-1.5.4-2]."""
    return f"\0{host}"


class Attempt(Protocol):
    """A connection that had a session, or did not say whose it wants."""

    @property
    def connect(self) -> Connect | None: ...

    @property
    def ctx(self) -> Context | None: ...


class Newcomer(Attempt, Protocol):
    """A connection that asked for a session."""

    @property
    def user(self) -> str | None:
        """The verified one."""
        ...

    @property
    def claimed_user(self) -> str | None:
        """What the client calls itself, if that is another name."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryBounds:
    """How much is remembered; an address has one part of so many."""

    entries: int = 10_000
    bytes: int = 8 * 1024 * 1024
    parts: int = 8
    #: Entries of one client.
    each: int = 5


class Attempts:
    """The last attempts and ends by client id."""

    __slots__ = ("_bounds", "_by_address", "_by_client", "_bytes", "_entries", "_next", "_oldest", "_wall", "noted")

    def __init__(self, wall: Callable[[], float], bounds: MemoryBounds | None = None) -> None:
        self._wall = wall
        self._bounds = bounds or MemoryBounds()
        #: By number; all three in the order of time.
        self._entries: dict[int, tuple[Fields, str, int]] = {}
        self._by_client: dict[str, dict[int, None]] = {}
        self._by_address: dict[str, dict[int, None]] = {}
        self._bytes = 0
        self._next = 0
        #: No entry has a lower number.
        self._oldest = 1
        #: Told whatever is remembered.
        self.noted: Callable[[Fields], None] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, client_id: str) -> list[AttemptInfo]:
        """The newest first."""
        return [
            AttemptInfo(*self._entries[number][0]) for number in reversed(self._by_client.get(client_id[:LONGEST], {}))
        ]

    def refused(self, connection: Newcomer, reason: str, detail: str) -> None:
        """A CONNECT was not accepted."""
        connect = connection.connect
        if connect is not None and not connect.client_id:
            self.unnamed(connection, reason, detail)
        elif connect is not None:
            self._note(
                connection,
                "refused",
                connect.client_id,
                connection.user,
                reason,
                detail or end_text(reason),
                connection.claimed_user,
            )

    def ended(
        self, client_id: str, user: str | None, end: str, connection: Attempt | None = None, detail: str = ""
    ) -> None:
        """A session is no more."""
        self._note(connection, "ended", client_id, user, end, end_text(end, detail))

    def left(self, client_id: str, user: str | None, end: str, connection: Attempt, detail: str) -> None:
        """A session has lost its connection, and waits for the client."""
        if end != CLIENT_DISCONNECTED:
            self._note(connection, "left", client_id, user, end, end_text(end, detail))

    def unnamed(self, connection: Attempt, reason: str, detail: str) -> bool:
        """A connection ended before it was known who its client is. False: nothing is learned from that."""
        if reason in _SILENT:
            return False
        self._note(connection, "unnamed", "", None, reason, detail or end_text(reason))
        return True

    def from_address(self, host: str) -> list[AttemptInfo]:
        """Of connections from an address that ended before they said who they are; the newest first."""
        return self.of(_unnamed(host))

    def all_unnamed(self, most: int) -> list[AttemptInfo]:
        """The same of all addresses, as many as are wanted."""
        found = (fields for fields, _, _ in reversed(self._entries.values()) if fields[1] == "unnamed")
        return [AttemptInfo(*fields) for fields in islice(found, most)]

    def refusals(self) -> Iterator[AttemptInfo]:
        """Connections that were not let in, the newest first; not those that are noted meanwhile."""
        entries = list(self._entries.values())
        return (AttemptInfo(*fields) for fields, _, _ in reversed(entries) if fields[1] in _REFUSALS)

    def _note(
        self,
        connection: Attempt | None,
        kind: str,
        client_id: str,
        user: str | None,
        reason: str,
        text: str,
        claimed: str | None = None,
    ) -> None:
        channel = connection.ctx.channel if connection is not None and connection.ctx is not None else None
        peer, listener = ("", "") if channel is None else (channel.peer, channel.listener)
        user, claimed = (None if name is None else name[:LONGEST] for name in (user, claimed))
        client_id, text, peer = client_id[:LONGEST], text[:LONGEST], peer[:LONGEST]
        if kind == "unnamed":
            client_id = _unnamed(host_of(peer))
        fields = (client_id, kind, self._wall(), reason, text, user, peer, listener, claimed)
        self._add(fields, source_of(peer))
        noted = self.noted
        if noted is not None:
            noted(fields)

    def _add(self, fields: Fields, address: str) -> None:
        bounds = self._bounds
        number = self._next = self._next + 1
        size = AROUND + len(fields[0]) + len(fields[4]) + len(fields[5] or "") + len(fields[8] or "")
        self._entries[number] = (fields, address, size)
        self._bytes += size
        own = self._by_client.setdefault(fields[0], {})
        own[number] = None
        if len(own) > bounds.each:
            self._drop(next(iter(own)))
        there = self._by_address.setdefault(address, {})
        there[number] = None
        # An entry has a bounded size, so a part of the entries is at most about that part of the bytes.
        if len(there) > max(1, min(bounds.entries, bounds.bytes // AROUND) // bounds.parts):
            self._drop(next(iter(there)))
        while len(self._entries) > bounds.entries or self._bytes > bounds.bytes:
            while self._oldest not in self._entries:
                self._oldest += 1
            self._drop(self._oldest)

    def _drop(self, number: int) -> None:
        fields, address, size = self._entries.pop(number)
        self._bytes -= size
        for kept, key in ((self._by_client, fields[0]), (self._by_address, address)):
            numbers = kept[key]
            del numbers[number]
            if not numbers:
                del kept[key]


def tell_attempt(events: Events, attempt: Fields) -> None:
    """What is remembered of a client is an event, if the client had a name."""
    client_id, remembered, _, reason, text, user, peer, listener, claimed = attempt
    kind = _EVENTS.get(remembered)
    if kind == CLIENT_REFUSED:
        events.note(kind, _TOLD_REFUSED, (client_id, user, peer, listener, reason, text, claimed))
    elif kind is not None:
        events.note(kind, _TOLD, (client_id, user, peer, listener, reason, text))
