"""``uplink.kind: file``: records as JSON lines in files that Spark's file source reads exactly once.

A batch is safe when its round is finished (see ``rounds``), so ``done`` comes late; memory holds only what the thread
has not written. When a file can't be written, or there is no room, all that is not safe is told so and is read from
the log again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.uplink import Done, Place, Record
from iot_mqtt.thread_bridge import Cross
from iot_mqtt.uplink.rounds import Free, NoRoom, Rounds, free_bytes
from iot_mqtt.uplink.settings import FileSettings
from iot_mqtt.uplink.sink import After, ThreadSink

#: Bytes that may wait for the thread.
MAX_WAITING = 8 * 1024 * 1024


class FileSink(ThreadSink):
    """``ports.uplink.Sink`` over ``Rounds``. ``now`` is a monotonic clock that any thread may read."""

    kind = "file"
    gathers = True
    held_up = "the uplink's files cannot be written"
    goes_on = "the uplink's files can be written again"

    def __init__(
        self,
        root: Path,
        settings: FileSettings,
        cross: Cross,
        now: Callable[[], float],
        free: Free = free_bytes,
    ) -> None:
        super().__init__(cross, MAX_WAITING)
        self._now = now
        self._rounds = Rounds(root, settings, free)
        self._abandoned = False
        # Of the thread: batches of the round, and why nothing is taken before the next ``open``.
        self._written = 0
        self._broken = True

    # In the reactor's thread.

    def send(self, records: Sequence[Record], done: Done) -> bool:
        size = sum(len(record.value) for record in records)
        return self._sent(partial(self._write, records, size), done, size, 0)

    def abandon(self) -> None:
        self._abandoned = True
        super().abandon()

    def _taken(self, size: int, safe: int) -> None:
        """The thread has written a batch, and perhaps finished a round."""
        self._bytes -= size
        self._safe(safe)
        self._look_for_room()

    def _failed(self, error: Exception, safe: int) -> None:
        self._safe(safe)
        self._note(str(error), lacks_room=isinstance(error, NoRoom))
        self._fail_all(error)

    def _closed(self, closing: Deferred[None], safe: int, failed: Exception | None) -> None:
        self._safe(safe)
        if failed is not None:
            self._note(str(failed))
        self._fail_all(failed or Unavailable("the sink is closed"))
        closing.callback(None)

    # In the sink's own thread.

    def _open(self, place: Place, opening: Deferred[int]) -> After:
        self._written = 0
        try:
            position = self._rounds.open(place, self._now())
        except (OSError, NoRoom) as error:
            self._broken = True
            return partial(self._refused, opening, str(error), lacks_room=isinstance(error, NoRoom))
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
            return self._out_of_room(error)
        except OSError as error:
            return self._break(error)
        return partial(self._taken, size, 0)

    def _finish(self) -> int:
        self._rounds.finish()
        safe, self._written = self._written, 0
        return safe

    def _out_of_room(self, error: Exception) -> After:
        """What was written can still be made safe."""
        try:
            safe = self._finish()
        except OSError as worse:
            return self._break(worse)
        self._broken = True
        return partial(self._failed, error, safe)

    def _break(self, error: Exception) -> After:
        self._broken, self._written = True, 0
        self._rounds.abandon()
        return partial(self._failed, error, 0)

    def _patience(self) -> float | None:
        due = self._rounds.due_at
        return None if due is None else max(0.0, due - self._now())

    def _idle(self) -> After:
        if not self._rounds.is_due(self._now()):
            return None
        try:
            return partial(self._safe, self._finish())
        except OSError as error:
            return self._break(error)

    def _close(self, closing: Deferred[None]) -> After:
        safe, failed = 0, None
        if not self._broken:
            try:
                safe = self._finish()
            except OSError as error:
                failed = error
        self._rounds.close()
        return partial(self._closed, closing, safe, failed)

    def _forget(self) -> After:
        self._rounds.close()
        return None
