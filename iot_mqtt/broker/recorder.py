"""The flight recorder: the last packets of every client, in and out, for whoever asks afterwards what happened.

Each connection has a ring, which takes every receive and every write as one record (``native.PacketRing``)::

    accepted ──▶ begin ──▶ named ──▶ ended ──▶ kept for a while ──▶ forgotten
                   └──────────────────▲        refused: among the last few hundred only

Rings are bounded each and together: at the bound those of ended connections go first, the oldest before the others, and
a connection that comes when all of them are open is not recorded, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from iot_mqtt.native import PacketRing
from iot_mqtt.ports.recording import RecorderSettings, Recording, RecordingInfo

__all__ = ["Recorded", "Recorder"]

#: Ended connections of one client.
EACH = 3
#: Refused ones of all clients: whoever guesses passwords pushes out nobody's packets but those of others who did.
REFUSED = 256
#: Characters of a client id.
LONGEST = 256


class Recorded:
    """One connection's ring, and whose it is."""

    __slots__ = ("client_id", "end", "peer", "ring", "saved", "since", "slot", "until")

    def __init__(self, ring: PacketRing, since: float) -> None:
        self.ring = ring
        self.since = since
        self.until: float | None = None
        self.client_id = ""
        self.peer = ""
        self.end = ""
        #: Where it stands in the file, and how much of it does; None: nowhere.
        self.slot: int | None = None
        self.saved = -1

    def info(self) -> RecordingInfo:
        """What is known of the connection."""
        return RecordingInfo(self.client_id, self.peer, self.since, self.until, self.end)

    def recording(self) -> Recording:
        """The same, with its packets."""
        return Recording(self.info(), self.ring.image())


class Recorder:
    """Of all connections of one node. ``wall``: the time."""

    def __init__(self, settings: RecorderSettings, wall: Callable[[], float]) -> None:
        self.settings = settings
        #: Connections that were not recorded, because there was no room.
        self.unrecorded = 0
        #: Where a ring that is over was kept is free again.
        self.on_forgotten: Callable[[Recorded], None] = lambda _: None
        #: It is known whose a connection is, and who watches may put a tap on its ring; it is over.
        self.on_named: Callable[[Recorded], None] | None = None
        self.on_ended: Callable[[Recorded], None] = lambda _: None
        self._wall = wall
        self._most = max(1, settings.bytes // max(1024, settings.client_bytes)) if settings.enabled else 0
        #: In the order of beginning, and of ending. A channel knows its ring alone: nothing stands in between.
        self._open: dict[PacketRing, Recorded] = {}
        self._ended: dict[Recorded, None] = {}
        self._refused: dict[Recorded, None] = {}
        self._of: dict[str, list[Recorded]] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._ended) + len(self._refused)

    def __iter__(self) -> Iterator[Recorded]:
        """Those that are somebody's: the open ones first."""
        yield from (one for one in self._open.values() if one.client_id)
        yield from self._ended

    @property
    def connections(self) -> Iterator[Recorded]:
        """Those that are open, whether it is known whose they are or not."""
        return iter(self._open.values())

    @property
    def most(self) -> int:
        """Connections that are recorded at once."""
        return self._most

    def begin(self) -> PacketRing | None:
        """Record a connection that was just accepted; None: there is no room, or nothing is recorded at all."""
        if len(self) >= self._most and not self._make_room():
            self.unrecorded += self._most > 0
            return None
        settings, wall = self.settings, self._wall
        ring = PacketRing(wall, settings.client_bytes, settings.payload_bytes)
        self._open[ring] = Recorded(ring, self._now())
        return ring

    def named(self, ring: PacketRing, client_id: str, peer: str) -> None:
        """It is known whose connection it is: he was let in."""
        recorded = self._open[ring]
        recorded.client_id, recorded.peer = client_id[:LONGEST], peer
        self._of.setdefault(recorded.client_id, []).append(recorded)
        if self.on_named is not None:
            self.on_named(recorded)

    def ended(self, ring: PacketRing, end: str, refused: str | None = None, peer: str = "") -> None:
        """The connection is no more; ``refused``: the client id of somebody who was not let in."""
        recorded = self._open.pop(ring)
        recorded.until, recorded.end = self._now(), end
        if ring.tap is not None:
            ring.tap = None
            self.on_ended(recorded)
        if recorded.client_id:
            self._ended[recorded] = None
            own = [one for one in self._of[recorded.client_id] if one in self._ended]
            if len(own) > EACH:
                self._forget(own[0])
        elif refused:
            recorded.client_id, recorded.peer = refused[:LONGEST], peer
            self._refused[recorded] = None
            self._of.setdefault(recorded.client_id, []).append(recorded)
            if len(self._refused) > REFUSED:
                self._forget(next(iter(self._refused)))

    def of(self, client_id: str) -> list[Recording]:
        """The connections of a client, the oldest first."""
        return [one.recording() for one in self._of.get(client_id[:LONGEST], ())]

    def sweep(self) -> None:
        """Forget what has been over for long enough."""
        before = self._wall() - self.settings.keep_seconds
        for book in (self._ended, self._refused):
            while book and ((first := next(iter(book))).until or 0.0) <= before:
                self._forget(first)

    def _now(self) -> float:
        """In milliseconds, as packets have it: a connection does not begin behind its first one."""
        return int(self._wall() * 1000) / 1000

    def _make_room(self) -> bool:
        for book in (self._refused, self._ended):
            if book:
                self._forget(next(iter(book)))
                return True
        return False

    def _forget(self, recorded: Recorded) -> None:
        self._ended.pop(recorded, None)
        self._refused.pop(recorded, None)
        own = self._of[recorded.client_id]
        own.remove(recorded)
        if not own:
            del self._of[recorded.client_id]
        self.on_forgotten(recorded)
