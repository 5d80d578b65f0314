"""The order of messages that one session is owed of several logs.

A publisher that moves from one node to another goes on in another log. Whoever is behind in the log that it has left
must not get what is in the other one first [MQTT-4.6.0-6]. So the logs of a session are read like one, by the times at
which their messages arrived:

    log of node 1   …  10.1   10.4 ─────────▶ 10.9            each reader takes what arrived before the next message
    log of node 2   …     10.2   10.3 ─▶ 10.7                 of every other one, and then it is another one's turn

A reader that has all that is known of its log holds up nobody, nor does one that cannot read at present: order is kept
as far as the clocks of the nodes agree to the time that a client takes to move, and not at the price of standing still.
Where the others get nowhere for ``PATIENCE``, although the client has room, they hold up nobody until they read again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from sys import float_info

from iot_mqtt.broker.claims import ClaimCursor
from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.log_cursor import ReadingNode
from iot_mqtt.ports.log import LogReader, LogRun, Reading

logger = logging.getLogger(__name__)

#: When the next message of a log arrived, of which nothing was read yet.
UNREAD = -inf
#: Nothing is known to be there.
NOTHING = inf
#: Something may be there, and nobody is to wait for it any longer.
GIVEN_UP = float_info.max
#: Seconds for which a reader waits at most while those that come first do not move.
PATIENCE = 2.0
#: What is read and waits for other logs is kept up to so many bytes, else it is read again.
WAITING_BYTES = 64 * 1024
#: A read costs the same for one as for many. With room for fewer than ``FEW`` so many messages, and bytes, are read
#: ahead; what there is no room for is kept.
FEW = 4
AHEAD = 32
AHEAD_BYTES = 16 * 1024


class OrderedCursor(ClaimCursor):
    """The reader of one of the logs of a session."""

    __slots__ = ("session", "next_at", "waits", "ahead", "ahead_version", "timed")

    def __init__(self, node: ReadingNode, session: KeptSession, log: LogReader, position: int, *, live: bool) -> None:
        super().__init__(node, log, position, live=live)
        self.session = session
        #: When the message arrived that it takes next, or an earlier time. Means nothing while ``live``.
        self.next_at = UNREAD
        #: For others to take what came before; one of them tells it to read on.
        self.waits = False
        #: What it has read, and may not take before others have taken theirs, or has no room for; read for what was
        #: wanted then.
        self.ahead: Reading | None = None
        self.ahead_version = 0
        #: Its patience is being timed.
        self.timed = False

    def fall_behind(self, position: int, owed: int) -> None:
        super().fall_behind(position, owed)
        self.next_at = UNREAD

    def learns_of(self, logged: LogRun) -> None:
        """A message is there that it has to read."""
        if self.next_at == NOTHING:
            self.next_at = logged.arrived

    def may_have_more(self) -> None:
        if self.next_at == NOTHING:
            self.next_at = UNREAD

    def may_take(self, logged: LogRun) -> bool:
        """Whether nothing that may have come before a message waits in another log."""
        return logged.arrived <= min((other.next_at for other in self._others()), default=NOTHING)

    def wait_for_others(self, logged: LogRun, owed: int) -> None:
        """What is offered comes behind what is in other logs: it is read later."""
        self.fall_behind(logged.position, owed)
        self._wait(logged)

    def _limit(self, runs: Sequence[LogRun]) -> float:
        """What arrived later than this must wait: another reader has something that may have come before it.

        Where that one has read what comes next, and none of it is of a publisher of these, there is no order between
        them.
        """
        found, publishers = NOTHING, None
        for other in self._others():
            first = other.next_at
            if other.ahead is not None and first < found:
                publishers = publishers or {run.publisher for run in runs}
                if publishers.isdisjoint(run.publisher for run in other.ahead.runs):
                    first = max(first, other.ahead.runs[-1].arrived)
            found = min(found, first)
        return found

    def _others(self) -> Iterator[OrderedCursor]:
        """Those that are behind."""
        for other in self.session.plain_cursors():
            if other is not self and not other.live and isinstance(other, OrderedCursor):
                yield other

    def _wait(self, logged: LogRun) -> None:
        """Others come first."""
        self.waits, self.next_at = True, logged.arrived
        self._time()
        for other in self._others():
            if not other.waits and other.next_at < logged.arrived:
                self.node.call_soon(other.read_on)

    def _time(self) -> None:
        """Look later whether the others have moved."""
        if not self.timed:
            self.timed = True
            self.node.clock.call_later(PATIENCE, partial(self._look_again, self._places()))

    def _places(self) -> list[int]:
        return [other.position for other in self._others()]

    def _look_again(self, before: list[int]) -> None:
        self.timed = False
        if self.live or self.closed or not self.waits:
            return
        if self.room() > 0 and self._places() == before:
            self._hurry()
        else:
            self._time()

    def _hurry(self) -> None:
        """Those that come first hold up nobody until they have read something."""
        self.node.counters.readers_hurried += 1
        for other in self._others():
            if other.next_at < self.next_at:
                logger.warning("reading the log of a node (number %d) takes too long: others go on", other.log.writer)
                other.next_at = GIVEN_UP
                self.node.call_soon(other.read_on)
        self.read_on()

    def _call_others(self) -> None:
        """It may be the turn of one that waits."""
        for other in self._others():
            if other.waits:
                self.node.call_soon(other.read_on)

    async def _fetch(self, room: int) -> Reading:
        ahead, self.ahead, self.waits = self.ahead, None, False
        if ahead is not None and self.ahead_version == self.version and ahead.runs[0].position == self.position:
            return ahead
        if room < FEW:
            return await self.log.read(self.filters(), self.position, AHEAD, AHEAD_BYTES)
        return await super()._fetch(room)

    def _take_all(self, reading: Reading) -> bool:
        if self._take_in_order(reading):
            return True
        if self.ahead is None and not self.closed:
            self._keep_rest(reading)
        return False

    def _take_in_order(self, reading: Reading) -> bool:
        runs, at = reading.runs, 0
        if not self.session.elsewhere:
            return self.take_runs(runs)
        before = self.next_at
        while at < len(runs):
            limit, end = self._limit(runs[at:]), at
            while end < len(runs) and runs[end].arrived <= limit:
                end += 1
            if end == at:
                self.position = runs[at].position
                self._keep(reading._replace(runs=runs[at:]))
                self._wait(runs[at])
                if self.next_at != before:
                    self._call_others()
                return False
            self.next_at = runs[at].arrived
            if not self.take_runs(runs[at:end]):
                return False
            at = end
        return True

    def _keep_rest(self, reading: Reading) -> None:
        """A little of what there is no room for."""
        kept: list[LogRun] = []
        position, messages, size = self.position, AHEAD, AHEAD_BYTES
        for run in reading.runs:
            if run.end <= position:
                continue
            rest = run.behind(position)
            length, wire = rest.reference.length, len(rest.run.wire)
            # About so many: not all are of one size.
            count = min(length, messages, length * size // wire)
            if count:
                kept.append(rest.before(rest.position + count))
            if count < length:
                break
            messages -= count
            size -= wire
        if kept:
            self.ahead, self.ahead_version = Reading(kept, kept[-1].end, at_end=False), self.version

    def _keep(self, reading: Reading) -> None:
        """What waits for others, as far as it is small; more may have been appended by the time that it is taken."""
        runs, size = reading.runs, 0
        for count, run in enumerate(runs):
            size += len(run.run.wire)
            if count and size > WAITING_BYTES:
                runs, reading = runs[:count], reading._replace(position=run.position)
                break
        self.ahead, self.ahead_version = Reading(runs, reading.position, at_end=False), self.version

    def caught_up(self) -> None:
        self._call_others()

    def nothing_there(self) -> None:
        # What it was offered, and does not find yet, is announced in a moment.
        if not self.owed:
            self.next_at = NOTHING
            self._call_others()

    def left(self) -> None:
        self.ahead, self.waits, self.next_at = None, False, UNREAD

    def _failed(self, error: BaseException) -> None:
        self.next_at = GIVEN_UP
        super()._failed(error)
        self._call_others()
