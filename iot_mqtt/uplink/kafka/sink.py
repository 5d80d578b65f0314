"""The sink itself: what of Kafka is seen in the reactor's thread, and how it is handed to the thread of the outlet.

The bridge has one job for each batch, and the outlet's turns in between; what they bring (so many batches are safe,
this is in the way) crosses at most once a turn.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.uplink import Done, Place, Record
from iot_mqtt.uplink.bridge import After, Bridge, Cross
from iot_mqtt.uplink.kafka.outlet import Outlet, Turn, Unready
from iot_mqtt.uplink.kafka.settings import KafkaSettings

log = logging.getLogger(__name__)

#: What is under way may take so long when the node stops; the log has it anyway.
CLOSE_SECONDS = 3.0
AWAY_SECONDS = 0.5
#: Of a record beside its value, about.
BESIDE = 200


class KafkaSink:
    """``ports.uplink.Sink`` over ``Outlet``. ``now`` is a monotonic clock that any thread may read."""

    kind = "kafka"

    def __init__(self, settings: KafkaSettings, cross: Cross, now: Callable[[], float]) -> None:
        self._now = now
        self._outlet = Outlet(settings, now)
        self._bridge = Bridge(cross, self._idle, self._patience)
        self.trouble: str | None = None
        self.ready: Callable[[], None] = _nobody
        #: Records that Kafka did not take and that are in the dead letters, and those that are nowhere.
        self.dead = self.dropped = 0
        #: Batches that are not safe, oldest first, with their sizes.
        self._unsafe: deque[tuple[Done, int]] = deque()
        self._most = settings.buffer_bytes
        self._bytes = 0
        #: No more is to be sent until ``ready`` is called.
        self.is_full = False
        # Of the thread.
        self._ended = False
        self._told: tuple[str | None, int, int] = (None, 0, 0)

    # In the reactor's thread.

    def open(self, place: Place) -> Deferred[int]:
        """See the port."""
        opening: Deferred[int] = Deferred()
        # What is waited for was told its error, or is told it by now.
        self._tell_all(Unavailable("the sink is opened anew"))
        self._bridge.put(partial(self._open, place, opening))
        return opening

    def send(self, records: Sequence[Record], done: Done) -> bool:
        size = sum([len(record.value) for record in records]) + BESIDE * len(records)
        self._unsafe.append((done, size))
        self._bytes += size
        self._bridge.put(partial(self._send, records))
        self.is_full = self.is_full or self._bytes > self._most
        return not self.is_full

    def close(self) -> Deferred[None]:
        """See the port."""
        closing: Deferred[None] = Deferred()
        self._bridge.put(partial(self._close, closing))
        self._bridge.stop()
        return closing

    def abandon(self) -> None:
        self._bridge.put(self._forget)
        self._bridge.stop()

    def _moved(self, turn: Turn, trouble: str | None, dead: int, dropped: int) -> None:
        """The outlet has something to tell."""
        self.dead, self.dropped = dead, dropped
        self._note(trouble)
        for _ in range(min(turn.safe, len(self._unsafe))):
            done, size = self._unsafe.popleft()
            self._bytes -= size
            done(None)
        if turn.failed is not None:
            self.is_full = False
            self._tell_all(Unavailable(turn.failed))
        elif self.is_full and self._bytes * 2 <= self._most:
            self.is_full = False
            self.ready()

    def _note(self, trouble: str | None) -> None:
        if trouble is not None and self.trouble is None:
            log.error("the uplink to Kafka is held up, the log keeps what comes: %s", trouble)
        elif trouble is None and self.trouble is not None:
            log.warning("the uplink to Kafka goes on")
        self.trouble = trouble

    def _tell_all(self, error: BaseException) -> None:
        unsafe, self._unsafe = self._unsafe, deque()
        self._bytes = 0
        for done, _ in unsafe:
            done(error)

    def _opened(self, opening: Deferred[int], position: int, trouble: str | None) -> None:
        self._note(trouble)
        self.is_full = False
        opening.callback(position)

    def _refused(self, opening: Deferred[int], why: str) -> None:
        self._note(why)
        opening.errback(Unavailable(why))

    # In the sink's own thread; what it returns is run in the reactor's.

    def _open(self, place: Place, opening: Deferred[int]) -> After:
        try:
            position = self._outlet.open(place)
        except Unready as problem:
            self._told = (str(problem), *self._told[1:])
            return partial(self._refused, opening, str(problem))
        trouble = self._outlet.trouble()
        self._told = (trouble, *self._told[1:])
        return partial(self._opened, opening, position, trouble)

    def _send(self, records: Sequence[Record]) -> After:
        if self._ended:
            return None
        self._outlet.put(records)
        return self._turned()

    def _patience(self) -> float | None:
        return self._outlet.patience

    def _idle(self) -> After:
        if self._ended:
            return None
        self._outlet.look()
        return self._turned()

    def _turned(self) -> After:
        outlet = self._outlet
        try:
            turn = outlet.turn()
        except Exception as error:
            # Of the library, which nobody foresaw: a thread that ends here would leave the uplink standing in silence.
            log.exception("the uplink to Kafka begins anew")
            turn = Turn(0, outlet.fail(f"{type(error).__name__}: {error}"))
        told = outlet.trouble(), outlet.dead, outlet.dropped
        if not turn.safe and turn.failed is None and told == self._told:
            return None
        self._told = told
        return partial(self._moved, turn, *told)

    def _close(self, closing: Deferred[None]) -> After:
        # There is no sense in waiting long for what is known to be away.
        end, safe = self._now() + (CLOSE_SECONDS if self._told[0] is None else AWAY_SECONDS), 0
        failed: str | None = None
        while self._outlet.busy and failed is None and self._now() < end:
            turn = self._outlet.turn(0.02)
            safe, failed = safe + turn.safe, turn.failed
        self._forget()
        return partial(self._closed, closing, Turn(safe, failed or "the sink is closed"))

    def _closed(self, closing: Deferred[None], turn: Turn) -> None:
        self._moved(turn, self.trouble, self._outlet.dead, self._outlet.dropped)
        closing.callback(None)

    def _forget(self) -> After:
        self._ended = True
        self._outlet.drop()
        return None


def _nobody() -> None:
    """Nobody waits for room."""
