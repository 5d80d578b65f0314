"""A reader of the log: how far it is, and how it catches up.

::

               offered while there is room                  no room, or the client is gone
    LIVE ───────────────────────────────▶ LIVE        LIVE ───────────────────────────────▶ BEHIND
                                                      BEHIND ──(read to the end of the log)──▶ LIVE

A live cursor is offered messages as they are published and needs no position. One that is behind is offered
nothing: what it is owed is in the log from its position on, and it reads as far as there is room.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from iot_mqtt.broker.driving import RETRY_SECONDS, done, drive
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.log import LogReader, LogRun, Reading
from iot_mqtt.ports.store import StoredReplay
from iot_mqtt.session import Flight

logger = logging.getLogger(__name__)

#: Bytes that one read brings at most, about.
READ_BYTES = 1024 * 1024


class Admission(Protocol):
    """Who says whether more may be read now."""

    def must_wait(self, cursor: LogCursor) -> bool:
        """Whether a cursor is to read later, and will be told when."""
        ...


class ReadingNode(Protocol):
    """What every reader needs of its node."""

    counters: Counters
    clock: Clock
    #: Messages that one read brings at most.
    read_messages: int

    def call_soon(self, call: Callable[[], None], /) -> None: ...

    @property
    def outflow(self) -> Admission: ...


class LogCursor:
    """The part that every kind of reader shares."""

    __slots__ = (
        "node",
        "log",
        "position",
        "live",
        "reading",
        "backlog",
        "version",
        "closed",
        "name",
        "uncounted",
        "told",
    )

    #: Whether it reads for a shared group, which keeps what its members have under way.
    is_shared: ClassVar[bool] = False

    def __init__(self, node: ReadingNode, log: LogReader, position: int, *, live: bool) -> None:
        self.node = node
        #: What it reads; positions are places in this log.
        self.log = log
        #: Everything before it has been taken or is not wanted. Means nothing while ``live``.
        self.position = position
        self.live = live
        self.reading = False
        #: Messages that are owed from ``position`` on; None when nobody has counted them since the start.
        self.backlog: int | None = 0 if live else None
        #: While the backlog is unknown: messages in it that are counted already, as matched or as restored.
        self.uncounted = 0
        #: What is owed besides was counted by nobody: who had the session before has said how much he had counted.
        self.told = live
        #: Moves when what is wanted changes: a read that began before is worth nothing.
        self.version = 0
        self.closed = False
        #: What flights are stored under: "" for a session's main cursor, else the filter as subscribed.
        self.name = ""

    # What a kind of reader is.

    def filters(self) -> Sequence[str]:
        """Plain filters that cover what is wanted."""
        raise NotImplementedError

    def room(self) -> int:
        """How many messages can be taken now."""
        raise NotImplementedError

    def take(self, run: LogRun) -> int:
        """Take what is wanted of a run; how many of its messages are dealt with (fewer than all: no room)."""
        raise NotImplementedError

    def may_rest(self) -> bool:
        """Whether the end of the log is all there is to reach."""
        return True

    def is_offered(self) -> bool:
        """Whether, once at the end of the log, it can rely on being offered what is published from now on."""
        return True

    def caught_up(self) -> None:
        """The end of the log was reached."""

    def nothing_there(self) -> None:
        """All that is known of the log was read, and more may come."""

    def left(self) -> None:
        """Nobody is there any more to take anything."""

    def lose(self, count: int) -> None:
        """Messages that were owed are not in the log any more."""
        raise NotImplementedError

    def under_way(self, flight: Flight) -> None:
        """A session has messages under way that were taken by this reader."""

    @property
    def idle(self) -> bool:
        """Whether nobody is there to take anything."""
        raise NotImplementedError

    # Falling behind and catching up.

    @property
    def front(self) -> int:
        """Where it is while it is live: what is before that was offered to it."""
        return self.log.end

    def place(self, end: int) -> int:
        """How far it is; ``end`` is that of the log, where a live one is."""
        return end if self.live else self.position

    def fall_behind(self, position: int, owed: int) -> None:
        """From this position on messages have to be read."""
        self.live = False
        self.position = position
        self.backlog = owed

    def owe(self, count: int) -> None:
        """Messages were appended that this reader will want."""
        if self.backlog is None:
            self.uncounted += count
        else:
            self.backlog += count

    @property
    def owed(self) -> int:
        """Messages that are known to be owed: the backlog, or what is known of it."""
        return self.uncounted if self.backlog is None else self.backlog

    def over(self, count: int) -> None:
        """Owed messages were taken, or given up. Those that nobody had counted waited before the node started."""
        known = min(count, self.owed)
        if self.backlog is None:
            self.uncounted -= known
        else:
            self.backlog -= known
        if count > known:
            self.found(count - known)

    def found(self, count: int) -> None:
        """Messages that are owed, and that nobody here had counted."""
        counters = self.node.counters
        if self.told:
            counters.messages_matched += count
        else:
            counters.messages_restored += count
            counters.messages_found += count

    def read_on(self) -> None:
        """Read what there is room for, unless that is being done."""
        if self.can_read():
            self.begin_read()

    def can_read(self) -> bool:
        """Whether there is something to read, and room for it."""
        return not (self.live or self.reading or self.closed) and self.room() > 0

    def begin_read(self) -> None:
        """Read, or wait where too much is under way."""
        if not self.node.outflow.must_wait(self):
            self.reading = True
            drive(self._read(), done, self._failed)

    async def _read(self) -> None:
        version = self.version
        reading = await self._fetch(min(self.room(), self.node.read_messages))
        self.reading = False
        if self.closed or self.room() <= 0:
            return
        if version == self.version and not self._take_all(reading):
            return
        if version == self.version:
            self.position = reading.position
            if reading.at_end and self.may_rest():
                if not self.is_offered():
                    self.nothing_there()
                    return
                if self.owed:
                    # What is owed and is nowhere was removed by retention, or is damaged.
                    self.lose(self.owed)
                self.live, self.backlog, self.told = True, 0, True
                self.caught_up()
                return
        self.node.call_soon(self.read_on)

    async def _fetch(self, room: int) -> Reading:
        """So many messages from the position on."""
        return await self.log.read(self.filters(), self.position, room, READ_BYTES)

    def _take_all(self, reading: Reading) -> bool:
        return self.take_runs(reading.runs)

    def take_runs(self, runs: Sequence[LogRun]) -> bool:
        """Take what is wanted of these; False: not all of it, and the position is where to go on."""
        for run in runs:
            count = self.take(run)
            if count < run.reference.length:
                self.position = run.position + count
                return False
        return True

    def _failed(self, error: BaseException) -> None:
        """Not ready is not empty: later again."""
        self.reading = False
        logger.error("reading the log failed; trying again: %s", error)
        self.node.clock.call_later(RETRY_SECONDS, self.read_on)


class Replay(LogCursor):
    """The reader of a subscription that begins in the past."""

    __slots__ = ("plain",)

    def __init__(self, node: ReadingNode, log: LogReader, position: int, plain: str) -> None:
        super().__init__(node, log, position, live=False)
        #: The filter that it reads.
        self.plain = plain

    def stored(self, end: int) -> StoredReplay:
        """What is kept of it; ``end`` is that of the log."""
        raise NotImplementedError
