"""``uplink.kind: file``: records as JSON lines in files that Spark's file source reads exactly once.

::

    reactor        open ── send ── send ── send ─────────────────────▶ done, done, done
    thread          │      write   write   write  finish (see rounds)        ▲
                    ▼                              └─────────────────────────┘
                  position

A batch is safe when its round is finished, so ``done`` comes late; memory holds only what the thread has not written.
When a file can't be written, or there is no room, all that is not safe is told so and is read from the log again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.uplink import Done, Place, Record
from iot_mqtt.uplink.bridge import After, Bridge, Cross
from iot_mqtt.uplink.rounds import Free, NoRoom, Rounds, free_bytes
from iot_mqtt.uplink.settings import FileSettings

log = logging.getLogger(__name__)

#: Bytes that may wait for the thread.
MAX_WAITING = 8 * 1024 * 1024


class FileSink:
    """``ports.uplink.Sink`` over ``Rounds``. ``now`` is a monotonic clock that any thread may read."""

    kind = "file"

    def __init__(
        self,
        root: Path,
        settings: FileSettings,
        cross: Cross,
        now: Callable[[], float],
        free: Free = free_bytes,
    ) -> None:
        self._root = root
        self._now = now
        self._rounds = Rounds(root, settings, free)
        self._bridge = Bridge(cross, self._idle, self._patience)
        self.trouble: str | None = None
        # A file takes everything.
        self.dead = self.dropped = 0
        self.ready: Callable[[], None] = _nobody
        #: Batches that are not safe, oldest first.
        self._unsafe: deque[Done] = deque()
        self._waiting = 0
        self._full = False
        self._abandoned = False
        # Of the thread: batches of the round, and why nothing is taken before the next ``open``.
        self._written = 0
        self._broken = True

    # In the reactor's thread.

    def open(self, place: Place) -> Deferred[int]:
        """See the port."""
        opening: Deferred[int] = Deferred()
        # What is waited for was told its error, or is told it by now.
        self._tell_all(Unavailable("the sink is opened anew"))
        self._bridge.put(partial(self._open, place, opening))
        return opening

    def send(self, records: Sequence[Record], done: Done) -> bool:
        size = sum(len(record.value) for record in records)
        self._unsafe.append(done)
        self._waiting += size
        self._bridge.put(partial(self._write, records, size))
        self._full = self._full or self._waiting > MAX_WAITING
        return not self._full

    def close(self) -> Deferred[None]:
        """See the port."""
        closing: Deferred[None] = Deferred()
        self._bridge.put(partial(self._close, closing))
        self._bridge.stop()
        return closing

    def abandon(self) -> None:
        self._abandoned = True
        self._bridge.put(self._forget)
        self._bridge.stop()

    def _taken(self, size: int, safe: int) -> None:
        """The thread has written a batch, and perhaps finished a round."""
        self._waiting -= size
        self._safe(safe)
        if self._full and self._waiting * 2 <= MAX_WAITING:
            self._full = False
            self.ready()

    def _safe(self, count: int) -> None:
        for _ in range(min(count, len(self._unsafe))):
            self._unsafe.popleft()(None)

    def _failed(self, error: Exception, safe: int, size: int) -> None:
        self._waiting -= size
        self._safe(safe)
        self._note(error)
        self._full = False
        self._tell_all(error)

    def _note(self, error: Exception) -> None:
        if self.trouble is None:
            log.error("the uplink's files cannot be written, the log keeps what comes: %s", error)
        self.trouble = str(error)

    def _tell_all(self, error: BaseException) -> None:
        unsafe, self._unsafe = self._unsafe, deque()
        for done in unsafe:
            done(error)

    def _opened(self, opening: Deferred[int], position: int) -> None:
        if self.trouble is not None:
            log.warning("the uplink's files can be written again")
        self.trouble = None
        self._waiting = 0
        opening.callback(position)

    def _refused(self, opening: Deferred[int], error: Exception) -> None:
        self._note(error)
        opening.errback(Unavailable(str(error)))

    # In the sink's own thread; what it returns is run in the reactor's.

    def _open(self, place: Place, opening: Deferred[int]) -> After:
        self._written = 0
        try:
            position = self._rounds.open(place, self._now())
        except (OSError, NoRoom) as error:
            self._broken = True
            return partial(self._refused, opening, error)
        self._broken = False
        return partial(self._opened, opening, position)

    def _write(self, records: Sequence[Record], size: int) -> After:
        if self._broken or self._abandoned:
            return None
        try:
            self._rounds.write(records, self._now())
            self._written += 1
            if self._rounds.is_due(self._now()):
                return partial(self._taken, size, self._finish())
        except NoRoom as error:
            return self._out_of_room(error, size)
        except OSError as error:
            return self._break(error, size)
        return partial(self._taken, size, 0)

    def _finish(self) -> int:
        self._rounds.finish()
        safe, self._written = self._written, 0
        return safe

    def _out_of_room(self, error: Exception, size: int) -> After:
        """What was written can still be made safe."""
        try:
            safe = self._finish()
        except OSError as worse:
            return self._break(worse, size)
        self._broken = True
        return partial(self._failed, error, safe, size)

    def _break(self, error: Exception, size: int) -> After:
        self._broken, self._written = True, 0
        self._rounds.abandon()
        return partial(self._failed, error, 0, size)

    def _patience(self) -> float | None:
        due = self._rounds.due_at
        return None if due is None else max(0.0, due - self._now())

    def _idle(self) -> After:
        if not self._rounds.is_due(self._now()):
            return None
        try:
            return partial(self._safe, self._finish())
        except OSError as error:
            return self._break(error, 0)

    def _close(self, closing: Deferred[None]) -> After:
        safe, failed = 0, None
        if not self._broken:
            try:
                safe = self._finish()
            except OSError as error:
                failed = error
        self._rounds.close()
        return partial(self._closed, closing, safe, failed)

    def _closed(self, closing: Deferred[None], safe: int, failed: Exception | None) -> None:
        self._safe(safe)
        if failed is not None:
            self._note(failed)
        self._tell_all(failed or Unavailable("the sink is closed"))
        closing.callback(None)

    def _forget(self) -> After:
        self._rounds.close()
        return None


def _nobody() -> None:
    """Nobody waits for room."""
