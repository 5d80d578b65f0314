"""The flight recorder: the last packets of every client, in and out, for whoever asks afterwards what happened.

Each connection has a ring, which takes every receive and every write as one record (``native.PacketRing``)::

    accepted ──▶ begin ──▶ named ──▶ ended ──▶ kept for a while ──▶ forgotten
                   └──────────────────▲        refused: among the last few hundred only

Rings are bounded each and together: at the bound those of ended connections go first, the oldest before the others, and
a connection that comes when all of them are open is not recorded, and counted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from iot_mqtt.native import PacketRing
from iot_mqtt.ports.named import made
from iot_mqtt.ports.recording import RecorderSettings, Recording, RecordingInfo

__all__ = ["Recorded", "Recorder", "is_over", "recording_of"]

#: Ended connections of one client.
EACH = 3
#: Refused ones of all clients: whoever guesses passwords pushes out nobody's packets but those of others who did.
REFUSED = 256
#: Characters of a client id, and of how a connection ended.
LONGEST = 256


#: One connection's ring, and whose it is; ``Recorder.begin`` makes them. No class of our own: it would be larger.
#:
#: Its fields: ``client_id`` and ``peer``, empty before it is known whose it is; ``since``, ``until`` (-1: it is open)
#: and ``end``; ``slot``, where it stands in the file (-1: nowhere), and ``saved``, how much of it does; ``position``
#: among those that are open.
Recorded = PacketRing


def is_over(recorded: Recorded) -> bool:
    """Whether the connection is no more."""
    return recorded.until >= 0


def recording_of(recorded: Recorded) -> Recording:
    """What is known of the connection, with its packets."""
    until = recorded.until if is_over(recorded) else None
    info = made(RecordingInfo, (recorded.client_id, recorded.peer, recorded.since, until, recorded.end))
    return made(Recording, (info, recorded.image()))


class Recorder:
    """Of all connections of one node. ``wall``: the time."""

    def __init__(self, settings: RecorderSettings, wall: Callable[[], float]) -> None:
        self.settings = settings
        #: Where a ring that is over was kept is free again.
        self.on_forgotten: Callable[[Recorded], None] = lambda _: None
        #: It is known whose a connection is, and who watches may put a tap on its ring; it is over.
        self.on_named: Callable[[Recorded], None] | None = None
        self.on_ended: Callable[[Recorded], None] = lambda _: None
        #: A connection that was not let in is over.
        self.on_refused: Callable[[Recorded], None] | None = None
        self._wall = wall
        self._most = max(1, settings.bytes // max(1024, settings.client_bytes)) if settings.enabled else 0
        #: In no order; the others in that of ending (a ``dict`` would be searched for its first one by all that went).
        self._open: list[Recorded] = []
        self._ended: OrderedDict[Recorded, None] = OrderedDict()
        self._refused: OrderedDict[Recorded, None] = OrderedDict()
        #: By client id, of those that are over: of open ones, which are looked for only when somebody asks, each would
        #: cost as much again.
        self._of: dict[str, list[Recorded]] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._ended) + len(self._refused)

    def __iter__(self) -> Iterator[Recorded]:
        """Those that are somebody's: the open ones first."""
        yield from (one for one in self._open if one.client_id)
        yield from self._ended

    @property
    def connections(self) -> Iterator[Recorded]:
        """Those that are open, whether it is known whose they are or not."""
        return iter(self._open)

    @property
    def most(self) -> int:
        """Connections that are recorded at once."""
        return self._most

    def begin(self) -> Recorded | None:
        """Record a connection that was just accepted; None: there is no room, or nothing is recorded at all."""
        if len(self) >= self._most and not self._make_room():
            return None
        settings = self.settings
        recorded = Recorded(self._wall, settings.client_bytes, settings.payload_bytes)
        recorded.since = self._now()
        recorded.position = len(self._open)
        self._open.append(recorded)
        return recorded

    def named(self, recorded: Recorded, client_id: str, peer: str) -> None:
        """It is known whose connection it is: he was let in."""
        recorded.client_id, recorded.peer = client_id[:LONGEST], peer
        if self.on_named is not None:
            self.on_named(recorded)

    def ended(self, recorded: Recorded, end: str, refused: str | None = None, peer: str = "") -> None:
        """The connection is no more; ``refused``: the client id of somebody who was not let in."""
        last = self._open.pop()
        if last is not recorded:
            self._open[recorded.position] = last
            last.position = recorded.position
        recorded.until, recorded.end = self._now(), end[:LONGEST]
        if recorded.tap is not None:
            recorded.tap = None
            self.on_ended(recorded)
        if recorded.client_id:
            self._ended[recorded] = None
            own = self._of.setdefault(recorded.client_id, [])
            own.append(recorded)
            known = [one for one in own if one in self._ended]
            if len(known) > EACH:
                self._forget(known[0])
            return
        recorded.client_id, recorded.peer = (refused or "")[:LONGEST], peer
        if refused:
            self._refused[recorded] = None
            self._of.setdefault(recorded.client_id, []).append(recorded)
            if len(self._refused) > REFUSED:
                self._forget(next(iter(self._refused)))
        if self.on_refused is not None:
            self.on_refused(recorded)

    def of(self, client_id: str) -> list[Recording]:
        """The connections of a client, the oldest first."""
        client_id = client_id[:LONGEST]
        found = [*(one for one in self._open if one.client_id == client_id), *self._of.get(client_id, ())]
        return [recording_of(one) for one in sorted(found, key=lambda one: one.since)]

    def sweep(self) -> None:
        """Forget what has been over for long enough."""
        before = self._wall() - self.settings.keep_seconds
        for book in (self._ended, self._refused):
            while book and (first := next(iter(book))).until <= before:
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
        # It is nobody's any more, for whoever is in the middle of saving what there was.
        recorded.client_id = ""
        self.on_forgotten(recorded)
