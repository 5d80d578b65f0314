"""The reader that feeds the uplink: from the node's own log, in order, as far as it is committed, into a sink.

::

    CLOSED ──(sink opens)──▶ READING ──(no room in the sink)──▶ FULL ──(ready)──▶ READING
      ▲                         │
      └──────(sink fails)───────┘   from the kept place on, a little later

``position`` is how far it has read, ``place`` how far everything is safe; the place is kept with the store's batches. A
message that was read and is not safe when something breaks is read again, with the same id. A reader that keeps up is
given what was recorded from memory, after its commit; one that is behind reads the log.

Publishers know nothing of all this: their acknowledgement waits for the log's commit, whatever the sink does; unless
they are to wait for the sink as well (``holding``).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple

from iot_mqtt.broker.backlog_growth import BacklogGrowth
from iot_mqtt.broker.driving import RETRY_SECONDS, breath, done, drive
from iot_mqtt.broker.facade import UplinkInfo
from iot_mqtt.broker.fresh import Fresh
from iot_mqtt.broker.holding import Holding
from iot_mqtt.ports.clock import Timer
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.ports.log import LogRun
from iot_mqtt.ports.uplink import Mode, Place, Places, Plan, Record, Sink

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.fanout import Outcome
    from iot_mqtt.broker.publication import Publication

logger = logging.getLogger(__name__)

#: What one read brings at most, about; and how much is taken at a time of what need not be read.
READ_MESSAGES = 1000
FRESH_MESSAGES = 500
READ_BYTES = 512 * 1024
#: Batches that the sink may have without having said that they are safe.
MAX_UNSAFE = 50_000
#: The place is written at least this often while it moves.
SAVE_SECONDS = 1.0
#: Between two looks at how the backlog grows.
WATCH_SECONDS = 1.0
#: An alarm about lost messages stands for so long.
LOST_SECONDS = 3600.0
RUNS_A_TURN = 100
#: Seconds after which reading what is at hand makes room for others.
TURN_SECONDS = 0.005


class _Sent(NamedTuple):
    """A batch that the sink has, and has not made safe."""

    #: Where the next one begins.
    end: int
    #: What was recorded for the uplink and is done with when this is safe; rules may have let some of it pass.
    messages: int
    size: int
    #: What the sink got of it.
    records: int
    #: When its first message came, by the wall clock.
    arrived: float


class Uplink:
    """One per node. ``attach`` it before anything is published, ``begin`` when what was loaded is committed."""

    def __init__(self, broker: Broker, plan: Plan, sink: Sink, places: Places, *, hold: bool = False) -> None:
        """``hold``: acknowledgements wait for the sink."""
        self._broker = broker
        self._plan = plan
        self._sink = sink
        self._places = places
        self._place = Place("", 0)
        self._changed = False
        self._saved_at = 0.0
        self._saving = False
        self._open = self._reading = self._full = self._held = self._stopped = False
        #: Moves when the sink forgets what it was sent.
        self._epoch = 0
        #: Moves when what is being read now is worth nothing.
        self._version = 0
        self.position = 0
        #: Behind the newest message that goes up.
        self.end = 0
        self._fresh = Fresh(0)
        self._planned = False
        self.holding = Holding(broker, self._safe_to) if hold else None
        #: What was recorded since the place was brought up to date: messages, and bytes.
        self._more = self._more_bytes = 0
        self._unsafe: deque[_Sent] = deque()
        self._unsafe_messages = self._unsafe_bytes = 0
        # Figures since the start.
        self._sent = self._sent_bytes = self._safe = self._failures = self._lost = 0
        self._lost_at: float | None = None
        self._stalled_since: float | None = None
        self._growth = BacklogGrowth()
        self._watching: Timer | None = None
        sink.ready = self._ready

    # Life.

    async def attach(self) -> None:
        """Find the place, and take part in the broker's turns from now on. A first start begins at the log's end."""
        log = self._broker.log
        place = await self._places.load()
        if place is None or place.position > log.committed_end:
            # What is kept of another log, or none of it: positions mean nothing any more.
            if place is not None:
                logger.warning("the log is not the one that the uplink has read from; it begins with a new spool")
            place = self._new_spool(0 if place is not None else log.committed_end)
        self._place, self.position = place, place.position
        # What there is already has to be read; what comes is heard of. The end of the former is not known.
        self.end, self._fresh = log.end, Fresh(log.end)
        self._broker.uplink, self._broker.holding = self, self.holding
        self._broker.store.stagers.append(self)
        self._touch()

    def _new_spool(self, position: int) -> Place:
        return Place(f"{self._broker.log.writer}.{token_hex(4)}", position)

    def begin(self) -> None:
        """Feed the sink, in the background."""
        self._watch()
        self._reopen()

    async def stop(self) -> None:
        """Hand nothing more over, and keep the place of what gets safe by that. Before the store's last commit."""
        self._end()
        await self._sink.close()
        self._touch()

    def abandon(self) -> None:
        """Others have taken this node's place: write nothing more."""
        self._end()
        self._sink.abandon()

    def _end(self) -> None:
        self._stopped = True
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def _reopen(self) -> None:
        if not (self._stopped or self._open):
            drive(self._begin(), done, self._not_open)

    async def _begin(self) -> None:
        position = await self._sink.open(self._place)
        log = self._broker.log
        if position > log.committed_end:
            logger.warning("the uplink's sink is ahead of the log, which has lost messages; it begins with a new spool")
            self._place = self._new_spool(self._place.position)
            position = await self._sink.open(self._place)
        self.position = position
        if position > self._place.position:
            self._place = self._place._replace(position=position)
            self._touch()
        self._open, self._full = not self._stopped, False
        self.read_on()

    def _not_open(self, error: BaseException) -> None:
        if self._sink.trouble is None:
            logger.error("the uplink's sink cannot be opened; trying again: %s", error)
        self._later(self._reopen)

    def _later(self, call: Callable[[], None]) -> None:
        if not self._stopped:
            self._broker.clock.call_later(RETRY_SECONDS, call)

    # What is recorded.

    def mode(self, topic: bytes, qos: int) -> Mode | None:
        """Whether messages of a topic and QoS are recorded to go up."""
        return self._plan.mode(topic, qos)

    @property
    def safe_position(self) -> int:
        """Everything before it is safe in the sink."""
        return self._place.position

    def recorded(self, run: LogRun) -> None:
        """Messages that go up were put into the log; the same batch says so."""
        self._fresh.add(run)
        self.end = run.end
        self._more += run.reference.length
        self._more_bytes += len(run.run.wire)
        self._changed = True
        if self._stalled_since is None:
            self._stalled_since = self._broker.clock.wall()

    # The store's batches.

    def _count_recorded(self) -> None:
        """Bring the place up to date."""
        place = self._place
        self._place = place._replace(
            recorded=place.recorded + self._more, recorded_bytes=place.recorded_bytes + self._more_bytes
        )
        self._more = self._more_bytes = 0

    def stage(self, batch: WriteBatch, ticket: int) -> None:
        """Keep the place, if it is another one."""
        if self._changed:
            self._changed = False
            self._count_recorded()
            self._saved_at = self._broker.clock.monotonic()
            self._places.stage(batch, self._place)

    def committed(self, ticket: int) -> None:
        """There may be more to read; whoever waits for the commit comes first."""
        self.read_on()

    def _touch(self) -> None:
        """The place has moved: keep it with the next batch, which is made soon."""
        self._changed = True
        if self._broker.clock.monotonic() - self._saved_at >= SAVE_SECONDS or self._stopped:
            self._broker.reserve()
        elif not self._saving:
            self._saving = True
            self._broker.clock.call_later(SAVE_SECONDS, self._save)

    def _save(self) -> None:
        self._saving = False
        if self._changed:
            self._broker.reserve()

    # Reading.

    def _ready(self) -> None:
        self._full = False
        self.read_on()

    def read_on(self) -> None:
        """Read what there is, at the end of this turn, unless that is being done or the sink can't take it."""
        if not self._planned and self._may_read():
            self._planned = True
            self._broker.call_soon(self._read_some)

    def _may_read(self) -> bool:
        if self._reading or not self._open or self._full or self._held or self._stopped:
            return False
        return self.position < self._broker.log.committed_end and len(self._unsafe) < MAX_UNSAFE

    def _read_some(self) -> None:
        """What was recorded a moment ago is at hand; anything else is read from the log. No more than others bear."""
        self._planned = False
        clock = self._broker.clock
        until = clock.monotonic() + TURN_SECONDS
        while self._may_read():
            if self.position < self._fresh.begin:
                self._reading = True
                drive(self._read(), done, self._not_read)
                return
            end = self._broker.log.committed_end
            self._hand_over(*self._fresh.take(self.position, end, FRESH_MESSAGES, READ_BYTES))
            if clock.monotonic() >= until:
                self.read_on()
                return

    async def _read(self) -> None:
        log, version = self._broker.log, self._version
        # What is not committed may never have been, after a crash, and its positions be those of other messages.
        safe_end = log.committed_end
        reading = await log.read(self._plan.filters, self.position, READ_MESSAGES, READ_BYTES)
        self._reading = False
        if version != self._version:
            self.read_on()
            return
        committed = [run.before(safe_end) for run in reading.runs if run.position < safe_end]
        self._hand_over(committed, min(reading.position, safe_end))
        self.read_on()

    def _not_read(self, error: BaseException) -> None:
        self._reading = False
        logger.error("reading the log for the uplink failed; trying again: %s", error)
        self._later(self.read_on)

    def _hand_over(self, runs: Sequence[LogRun], position: int) -> None:
        """Make records of what was read, up to this position."""
        plan, spool = self._plan, self._place.spool
        records: list[Record] = []
        messages = size = 0
        for run in runs:
            made, length = plan.records(run, spool), run.reference.length
            if len(made) == length or plan.goes_up(run):
                messages += length
                size += len(run.run.wire)
                records += made
        self.position = position
        if records:
            self._send(records, messages, size, runs[0].arrived)
        else:
            self._passed(messages, size)

    def _passed(self, messages: int, size: int) -> None:
        """What was read does not go up, whatever was recorded: it is done with when what was sent before it is."""
        if self._unsafe:
            last = self._unsafe[-1]
            self._unsafe[-1] = last._replace(
                end=self.position, messages=last.messages + messages, size=last.size + size
            )
            self._unsafe_messages += messages
            self._unsafe_bytes += size
            return
        if messages:
            place = self._place
            self._place = place._replace(
                position=self.position, taken=place.taken + messages, taken_bytes=place.taken_bytes + size
            )
            self._touch()
        self._rested()
        self._moved()

    def _send(self, records: list[Record], messages: int, size: int, arrived: float) -> None:
        self._unsafe.append(_Sent(self.position, messages, size, len(records), arrived))
        self._unsafe_messages += messages
        self._unsafe_bytes += size
        self._sent += len(records)
        self._sent_bytes += size
        if not self._sink.send(records, partial(self._done, self._epoch)):
            self._full = True

    def _done(self, epoch: int, error: BaseException | None) -> None:
        """The oldest batch that the sink has is safe, or none is."""
        if epoch != self._epoch:
            return
        if error is not None:
            self._fail(error)
            return
        sent = self._unsafe.popleft()
        self._unsafe_messages -= sent.messages
        self._unsafe_bytes -= sent.size
        self._safe += sent.records
        place = self._place
        self._place = place._replace(
            position=sent.end, taken=place.taken + sent.messages, taken_bytes=place.taken_bytes + sent.size
        )
        self._stalled_since = None
        if not self._unsafe:
            self._rested()
        self._touch()
        self._moved()
        self.read_on()

    def _safe_to(self) -> int:
        """Everything before it is safe, or does not go up."""
        return self._place.position if self._unsafe else self.position

    def _moved(self) -> None:
        if self.holding is not None:
            self.holding.moved()

    def _rested(self) -> None:
        """Nothing is under way. At the end of the log nothing is owed either, whatever was counted before a crash."""
        place, log = self._place, self._broker.log
        if self.position >= log.committed_end == log.end and place.taken != place.recorded:
            self._place = place._replace(taken=place.recorded, taken_bytes=place.recorded_bytes)
            self._touch()
        if self._place.taken >= self._place.recorded:
            self._stalled_since = None
        elif self._stalled_since is None:
            self._stalled_since = self._broker.clock.wall()

    def _fail(self, error: BaseException) -> None:
        """Nothing that the sink has and is not safe can be relied on: again, from the place on."""
        self._failures += 1
        self._epoch += 1
        self._version += 1
        self._open = False
        self._unsafe.clear()
        self._unsafe_messages = self._unsafe_bytes = 0
        self.position = self._place.position
        if not self._stopped:
            logger.warning("the uplink goes back to its place and tries again: %s", error)
            self._later(self._reopen)

    # Retention.

    async def write_off(self, generation: int) -> None:
        """A generation of the log will be dropped: count what the sink did not get of it. Nothing is read until
        ``go_on``.
        """
        broker = self._broker
        info = next((one for one in broker.log.generations() if one.id == generation), None)
        if info is None or info.end <= self.position:
            return
        self._held = True
        self._version += 1
        messages, size = await self._count(generation)
        if messages and self.holding is not None:
            self.holding.give_up(info.end)
        if messages:
            self._lost += messages
            self._lost_at = broker.clock.monotonic()
            place = self._place
            self._place = place._replace(taken=place.taken + messages, taken_bytes=place.taken_bytes + size)
            self._touch()
            logger.error(
                "retention drops messages that the uplink has not handed over",
                extra={"generation": generation, "messages": messages},
            )

    def go_on(self) -> None:
        """It was dropped, or will be tried again."""
        if self._held:
            self._held = False
            self._broker.call_soon(self.read_on)

    async def _count(self, generation: int) -> tuple[int, int]:
        """Messages, and bytes, of a generation that go up and were not read."""
        broker = self._broker
        messages = size = seen = 0
        begin, end = self.position, broker.log.committed_end
        async for run in broker.log.scan(generation, begin):
            if run.position < end and self._plan.goes_up(run):
                left = run.behind(begin)
                messages += left.reference.length
                size += len(left.run.wire)
            seen += 1
            if seen % RUNS_A_TURN == 0:
                await breath(broker.call_soon)
        return messages, size

    # What is told.

    def _watch(self) -> None:
        if self._stopped:
            return
        self._count_recorded()
        self._growth.look(self._unread, self._place.recorded)
        self._watching = self._broker.clock.call_later(WATCH_SECONDS, self._watch)

    @property
    def _unread(self) -> int:
        return max(0, self._place.recorded - self._place.taken - self._unsafe_messages)

    @property
    def alarms(self) -> tuple[str, ...]:
        """What an operator has to know, in words."""
        found = []
        if self._sink.trouble is not None:
            waiting = f"{self._unread} wait in the log"
            if self.holding is not None and self.holding.connections:
                waiting += f", and {self.holding.connections} publishers for their acknowledgements"
            found.append(f"the uplink does not take messages: {self._sink.trouble}; {waiting}")
        elif self._growth.growing:
            found.append(f"the uplink falls behind: {self._unread} messages wait in the log, and more every second")
        if self._lost_at is not None and self._broker.clock.monotonic() - self._lost_at < LOST_SECONDS:
            found.append(
                f"the uplink has lost {self._lost} messages: the log's retention was over before they were taken"
            )
        if self._sink.dropped:
            found.append(
                f"the platform has rejected {self._sink.dropped} records that could not be put among its dead letters"
            )
        return tuple(found)

    def info(self) -> UplinkInfo:
        """Figures."""
        self._count_recorded()
        place, wall = self._place, self._broker.clock.wall()
        since = self._unsafe[0].arrived if self._unsafe else self._stalled_since
        alarms = self.alarms
        return UplinkInfo(
            kind=self._sink.kind,
            state="alarm" if alarms else "ok",
            alarms=alarms,
            trouble=self._sink.trouble,
            spool=place.spool,
            position=place.position,
            end=self._broker.log.end,
            lag_messages=max(0, place.recorded - place.taken),
            lag_bytes=max(0, place.recorded_bytes - place.taken_bytes),
            lag_seconds=max(0.0, wall - since) if since is not None else 0.0,
            unread_messages=self._unread,
            in_flight_messages=self._unsafe_messages,
            recorded=place.recorded,
            sent=self._sent,
            sent_bytes=self._sent_bytes,
            safe=self._safe,
            failures=self._failures,
            lost=self._lost,
            dead=self._sink.dead,
            dropped=self._sink.dropped,
        )


def note_sent_up(broker: Broker, publication: Publication, outcome: Outcome) -> None:
    """A publication goes up: it has a receiver, and its acknowledgement waits for the log."""
    outcome.elsewhere = True
    if publication.logged is not None:
        outcome.ticket = broker.store.latest
        if broker.holding is not None:
            outcome.position = publication.logged.end


def position_of(broker: Broker, publication: Publication) -> int:
    """What the answer to a repeated message waits for: it may have gone up and not be safe."""
    uplink = broker.uplink
    if uplink is None or uplink.holding is None or uplink.mode(publication.topic, publication.qos) is None:
        return 0
    return uplink.end
