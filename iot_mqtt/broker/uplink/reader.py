"""The reader that feeds the uplink: from the node's own log, in order, as far as it is committed, into a sink.

::

    CLOSED ──(sink opens)──▶ READING ──(no room in the sink)──▶ FULL ──(ready)──▶ READING
      ▲                         │
      └──────(sink fails)───────┘   from the kept place on, a little later

How far it has read and how far everything is safe stands in the ``ledger``. A message that was read and is not safe
when something breaks is read again, with the same id. A reader that keeps up is given what was recorded from memory,
after its commit (``fresh``); one that is behind reads the log.

Publishers know nothing of all this: their acknowledgement waits for the log's commit, whatever the sink does; unless
they are to wait for the sink as well (``holding``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from iot_mqtt.broker.driving import RETRY_SECONDS, breath, done, drive
from iot_mqtt.broker.losses import Cause
from iot_mqtt.broker.uplink.dropped import Dropped, Loss
from iot_mqtt.broker.uplink.fresh import Fresh
from iot_mqtt.broker.uplink.holding import Holding
from iot_mqtt.broker.uplink.ledger import Ledger
from iot_mqtt.broker.uplink.watching import Watch
from iot_mqtt.ports.alarms import Alarm
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.ports.log import CommittedLog, LogRun
from iot_mqtt.ports.uplink import Mode, Plan, Record, Sink

logger = logging.getLogger(__name__)

#: What one read brings at most, about; and how much is taken at a time of what need not be read.
READ_MESSAGES = 1000
FRESH_MESSAGES = 500
READ_BYTES = 512 * 1024
#: Batches that the sink may have without having said that they are safe.
MAX_UNSAFE = 50_000
RUNS_A_TURN = 100
#: Seconds after which reading what is at hand makes room for others.
TURN_SECONDS = 0.005


class Uplink:
    """One per node. ``attach`` it before anything is published, ``begin`` when what was loaded is committed."""

    def __init__(
        self,
        plan: Plan,
        sink: Sink,
        ledger: Ledger,
        log: CommittedLog,
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], None],
        holding: Holding | None = None,
    ) -> None:
        """``holding``: acknowledgements wait for the sink, in there."""
        self._plan = plan
        self._sink = sink
        #: The sink's, or what stands before it.
        self.send = sink.send
        self._ledger = ledger
        self._log = log
        self._clock = clock
        self._call_soon = call_soon
        self.holding = holding
        self._watch = watch = Watch(ledger, sink, holding, log, clock)
        #: Figures.
        self.info = watch.info
        self._open = self._reading = self._full = self._held = self._stopped = False
        #: Moves when the sink forgets what it was sent.
        self._epoch = 0
        #: Moves when what is being read now is worth nothing.
        self._version = 0
        #: Behind the newest message that goes up.
        self.end = 0
        self._fresh = Fresh(0)
        self._dropped = Dropped()
        self._planned = False
        sink.ready = self._ready

    # Life.

    async def attach(self) -> None:
        """Find the place. It is to take part in the broker's turns from now on (``Composition.feed``)."""
        await self._ledger.load()
        # What there is already has to be read; what comes is heard of. The end of the former is not known.
        end = self.end = self._log.end
        self._fresh = Fresh(end)
        self._ledger.touch()

    def begin(self) -> None:
        """Feed the sink, in the background."""
        if not self._stopped:
            self._watch.begin()
            self._look_for_oldest()
            self._reopen()

    async def stop(self) -> None:
        """Hand nothing more over, and keep the place of what gets safe by that. Before the store's last commit."""
        self._end()
        await self._sink.close()
        self._ledger.touch()

    def abandon(self) -> None:
        """Others have taken this node's place: write nothing more."""
        self._end()
        self._sink.abandon()

    def _end(self) -> None:
        self._stopped = self._ledger.ending = True
        self._watch.end()

    def _reopen(self) -> None:
        if not (self._stopped or self._open):
            drive(self._begin(), done, self._not_open)

    async def _begin(self) -> None:
        ledger = self._ledger
        position = await self._sink.open(ledger.place)
        if position > self._log.committed_end:
            logger.warning("the uplink's sink is ahead of the log, which has lost messages; it begins with a new spool")
            ledger.new_spool(ledger.place.position)
            position = await self._sink.open(ledger.place)
        ledger.opened(position)
        self._open, self._full = not self._stopped, False
        self.read_on()

    def _not_open(self, error: BaseException) -> None:
        if self._sink.trouble is None:
            logger.error("the uplink's sink cannot be opened; trying again: %s", error)
        self._later(self._reopen)

    def _later(self, call: Callable[[], None]) -> None:
        if not self._stopped:
            self._clock.call_later(RETRY_SECONDS, call)

    # What is recorded.

    @property
    def kind(self) -> str:
        """What the sink is."""
        return self._sink.kind

    @property
    def filters(self) -> Sequence[str]:
        """Plain filters that cover what goes up."""
        return self._plan.filters

    def mode(self, topic: bytes, qos: int) -> Mode | None:
        """Whether messages of a topic and QoS are recorded to go up."""
        return self._plan.mode(topic, qos)

    @property
    def safe_position(self) -> int:
        """Everything before it is safe in the sink."""
        return self._ledger.place.position

    def recorded(self, run: LogRun) -> None:
        """Messages that go up were put into the log; the same batch says so."""
        over = self._fresh.add(run)
        self.end = run.end
        self._ledger.recorded(run)
        if over and (gone := self._dropped.generations):
            lost = [_loss(one) for one in over if one.reference.generation in gone and self._plan.goes_up(one)]
            # Not now: somebody publishes, and those who wait for what is lost are closed. The alarm counts it; a line
            # for each would be too many.
            self._call_soon(partial(self._count_lost, lost))

    def contribute(self, batch: WriteBatch, ticket: int) -> None:
        """Keep the place with the store's batch."""
        self._ledger.stage(batch)

    def committed(self, ticket: int) -> None:
        """There may be more to read; whoever waits for the commit comes first."""
        self.read_on()

    # Reading.

    def _ready(self) -> None:
        self._full = False
        self.read_on()

    def read_on(self) -> None:
        """Read what there is, at the end of this turn, unless that is being done or the sink can't take it."""
        if not self._planned and self._may_read():
            self._planned = True
            self._call_soon(self._read_some)

    def _may_read(self) -> bool:
        if self._reading or not self._open or self._full or self._held or self._stopped:
            return False
        return self._ledger.position < self._log.committed_end and self._ledger.batches < MAX_UNSAFE

    def _read_some(self) -> None:
        """What was recorded a moment ago is at hand; anything else is read from the log. No more than others bear."""
        self._planned = False
        clock = self._clock
        until = clock.monotonic() + TURN_SECONDS
        while self._may_read():
            position = self._ledger.position
            if position < self._fresh.begin:
                self._reading = True
                drive(self._read(), done, self._not_read)
                return
            end = self._log.committed_end
            self._hand_over(*self._fresh.take(position, end, FRESH_MESSAGES, READ_BYTES))
            if clock.monotonic() >= until:
                self.read_on()
                return

    async def _read(self) -> None:
        version = self._version
        runs, position = await self._in_log(self._ledger.position)
        self._reading = False
        if version == self._version:
            self._hand_over(runs, position)
        self.read_on()

    async def _in_log(self, position: int) -> tuple[list[LogRun], int]:
        """What the log has from a position on, to where memory begins, and where to read on."""
        log = self._log
        # What is not committed may never have been, after a crash, and its positions be those of other messages. What
        # memory has may have been dropped from the log.
        end = min(log.committed_end, self._fresh.begin)
        reading = await log.read(self._plan.filters, position, READ_MESSAGES, READ_BYTES, all_up=True)
        gone = self._dropped.generations
        found = [run.before(end) for run in reading.runs if run.position < end and run.reference.generation not in gone]
        return found, min(reading.position, end)

    def _look_for_oldest(self) -> None:
        """Since when the oldest message waits: the log knows when it came."""
        if self._ledger.unread:
            drive(self._oldest(), done, self._oldest_unknown)

    async def _oldest(self) -> None:
        ledger, version = self._ledger, self._version
        position = ledger.place.position
        runs, _ = await self._in_log(position)
        found = next((run for run in runs if self._plan.goes_up(run)), self._fresh.oldest)
        if found is not None and (version, position) == (self._version, ledger.place.position):
            ledger.oldest_came(found.arrived)

    def _oldest_unknown(self, error: BaseException) -> None:
        logger.debug("the log does not say since when the oldest message for the uplink waits: %s", error)

    def _not_read(self, error: BaseException) -> None:
        self._reading = False
        logger.error("reading the log for the uplink failed; trying again: %s", error)
        self._later(self.read_on)

    # The sink.

    def _hand_over(self, runs: Sequence[LogRun], position: int) -> None:
        """Make records of what was read, up to this position."""
        plan, ledger, gone = self._plan, self._ledger, self._dropped.generations
        spool = ledger.place.spool
        records: list[Record] = []
        messages = size = 0
        for run in runs:
            made, length = plan.records(run, spool), run.reference.length
            if len(made) == length or plan.goes_up(run):
                if run.reference.generation in gone:
                    self._dropped.handed_over(run)
                messages += length
                size += len(run.run.wire)
                records += made
        if records:
            ledger.hand_over(position, messages, size, len(records), runs[0].arrived)
            if not self.send(records, partial(self._done, self._epoch)):
                self._full = True
        elif ledger.pass_over(position, messages, size):
            self._moved()

    def _done(self, epoch: int, error: BaseException | None) -> None:
        """The oldest batch that the sink has is safe, or none is."""
        if epoch != self._epoch:
            return
        if error is not None:
            self._fail(error)
            return
        self._ledger.take()
        self._moved()
        self.read_on()

    def _moved(self) -> None:
        if self.holding is not None:
            self.holding.moved()

    def _fail(self, error: BaseException) -> None:
        self._epoch += 1
        self._version += 1
        self._open = False
        self._ledger.fall_back()
        self._lose(self._dropped.failed(self._ledger.place.position))
        if not self._stopped:
            logger.warning("the uplink goes back to its place and tries again: %s", error)
            self._later(self._reopen)

    # Retention.

    async def write_off(self, generation: int, cause: Cause) -> None:
        """A generation of the log will be dropped: count what the sink did not get of it. Nothing is read until
        ``go_on``.
        """
        ledger, generations = self._ledger, {one.id: one for one in self._log.generations()}
        info = generations.get(generation)
        if info is None or info.end <= ledger.safe_to:
            return
        self._held = True
        self._version += 1
        in_memory = self._fresh.begin
        self._dropped.add(generation, info.end, generations, in_memory)
        self._ledger.causes.add(cause)
        found = await self._unsafe_of(generation, in_memory)
        self._lose(self._dropped.sort_out(found, ledger.place.position, ledger.position))

    def go_on(self) -> None:
        """It was dropped, or will be tried again."""
        if self._held:
            self._held = False
            self._look_for_oldest()
            self._call_soon(self.read_on)

    async def _unsafe_of(self, generation: int, in_memory: int) -> list[Loss]:
        """What a generation has that goes up, is not safe, and is not in memory."""
        found: list[Loss] = []
        begin, end = self._ledger.place.position, min(self._log.committed_end, in_memory)
        seen = 0
        async for run in self._log.scan(generation, begin):
            if run.position < end and self._plan.goes_up(run):
                found.append(_loss(run.behind(begin)))
            seen += 1
            if seen % RUNS_A_TURN == 0:
                await breath(self._call_soon)
        return found

    def _lose(self, losses: Sequence[Loss]) -> None:
        """They are nowhere any more."""
        if losses:
            messages = sum(one.end - one.begin for one in losses)
            logger.error("retention has dropped messages that are not safe in the sink", extra={"messages": messages})
            self._count_lost(losses)

    def _count_lost(self, losses: Sequence[Loss]) -> None:
        if not losses:
            return
        if self.holding is not None:
            self.holding.give_up(max(one.end for one in losses))
        self._ledger.write_off(sum(one.end - one.begin for one in losses), sum(one.size for one in losses))

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator has to know."""
        return self._watch.alarms


def _loss(run: LogRun) -> Loss:
    return Loss(run.position, run.end, len(run.run.wire))
