"""What the sinks share: batches that wait to be safe, in order, and the thread that makes them so.

::

    reactor    open ── send ── send ── send ──────────────────────▶ done, done, done
    thread          opened    take    take    take, or nothing to do       ▲
                                └──────────────────────────────────────────┘

What the thread's methods return is run in the reactor's thread.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.uplink import Done, Place, Record, Rejected
from iot_mqtt.thread_bridge import Cross, Finish, TurnBridge

log = logging.getLogger(__name__)

After = Finish | None


class ThreadSink(ABC):
    """``ports.uplink.Sink``, but for what its thread does. ``most``: bytes of the reactor's account."""

    kind: str
    gathers = False
    #: Logged when a trouble begins, with its words, and when it is over.
    held_up: str
    goes_on: str

    def __init__(self, cross: Cross, most: int) -> None:
        self._bridge: TurnBridge[Callable[[], After]] = TurnBridge("uplink", self._turn, cross)
        self.trouble: str | None = None
        self.lacks_room = False
        self.notes: tuple[str, ...] = ()
        self.ready: Callable[[], None] = _nobody
        #: Records that the platform did not take and that are in the dead letters, and those that are nowhere.
        self.dead = self.dropped = 0
        self.rejected: tuple[Rejected, ...] = ()
        #: No more is to be sent until ``ready`` is called.
        self.is_full = False
        #: Batches that are not safe, oldest first, with the bytes that are then off the account.
        self._unsafe: deque[tuple[Done, int]] = deque()
        self._most = most
        self._bytes = 0

    # In the reactor's thread.

    def open(self, place: Place) -> Deferred[int]:
        """See the port."""
        opening: Deferred[int] = Deferred()
        # What is waited for was told its error, or is told it by now.
        self._fail_all(Unavailable("the sink is opened anew"))
        self._put(partial(self._open, place, opening))
        return opening

    @abstractmethod
    def send(self, records: Sequence[Record], done: Done) -> bool: ...

    def close(self) -> Deferred[None]:
        """See the port."""
        closing: Deferred[None] = Deferred()
        self._put(partial(self._close, closing))
        self._bridge.stop()
        return closing

    def abandon(self) -> None:
        self._put(self._forget)
        self._bridge.stop()

    def _sent(self, job: Callable[[], After], done: Done, size: int, off_when_safe: int) -> bool:
        """Have the thread take a batch; whether there is room for another one."""
        self._unsafe.append((done, off_when_safe))
        self._bytes += size
        self._put(job)
        self.is_full = self.is_full or self._bytes > self._most
        return not self.is_full

    def _put(self, job: Callable[[], After]) -> None:
        if not self._bridge.started:
            self._bridge.begin()
        self._bridge.put(job)

    def _safe(self, count: int) -> None:
        for _ in range(min(count, len(self._unsafe))):
            done, size = self._unsafe.popleft()
            self._bytes -= size
            done(None)

    def _look_for_room(self) -> None:
        if self.is_full and self._bytes * 2 <= self._most:
            self.is_full = False
            self.ready()

    def _fail_all(self, error: BaseException) -> None:
        unsafe, self._unsafe = self._unsafe, deque()
        self._bytes = 0
        self.is_full = False
        for done, _ in unsafe:
            done(error)

    def _note(self, trouble: str | None, *, lacks_room: bool = False) -> None:
        if trouble is not None and self.trouble is None:
            log.error("%s, the log keeps what comes: %s", self.held_up, trouble)
        elif trouble is None and self.trouble is not None:
            log.warning(self.goes_on)
        self.trouble, self.lacks_room = trouble, lacks_room

    def _opened(self, opening: Deferred[int], position: int, trouble: str | None = None) -> None:
        self._note(trouble)
        self._bytes = 0
        opening.callback(position)

    def _refused(self, opening: Deferred[int], why: str, *, lacks_room: bool = False) -> None:
        self._note(why, lacks_room=lacks_room)
        opening.errback(Unavailable(why))

    # In the sink's own thread.

    def _turn(self, jobs: list[Callable[[], After]]) -> After:
        after = jobs[0]() if jobs else self._idle()
        self._bridge.patience = self._patience()
        return after

    @abstractmethod
    def _patience(self) -> float | None:
        """Seconds after which ``_idle`` is called, if nothing comes."""

    @abstractmethod
    def _idle(self) -> After: ...

    @abstractmethod
    def _open(self, place: Place, opening: Deferred[int]) -> After: ...

    @abstractmethod
    def _close(self, closing: Deferred[None]) -> After: ...

    @abstractmethod
    def _forget(self) -> After: ...


def _nobody() -> None:
    """Nobody waits for room."""
