"""Room: on disk for what is kept, and in memory for what is not committed yet. Who would exceed it is held off.

::

    disk     NONE ─(80 %)─▶ ALARM ─(100 %)─▶ FULL      what would be stored is refused (v5: 0x97) or waits (3.x)
    inodes   the same, of those of the file system
    memory   commits fail, or take too long            whoever adds to what waits for a commit is not read from

Everything goes on by itself when there is room again. QoS 0 that nobody stores is never held off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Protocol

from iot_mqtt.broker.publishing.fullness import DiskLevel, Fullness, fullest
from iot_mqtt.broker.settings import BudgetSettings
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.disk import DiskMeter
from iot_mqtt.ports.store import Store

if TYPE_CHECKING:
    from iot_mqtt.ports.grid import WriteBatch

logger = logging.getLogger(__name__)

#: So much is room again on a disk that was full.
ROOM_BYTES = 8 * 1024 * 1024
ROOM_INODES = 32
#: Inodes that have to stay free: the grid makes new files before it removes the old ones, and the node has others.
INODES_KEPT = 32
#: After so large a share of the room was written, and so many bytes, the disk is looked at before its time.
LOOK_SHARE = 0.125
LOOK_BYTES = 1024 * 1024


class Pause(StrEnum):
    """Why a connection is not read from."""

    DISK_FULL = "disk_full"
    UNCOMMITTED = "uncommitted"
    UPLINK = "uplink"
    #: A command of its may have been accepted by another node: the grid is asked.
    LOOKUP = "lookup"
    #: It has had its share of a turn.
    TURN = "turn"
    #: It, or whoever it shares a rate with, publishes faster than is allowed.
    RATE = "rate"


#: What ends by itself, whether or not there is room.
_APART = frozenset({Pause.UPLINK, Pause.LOOKUP, Pause.TURN, Pause.RATE})


class Held(Protocol):
    """A connection, which can be told to wait."""

    def hold(self, items: list[object]) -> None:
        """Read no further, and keep these behind what waits already."""
        ...

    def proceed(self) -> None:
        """Go on with what was kept."""
        ...


class Budget:
    """The room of one node; a ``ports.store.CommitParticipant``, for batches are what memory waits for."""

    def __init__(
        self,
        settings: BudgetSettings,
        meter: DiskMeter | None,
        store: Store,
        counters: Counters,
        call_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self._store = store
        self._counters = counters
        self._call_soon = call_soon
        self._settings = settings
        self._meter = meter
        self._unmeasured = False
        self._paused: dict[Held, Pause] = {}
        self._gathering = 0
        self._under_way = 0
        #: Bytes taken since the disk was looked at, and those after which it is looked at again.
        self._unseen = 0
        self._allowance = inf if meter is None else LOOK_BYTES
        #: How full the disk is, of bytes and of inodes, and as the fuller of both.
        self._space, self._inodes = Fullness(ROOM_BYTES), Fullness(ROOM_INODES)
        self.level = DiskLevel.NONE
        #: The same as ``level is FULL``, for the hot path.
        self.full = False
        #: Too much waits for a commit.
        self.crowded = False
        self.disk_used = self.disk_limit = self.disk_free = 0
        #: Of the file system; 0 of 0: it does not count them.
        self.inodes = self.inodes_free = 0
        #: What is served now is served whole.
        self._undivided = False
        #: Bytes that have to stay free.
        self._kept = 0

    # The disk.

    def measure(self) -> None:
        """Look at the disk. Called now and then, and whenever much was written."""
        if self._meter is None:
            return
        self._unseen = 0
        try:
            use = self._meter()
        except OSError as error:
            if not self._unmeasured:
                logger.error("the room that the grid takes cannot be measured: %s", error)
            self._unmeasured = True
            return
        self._unmeasured = False
        self.disk_used, self.disk_free = use.used, use.free
        self.disk_limit = self._limit(use.passing)
        self._allowance = max(LOOK_BYTES, (self.disk_limit - self.disk_used) * LOOK_SHARE)
        self.inodes, self.inodes_free = use.inodes, use.inodes_free
        self._space.look(self.disk_used, self.disk_limit)
        if self.inodes:
            self._inodes.look(self.inodes - self.inodes_free, self.inodes - INODES_KEPT)
        level = fullest(self._space, self._inodes)
        if level is not self.level:
            self.level, self.full = level, level is DiskLevel.FULL
            self._tell()
            if not self.full:
                self._call_soon(self._resume)

    def _limit(self, passing: int) -> int:
        """What the grid may take: what it was given, and no more than the file system has for it.

        A reserve is kept free beside what the grid needs to give room back.
        """
        reserve = self._settings.disk_reserve
        self._kept = reserve + passing if reserve else 0
        available = max(0, self.disk_used + self.disk_free - self._kept)
        return min(self._settings.disk_limit or available, available)

    @property
    def lacks_bytes(self) -> bool:
        """Whether removed entries should give back what they take."""
        return self._space.level is DiskLevel.FULL

    def _tell(self) -> None:
        subject = self._settings.subject
        figures = {"used": self.disk_used, "limit": self.disk_limit, "free": self.disk_free}
        if self.inodes:
            figures |= {"inodes": self.inodes, "inodes_free": self.inodes_free}
        if self.level is DiskLevel.FULL:
            logger.error("the %s budget is used up: what would be stored is refused", subject, extra=figures)
        elif self.level is DiskLevel.ALARM:
            logger.warning("the %s budget is nearly used up", subject, extra=figures)
        else:
            logger.info("the %s budget has room again", subject, extra=figures)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator has to know."""
        found = []
        subject = self._settings.subject
        for one, described in ((self._space, self._room_in_words), (self._inodes, self._inodes_in_words)):
            if one.level is not DiskLevel.NONE:
                kind, words = described()
                found.append(Alarm(kind, f"{subject} {one.level.value}: {words}"))
        store = self._store
        if store.failing:
            trouble = str(store.trouble)
            found.append(Alarm(AlarmKind.GRID, f"the grid does not take writes: {trouble}", trouble))
        if self.crowded:
            found.append(
                Alarm(AlarmKind.COMMIT, f"{self.uncommitted} bytes wait for a commit: publishers are held off")
            )
        return tuple(found)

    def _room_in_words(self) -> tuple[AlarmKind, str]:
        used, limit, own = self.disk_used, self.disk_limit, self._settings.disk_limit
        if self.lacks_bytes and self._kept and not (own and limit == own):
            # Others have filled the file system: a share of what is left for the node would say nothing.
            words = f"{self.disk_free} bytes free, and {self._kept} have to stay free; the node itself takes {used}"
            return AlarmKind.ROOM_OF_DISK, words
        return AlarmKind.ROOM, f"{used} of {limit} bytes used ({100 * used // max(1, limit)} %)"

    def _inodes_in_words(self) -> tuple[AlarmKind, str]:
        used, every = self.inodes - self.inodes_free, self.inodes
        words = f"{used} of {every} inodes used ({100 * used // every} %), {INODES_KEPT} have to stay free"
        return AlarmKind.INODES, words

    # Memory.

    def added(self, size: int) -> None:
        """Bytes were taken that wait for a commit."""
        self._gathering += size
        self._unseen += size
        if self._unseen > self._allowance and not self._undivided:
            self.measure()
        if self.uncommitted > self._settings.uncommitted_bytes and not self.crowded:
            self._crowd()

    def whole(self, serve: Callable[[], None]) -> None:
        """Have something served that must be served whole: the disk is looked at before it and behind it."""
        self._undivided = True
        try:
            serve()
        finally:
            self._undivided = False
            self.added(0)

    def takes(self, size: int) -> bool:
        """Whether so many bytes can be ``added`` with no look at the disk in between."""
        return self._unseen + size <= self._allowance

    @property
    def uncommitted(self) -> int:
        """Bytes of messages that wait for a commit."""
        return self._gathering + self._under_way

    def weigh(self) -> None:
        """Look at what waits. Called for whoever waits for commits, and after each."""
        settings, operations = self._settings, self._store.waiting
        if not self.crowded:
            if operations > settings.uncommitted_operations:
                self._crowd()
        elif self.uncommitted * 2 <= settings.uncommitted_bytes and operations * 2 <= settings.uncommitted_operations:
            self.crowded = False
            logger.info("commits are back: publishers go on", extra={"paused": len(self._paused)})
            self._call_soon(self._resume)

    def _crowd(self) -> None:
        self.crowded = True
        logger.warning("too much waits for commits: publishers are held off", extra={"bytes": self.uncommitted})

    def contribute(self, batch: WriteBatch, ticket: int) -> None:
        """What gathered is under way."""
        self._under_way, self._gathering = self._gathering, 0

    def committed(self, ticket: int) -> None:
        """It has arrived."""
        self._under_way = 0
        self.weigh()

    # Connections that wait.

    def pause(self, connection: Held, why: Pause, items: list[object]) -> None:
        """Read no further from a connection until there is room; ``items`` come first then."""
        connection.hold(items)
        if connection not in self._paused:
            self._counters.publishers_paused[why] += 1
            self._paused[connection] = why

    def paused(self, connection: Held) -> Pause | None:
        """Why a connection is not read from; None if it is."""
        return self._paused.get(connection)

    @property
    def paused_count(self) -> int:
        """Connections that are not read from now."""
        return len(self._paused)

    def forget(self, connection: Held) -> None:
        """The connection is gone."""
        self._paused.pop(connection, None)

    def resume(self, connection: Held, why: Pause) -> None:
        """Read on from a connection, if this was why it was not read from."""
        if self._paused.get(connection) is why:
            del self._paused[connection]
            self._call_soon(connection.proceed)

    def go_on(self, connection: Held, why: Pause) -> None:
        """The same, at once."""
        if self._paused.get(connection) is why:
            del self._paused[connection]
            connection.proceed()

    def _resume(self) -> None:
        """Let those go on for whom there is room, one after the other: each may use it up again."""
        for connection, why in list(self._paused.items()):
            if self.crowded:
                return
            if why in _APART or (self.full and why is Pause.DISK_FULL):
                continue
            if connection in self._paused:
                del self._paused[connection]
                connection.proceed()
