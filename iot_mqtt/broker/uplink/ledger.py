"""The uplink's accounts: what was recorded to go up, how far it was read, what the sink has, and what is safe.

::

    0 ─────────────▶ place.position ─────────────▶ position ─────────────▶ end of the log
      safe, done with                unsafe: the sink               unread
                                     has it

The place is kept with the store's batches: at once if that was long ago, and else a little later. A batch is done with
when the sink says so, oldest first; or when no rule lets it up and nothing is under way before it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from secrets import token_hex
from typing import NamedTuple

from iot_mqtt.broker.losses import Cause
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.ports.log import CommittedLog, LogRun
from iot_mqtt.ports.uplink import Place, Places

logger = logging.getLogger(__name__)

#: The place is written at least this often while it moves.
SAVE_SECONDS = 1.0


class _Sent(NamedTuple):
    """A batch that the sink has, and has not made safe."""

    #: Where the next one begins.
    end: int
    #: What was recorded for the uplink and is done with when this is safe; rules may have let some of it pass.
    messages: int
    size: int
    #: What the sink got of it.
    records: int
    #: Bytes of these, as they were published.
    record_bytes: int
    #: When its first message came, by the wall clock.
    arrived: float


class Ledger:
    """One per uplink. ``load`` it first."""

    def __init__(self, places: Places, log: CommittedLog, clock: Clock, reserve: Callable[[], object]) -> None:
        """``reserve``: have the store make a batch soon."""
        self._places = places
        self._log = log
        self._clock = clock
        self._reserve = reserve
        self.place = Place("", 0)
        self.position = 0
        #: Nothing comes after this: keep every move at once.
        self.ending = False
        self._changed = self._saving = False
        self._saved_at = 0.0
        #: What was recorded since the place was brought up to date: messages, and bytes.
        self._more = self._more_bytes = 0
        self._unsafe: deque[_Sent] = deque()
        self.unsafe_messages = 0
        self._stalled_since: float | None = None
        #: Of what was sent when the sink failed, not sent again so far: records, and bytes.
        self._again = self._again_bytes = 0
        # Figures since the start. What is sent again counts once.
        self.sent = self.sent_bytes = self.safe = self.failures = self.lost = 0
        #: By the monotonic clock.
        self.lost_at: float | None = None
        #: Why the log may have dropped what is lost.
        self.causes: set[Cause] = set()

    # The place.

    async def load(self) -> None:
        """Find the place. A first start begins at the log's end."""
        log = self._log
        place = await self._places.load()
        if place is not None and place.position <= log.committed_end:
            self.place = place
        elif place is None:
            self.new_spool(log.committed_end)
        else:
            # What is kept of another log, or none of it: positions mean nothing any more.
            logger.warning("the log is not the one that the uplink has read from; it begins with a new spool")
            self.new_spool(0)
        self.position = self.place.position

    def new_spool(self, position: int) -> None:
        """From here on, positions mean something else."""
        self.place = Place(f"{self._log.writer}.{token_hex(4)}", position)

    def opened(self, position: int) -> None:
        """The sink has everything before it."""
        self.position = position
        if position > self.place.position:
            self._again = self._again_bytes = 0
            self.place = self.place._replace(position=position)
            self.touch()

    def stage(self, batch: WriteBatch) -> None:
        """Keep the place, if it is another one."""
        if self._changed:
            self._changed = False
            self.bring_up_to_date()
            self._saved_at = self._clock.monotonic()
            self._places.stage(batch, self.place)

    def touch(self) -> None:
        """The place has moved: keep it with the next batch, which is made soon."""
        self._changed = True
        if self._clock.monotonic() - self._saved_at >= SAVE_SECONDS or self.ending:
            self._reserve()
        elif not self._saving:
            self._saving = True
            self._clock.call_later(SAVE_SECONDS, self._save)

    def _save(self) -> None:
        self._saving = False
        if self._changed:
            self._reserve()

    # Entries.

    def recorded(self, run: LogRun) -> None:
        """Messages that go up were put into the log; the same batch says so."""
        self._more += run.reference.length
        self._more_bytes += len(run.run.wire)
        self._changed = True
        if self._stalled_since is None:
            self._stalled_since = self._clock.wall()

    def bring_up_to_date(self) -> None:
        """Count what was recorded."""
        place = self.place
        self.place = place._replace(
            recorded=place.recorded + self._more, recorded_bytes=place.recorded_bytes + self._more_bytes
        )
        self._more = self._more_bytes = 0

    def hand_over(self, position: int, messages: int, size: int, records: int, arrived: float) -> None:
        """The sink gets what was read up to this position."""
        self.position = position
        self._unsafe.append(_Sent(position, messages, size, records, size, arrived))
        self.unsafe_messages += messages
        again, again_bytes = min(records, self._again), min(size, self._again_bytes)
        self._again -= again
        self._again_bytes -= again_bytes
        self.sent += records - again
        self.sent_bytes += size - again_bytes

    def pass_over(self, position: int, messages: int, size: int) -> bool:
        """What was read does not go up, whatever was recorded: it is done with when what was sent before it is. True:
        it is.
        """
        self.position = position
        if self._unsafe:
            last = self._unsafe[-1]
            self._unsafe[-1] = last._replace(end=position, messages=last.messages + messages, size=last.size + size)
            self.unsafe_messages += messages
            return False
        if messages:
            self._done_with(position, messages, size)
            self.touch()
        self._rest()
        return True

    def take(self) -> None:
        """The oldest batch that the sink has is safe."""
        sent = self._unsafe.popleft()
        self.unsafe_messages -= sent.messages
        self.safe += sent.records
        self._done_with(sent.end, sent.messages, sent.size)
        # What is unread came behind it.
        self._stalled_since = sent.arrived
        if not self._unsafe:
            self._rest()
        self.touch()

    def fall_back(self) -> None:
        """Nothing that the sink has and is not safe can be relied on: again, from the place on."""
        self.failures += 1
        self._stalled_since = self.waiting_since
        self._again += sum(one.records for one in self._unsafe)
        self._again_bytes += sum(one.record_bytes for one in self._unsafe)
        self._unsafe.clear()
        self.unsafe_messages = 0
        self.position = self.place.position

    def oldest_came(self, arrived: float) -> None:
        """The oldest message that is not read, by the wall clock."""
        if self.unread:
            self._stalled_since = arrived

    def write_off(self, messages: int, size: int) -> None:
        """So much of what is unread is lost."""
        self.lost += messages
        self.lost_at = self._clock.monotonic()
        self._done_with(self.place.position, messages, size)
        self.touch()

    def _done_with(self, position: int, messages: int, size: int) -> None:
        place = self.place
        self.place = place._replace(
            position=position, taken=place.taken + messages, taken_bytes=place.taken_bytes + size
        )

    def _rest(self) -> None:
        """Nothing is under way. At the end of the log nothing is owed either, whatever was counted before a crash."""
        place, log = self.place, self._log
        if self.position >= log.committed_end == log.end and place.taken != place.recorded:
            self.place = place._replace(taken=place.recorded, taken_bytes=place.recorded_bytes)
            self.touch()
        if self.place.taken >= self.place.recorded + self._more:
            self._stalled_since = None
        elif self._stalled_since is None:
            self._stalled_since = self._clock.wall()

    # What it shows.

    @property
    def safe_to(self) -> int:
        """Everything before it is safe, or does not go up."""
        return self.place.position if self._unsafe else self.position

    @property
    def batches(self) -> int:
        """That the sink has, and has not made safe."""
        return len(self._unsafe)

    @property
    def unread(self) -> int:
        """Messages that are in the log only."""
        return max(0, self.place.recorded - self.place.taken - self.unsafe_messages)

    @property
    def waiting_since(self) -> float | None:
        """When the oldest message came that is not safe, by the wall clock, as far as that is known."""
        return self._unsafe[0].arrived if self._unsafe else self._stalled_since
