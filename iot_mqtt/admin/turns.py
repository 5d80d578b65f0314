"""When calls are answered: messages go first.

::

    a call ─▶ open? ── yes ─▶ answered at once, in the turn of the reactor that brought it
                │
                no ─▶ waits behind others ─▶ its next slice ─▶ … ─▶ answered
                                  ▲              │
                                  └── the reactor looks at its sockets ──┘

While messages go through the node, calls have a tenth of the reactor's time (``SHARE``): whoever has used it up waits,
however many connections call. Without messages nobody waits longer than for the next turn. What takes long, a list, is
made in slices of half a millisecond, and between two of them the reactor serves its sockets.

Connections rest, too: what they send is read on, and their next request is taken, when there is time for it. These
steps are short, so they have a queue of their own, which takes turns with that of the slices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from time import thread_time
from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred, succeed

from iot_mqtt.admin.errors import ApiError
from iot_mqtt.ports.clock import Clock

#: Of the reactor's time, while there are messages.
SHARE: Final = 0.1
#: Seconds of work that may be saved up, and that is done in one turn of the reactor, about.
BURST: Final = 0.0005
#: Items of a list that are made at once: the most costly ones take ten microseconds each.
ITEMS: Final = 40
#: Slices that may wait.
MOST: Final = 512
#: Messages a second from which on there are messages, and seconds between two looks at how many there were.
MESSAGES: Final = 100.0
LOOK: Final = 0.1


class Turns(Protocol):
    """Says when it is whose turn."""

    @property
    def open(self) -> bool:
        """Whether a call may be answered at once."""
        ...

    def spent(self, seconds: float) -> None:
        """So much of the processor a call has taken that was answered at once."""
        ...

    def next(self) -> Deferred[None]:
        """Wait for a later turn; to cancel is to wait no longer. Raises 503 where too many do."""
        ...

    def rest(self) -> Deferred[None]:
        """The same for a connection, whose next step is short; it cannot be refused."""
        ...


class AtOnce:
    """Nobody waits: for a site without a reactor."""

    open = True

    def spent(self, seconds: float) -> None:
        """Whatever it was."""

    def next(self) -> Deferred[None]:
        """At once."""
        return succeed(None)

    def rest(self) -> Deferred[None]:
        """At once."""
        return succeed(None)


class Waiting:
    """``Turns`` of one reactor. ``messages``: how many the node has had so far."""

    def __init__(
        self, reactor: Any, clock: Clock, messages: Callable[[], int], worked: Callable[[], float] = thread_time
    ) -> None:
        """``worked``: seconds that this thread has had so far; what other processes take is nobody's fault."""
        self._reactor = reactor
        self._worked = worked
        self._now = clock.monotonic
        self._messages = messages
        self._slices: deque[Deferred[None]] = deque()
        self._resting: deque[Deferred[None]] = deque()
        #: Who comes next is looked for in the first one first.
        self._queues = deque((self._resting, self._slices))
        self._armed = False
        #: What the thread had worked when the turn began that is being served.
        self._began: float | None = None
        #: Seconds of work that may be done now; below zero: that were done too early.
        self._credit = BURST
        self._since = self._looked = self._now()
        self._seen = messages()
        self._busy = False

    @property
    def open(self) -> bool:
        if self._resting or self._slices:
            return False
        if self._began is not None:
            # Whose turn it is has all of it where nobody else waits.
            return self._worked() - self._began < BURST
        self._earn()
        return self._credit > 0.0

    def spent(self, seconds: float) -> None:
        # A turn that was waited for is measured as a whole.
        if self._began is None:
            self._credit -= seconds

    def next(self) -> Deferred[None]:
        if len(self._slices) >= MOST:
            detail = f"{MOST} calls wait for their turn; try again"
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "busy", detail, {"Retry-After": "1"})
        return self._wait(self._slices)

    def rest(self) -> Deferred[None]:
        return self._wait(self._resting)

    def _wait(self, queue: deque[Deferred[None]]) -> Deferred[None]:
        waiting: Deferred[None] = Deferred(queue.remove)
        queue.append(waiting)
        self._arm()
        return waiting

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            owed = min(LOOK, max(0.0, -self._credit / SHARE)) if self._busy else 0.0
            self._reactor.callLater(owed, self._serve)

    def _serve(self) -> None:
        """The reactor has served its sockets: one slice, or some that are short."""
        self._armed = False
        self._earn()
        if not self._busy:
            self._credit = BURST
        self._began = now = began = self._worked()
        while self._credit >= 0.0 and now - began < BURST and (waiting := self._first()) is not None:
            # What follows runs in here, to where it waits again.
            waiting.callback(None)
            then, now = now, self._worked()
            self._credit -= now - then
        self._began = None
        if self._resting or self._slices:
            self._arm()

    def _first(self) -> Deferred[None] | None:
        """Of the queue whose turn it is, or of the other one."""
        self._queues.rotate()
        return next((queue.popleft() for queue in self._queues if queue), None)

    def _earn(self) -> None:
        """What time brings while there are messages; without them it is the next turn that does."""
        now = self._now()
        if now - self._looked >= LOOK:
            seen = self._messages()
            self._busy = seen - self._seen > MESSAGES * (now - self._looked)
            self._seen, self._looked = seen, now
        if self._busy:
            self._credit = min(BURST, self._credit + (now - self._since) * SHARE)
        self._since = now
