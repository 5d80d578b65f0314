"""The sink itself: what of Kafka is seen in the reactor's thread, and how it is handed to the thread of the outlet.

The thread has one job for each batch, and the outlet's turns in between; what they bring (so many batches are safe,
this is in the way) crosses at most once a turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.uplink import Done, Place, Record, Rejected
from iot_mqtt.thread_bridge import Cross
from iot_mqtt.uplink.kafka.outlet import Outlet, Turn, Unready
from iot_mqtt.uplink.kafka.settings import KafkaSettings
from iot_mqtt.uplink.sink import After, ThreadSink

log = logging.getLogger(__name__)

#: What is under way may take so long when the node stops; the log has it anyway.
CLOSE_SECONDS = 3.0
AWAY_SECONDS = 0.5
#: Of a record beside its value, about.
BESIDE = 200


class KafkaSink(ThreadSink):
    """``ports.uplink.Sink`` over ``Outlet``. ``now`` is a monotonic clock that any thread may read."""

    kind = "kafka"
    held_up = "the uplink to Kafka is held up"
    goes_on = "the uplink to Kafka goes on"

    def __init__(self, settings: KafkaSettings, cross: Cross, now: Callable[[], float]) -> None:
        super().__init__(cross, settings.buffer_bytes)
        self._now = now
        self._outlet = Outlet(settings, now)
        # Of the thread.
        self._ended = False
        self._told: tuple[str | None, int, int, tuple[str, ...]] = (None, 0, 0, ())

    # In the reactor's thread.

    def send(self, records: Sequence[Record], done: Done) -> bool:
        size = sum([len(record.value) for record in records]) + BESIDE * len(records)
        return self._sent(partial(self._send, records), done, size, size)

    def _moved(
        self,
        turn: Turn,
        trouble: str | None,
        dead: int,
        dropped: int,
        notes: tuple[str, ...],
        rejected: tuple[Rejected, ...],
    ) -> None:
        """The outlet has something to tell."""
        self.dead, self.dropped, self.notes, self.rejected = dead, dropped, notes, rejected
        self._note(trouble)
        self._safe(turn.safe)
        if turn.failed is not None:
            self._fail_all(Unavailable(turn.failed))
        else:
            self._look_for_room()

    def _closed(self, closing: Deferred[None], turn: Turn) -> None:
        outlet = self._outlet
        self._moved(turn, self.trouble, outlet.dead, outlet.dropped, outlet.notes, outlet.rejected)
        closing.callback(None)

    # In the sink's own thread.

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
        if not self._outlet.is_open:
            # A producer may end with nothing under way, and then nobody has heard that it did.
            return partial(self._fail_all, Unavailable(self._outlet.trouble() or "the sink is not open"))
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
        told = outlet.trouble(), outlet.dead, outlet.dropped, outlet.notes
        if not turn.safe and turn.failed is None and told == self._told:
            return None
        self._told = told
        return partial(self._moved, turn, *told, outlet.rejected)

    def _close(self, closing: Deferred[None]) -> After:
        # There is no sense in waiting long for what is known to be away.
        end, safe = self._now() + (CLOSE_SECONDS if self._told[0] is None else AWAY_SECONDS), 0
        failed: str | None = None
        while self._outlet.busy and failed is None and self._now() < end:
            turn = self._outlet.turn(0.02)
            safe, failed = safe + turn.safe, turn.failed
        self._forget()
        return partial(self._closed, closing, Turn(safe, failed or "the sink is closed"))

    def _forget(self) -> After:
        self._ended = True
        self._outlet.drop()
        return None
