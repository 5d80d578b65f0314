"""Who acts on which version of what this node wants, and what is known of what the others want.

::

    changed ─▶ version + 1 ─▶ delta to every peer ─▶ acknowledged: the peer acts on it
    a life of a peer begins, it missed something, or it says that it has dropped what we want ─▶ everything, anew

What each side has is compared with every heartbeat: a version, and a digest of all entries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from iot_mqtt.cluster.links import Route, Routes
from iot_mqtt.cluster.translation import digest_of, interest_in, interest_out
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.cluster import Interest

_DIGESTS = 1 << 64


class Digest:
    """Of a set of entries that changes one by one."""

    __slots__ = ("value", "_entries")

    def __init__(self) -> None:
        self.value = 0
        self._entries: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def change(self, interest: Iterable[Interest]) -> None:
        for one in interest:
            now = digest_of(one)
            before = self._entries.pop(one.filter, 0)
            if now:
                self._entries[one.filter] = now
            self.value = (self.value + now - before) % _DIGESTS

    def replace(self, interest: Iterable[Interest]) -> None:
        self.value = 0
        self._entries.clear()
        self.change(interest)


class Told(NamedTuple):
    """What a peer said it wants, whole."""

    interest: Sequence[Interest]
    version: int
    full: bool


class Theirs:
    """What one peer wants, as far as it has said so in its present life."""

    __slots__ = ("version", "digest", "heard", "asked_at", "_behind_since", "_stale_until", "_parts")

    def __init__(self) -> None:
        self.version = 0
        self.digest = Digest()
        #: It has said what it wants, or that this is nothing yet, and has not said long since that there is more.
        self.heard = False
        #: When everything was asked for; None: nothing is under way.
        self.asked_at: float | None = None
        #: Since when its heartbeats say that there is more.
        self._behind_since: float | None = None
        #: What is read before may have been sent long ago; None: nothing of that kind is waiting.
        self._stale_until: float | None = None
        self._parts: list[Route] = []

    @property
    def told(self) -> bool:
        """What it wants is known: it was heard, by something that was not waiting to be read."""
        return self.heard and self._stale_until is None

    def take(self, routes: Routes) -> Told | None:
        """The next item; None: not whole yet, or it does not follow what was said before (then ``asked_at`` is due).

        Raises ``Malformed``.
        """
        self._parts += routes.routes
        if routes.more:
            return None
        parts, self._parts = self._parts, []
        if not routes.full and routes.since != self.version:
            return None
        interest = interest_in(parts)
        if routes.full:
            self.digest.replace(interest)
            self.asked_at = None
            self.heard = True
        else:
            self.digest.change(interest)
        self.version = routes.version
        return Told(interest, routes.version, routes.full)

    def agrees(self, version: int, digest: int) -> bool:
        """Whether that is what it has said."""
        return version == self.version and digest == self.digest.value

    def compare(self, version: int, digest: int, now: float, within: float) -> bool:
        """The same, as its heartbeat has it: what is on its way has so many seconds to come."""
        if self.agrees(version, digest):
            if self._stale_until is not None and now >= self._stale_until:
                self._stale_until = None
            self._behind_since, self.heard = None, True
            return True
        if self._behind_since is None:
            self._behind_since = now
        elif now - self._behind_since >= within:
            self.heard = False
        return False

    def stale(self, until: float) -> None:
        """What comes before that time may have been sent long ago, so it does not tell what is wanted now."""
        self._stale_until = until


class _Waiting(NamedTuple):
    version: int
    call: Callable[[], None]
    until: float


class Ours:
    """What this node wants: its version, who has acknowledged it, and who waits for that."""

    def __init__(self, clock: Clock, within: float, expected: Callable[[], Iterable[int]]) -> None:
        """``expected``: the peers that are to acknowledge."""
        self._clock = clock
        self._within = within
        self._expected = expected
        self.version = 0
        self.digest = Digest()
        self._acknowledged: dict[int, int] = {}
        self._waiting: deque[_Waiting] = deque()
        self._timer: Timer | None = None
        #: Times that ``when_known`` gave up waiting.
        self.late = 0

    def changed(self, interest: Sequence[Interest]) -> Routes:
        """The item that tells of it."""
        self.version += 1
        self.digest.change(interest)
        return Routes(self.version - 1, self.version, interest_out(interest))

    def everything(self, interest: Sequence[Interest]) -> Routes:
        return Routes(0, self.version, interest_out(interest), full=True)

    # Who knows.

    def acknowledged(self, peer: int, version: int) -> None:
        self._acknowledged[peer] = max(version, self._acknowledged.get(peer, 0))

    def forgotten(self, peer: int) -> None:
        """The peer acts on nothing of it until it acknowledges anew."""
        self._acknowledged.pop(peer, None)

    def known_by(self, peer: int, version: int) -> bool:
        return self._acknowledged.get(peer, -1) >= version

    def acknowledged_by(self, peer: int) -> int:
        """-1: nothing."""
        return self._acknowledged.get(peer, -1)

    def when_known(self, version: int, call: Callable[[], None]) -> None:
        if not self._waiting and self._known(version):
            call()
            return
        self._waiting.append(_Waiting(version, call, self._clock.monotonic() + self._within))
        self._set_timer()

    def look(self) -> None:
        """Somebody acknowledged, came or went."""
        waiting = self._waiting
        while waiting and self._known(waiting[0].version):
            waiting.popleft().call()

    def give_up(self) -> None:
        """Call everybody: the life of this node is over."""
        while self._waiting:
            self._waiting.popleft().call()

    def _known(self, version: int) -> bool:
        acknowledged = self._acknowledged
        return all(acknowledged.get(peer, -1) >= version for peer in self._expected())

    def _set_timer(self) -> None:
        if self._timer is None and self._waiting:
            delay = max(0.0, self._waiting[0].until - self._clock.monotonic())
            self._timer = self._clock.call_later(delay, self._overdue)

    def _overdue(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        waiting = self._waiting
        while waiting and (waiting[0].until <= now or self._known(waiting[0].version)):
            one = waiting.popleft()
            if not self._known(one.version):
                self.late += 1
            one.call()
        self._set_timer()
