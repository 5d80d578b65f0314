"""The grid inside the broker's process, on disk: group commit over RocksDB.

A commit is acknowledged when its batch is in the synced log. Commits that come while a batch is on its way
to the disk are merged, in order, into the next one, which is written only after that (``commit_log`` relies on it).
That is the grid's thread's work; a small commit that comes while there is none is written in the reactor's thread, and
only its sync is done elsewhere (``syncing``).

When a write fails, its commits fail with ``Unavailable``, and so does every commit made before that failure
was reported: a later one never overtakes an earlier one. Then the database is opened anew, at growing
intervals, until the disk takes writes again; commits made meanwhile fail at once. A failed commit may be
found later all the same, whole; a reported one is never lost.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from twisted.internet.defer import Deferred

from iot_mqtt import native
from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.disk import measure
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.engine_commits import Commit, Copy, Done, Following, Merge, Removal, Renewal, Swap
from iot_mqtt.grid.faults import OpenFault
from iot_mqtt.grid.syncing import Syncing
from iot_mqtt.grid.tags import TAGS
from iot_mqtt.ports.alarms import Alarm
from iot_mqtt.ports.disk import DiskUse
from iot_mqtt.ports.grid import CacheName, Pair, WriteBatch
from iot_mqtt.thread_bridge import Cross, Finish, TurnBridge

log = logging.getLogger(__name__)

#: Operations after which a physical batch takes no further commit: its CPU part holds the interpreter lock.
TURN_OPERATIONS: Final = 2000
#: A commit that has no more than this needs no other thread but for its sync.
SMALL_OPERATIONS: Final = 256
SMALL_BYTES: Final = 16 * 1024
#: Where a removed prefix is worth the files that held it; elsewhere they go with later compactions.
BULKY: Final = TAGS[CacheName.LOG]
#: Seconds until the database is opened anew after a failure: first, and at most.
RETRY_FIRST: Final = 0.25
RETRY_LAST: Final = 2.0


class EmbeddedGrid:
    """RocksDB, by its engine. ``cross`` is ``reactor.callFromThread``; everything else is called in the reactor.

    Coroutines of this class await Deferreds: drive them with ``Deferred.fromCoroutine`` or ``ensureDeferred``.
    """

    def __init__(
        self,
        engine: Engine,
        cross: Cross,
        *,
        retry: tuple[float, float] = (RETRY_FIRST, RETRY_LAST),
        monotonic: Callable[[], float] = time.monotonic,
        syncing: Syncing | None = None,
    ) -> None:
        """``syncing``: what the reactor's own commits are synced by; None: the grid's thread does everything."""
        self._engine = engine
        self._bridge: TurnBridge[Commit] = TurnBridge("grid", self._turn, cross, TURN_OPERATIONS)
        self._retry = retry
        self._monotonic = monotonic
        self._accepting = False
        self._failed = False
        self._closed: Deferred[None] | None = None
        self._late: list[Commit] = []
        # The reactor's count of failures, and the thread's: a commit from before a failure fails with it.
        self._fence = 0
        self._thread_fence = 0
        self._syncing = syncing
        #: What the reactor has written itself, and what came until the end of that was told.
        self._begun: Commit | None = None
        self._held: list[tuple[Commit, int]] = []
        #: Why it could not be read after it was begun.
        self._unread: Unavailable | None = None
        #: Another log is under way, as that of before was removed.
        self._renewing = False
        # Only the thread touches these, and the reactor while the thread is idle.
        self._broken: Unavailable | None = None
        self._retry_at = 0.0
        self._delay = retry[0]

    @property
    def available(self) -> bool:
        """Whether the last the reactor heard of the disk was good: False while commits fail."""
        return self._accepting and not self._failed

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator has to know of the files."""
        return self._engine.alarms

    def disk_use(self) -> DiskUse:
        """The room that the files take and that is left; raises ``OSError``. What the grid needs to go on when a write
        has failed is not free: with less than that on the disk it takes nothing, and is full.
        """
        use, needed = measure(self._engine.directory), self._engine.needed_to_open if self._failed else 0
        return use._replace(free=max(0, use.free - needed), passing=self._engine.passing)

    def check(self) -> None:
        """See whether the directory is still ours, and the log in it. Called now and then."""
        self._engine.look()
        if self._engine.log_removed and not self._renewing:
            log.error("the grid's log in %s was removed: what it had is written out", self._engine.directory)
            self._renewing = True
            self._submit(Renewal((), self._renewed, self._fence), TURN_OPERATIONS)

    def _renewed(self, error: BaseException | None) -> None:
        self._renewing = False
        if error is None:
            log.warning("the grid has another log: nothing was lost")

    # The life of the grid.

    async def open(self) -> None:
        """Raises ``OpenFault`` (in use, too new, damaged) or ``OSError``."""
        opened: Deferred[None] = Deferred()
        self._bridge.begin(partial(self._begin, opened), self._end)
        await opened

    async def close(self) -> None:
        """Refuse new commits, finish the accepted ones, close the files."""
        if not self._accepting:
            return
        self._accepting = False
        self._closed = closed = Deferred[None]()
        if self._begun is None:
            self._bridge.stop()
        await closed

    # Writing.

    async def commit(self, batch: WriteBatch) -> None:
        waiting: Deferred[None] = Deferred()
        self.commit_soon(batch, partial(_settle, waiting))
        await waiting

    def commit_soon(self, batch: WriteBatch, done: Done) -> None:
        """Commit and call ``done`` later, in the reactor thread; see the port for the contract."""
        operations = batch.operations
        commit = Commit(operations, done, self._fence)
        if not self._begin_now(commit):
            self._submit(commit, len(operations) + 1)

    async def compare_and_set(self, cache: CacheName, key: bytes, expected: bytes | None, value: bytes | None) -> bool:
        waiting: Deferred[None] = Deferred()
        swap = Swap((cache, key, value), expected, partial(_settle, waiting), self._fence)
        self._submit(swap, 2)
        await waiting
        return swap.swapped

    async def remove_prefix(self, cache: CacheName, prefix: bytes) -> None:
        waiting: Deferred[None] = Deferred()
        self._submit(Removal(TAGS[cache] + prefix, partial(_settle, waiting), self._fence), 1)
        await waiting

    async def copy(self, target: Path) -> None:
        """Make a grid directory in ``target``, which has all that is committed by now; raises ``OSError``."""
        waiting: Deferred[None] = Deferred()
        self._submit(Copy(target, partial(_settle, waiting), self._fence), TURN_OPERATIONS)
        await waiting

    async def make_room(self) -> None:
        """Give back what removed and overwritten entries take, in steps between which others commit."""
        after: bytes | None = b""
        while after is not None:
            waiting: Deferred[None] = Deferred()
            step = Merge(after, partial(_settle, waiting), self._fence)
            self._submit(step, TURN_OPERATIONS)
            await waiting
            after = step.after

    # Reading: in the reactor thread, from what has been written, whether or not its sync is back.

    async def get(self, cache: CacheName, key: bytes) -> bytes | None:
        return self._engine.get(TAGS[cache] + key)

    async def get_many(self, cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        tag = TAGS[cache]
        return self._engine.get_many([tag + key for key in keys])

    async def page(
        self, cache: CacheName, prefix: bytes = b"", after: bytes | None = None, limit: int = 1000
    ) -> list[Pair]:
        start = prefix if after is None else max(prefix, after + b"\x00")
        tag = TAGS[cache]
        return self._engine.page(tag + prefix, tag + start, limit, len(tag))

    # In the reactor thread.

    def _begin_now(self, commit: Commit) -> bool:
        """Write a small commit here, and have it synced without the grid's thread, which is idle: what belongs to it
        may be used. False: nothing was done, and the thread has to do it.
        """
        operations = commit.operations
        if self._syncing is None or self._begun is not None or not self._bridge.idle or not self._accepting:
            return False
        if self._broken is not None or len(operations) > SMALL_OPERATIONS:
            return False
        changes: dict[bytes, bytes | None] = {}
        try:
            if native.merge(changes, operations, TAGS) > SMALL_BYTES:
                return False
            file = self._engine.begin(changes)
        except Unavailable as error:
            self._begun = commit
            self._bridge.hand(partial(self._synced, commit, error))
            return True
        except Exception:  # noqa: BLE001 - a batch that is none is told so where all are
            return False
        if file is None:
            return False
        self._begun = commit
        self._syncing.sync(file, partial(self._sync_over, commit))
        try:
            # While the disk works.
            self._engine.apply()
        except Unavailable as error:
            self._unread = error
        return True

    def _sync_over(self, commit: Commit, number: int) -> None:
        error, self._unread = self._unread, None
        self._synced(commit, Unavailable(f"the grid cannot write: {os.strerror(number)}") if number else error)

    def _synced(self, commit: Commit, error: Unavailable | None) -> None:
        self._begun = None
        if error is not None:
            commit.error = error
            self._break(error)
            # The thread is to know of it, and to open the database anew when it is time.
            self._bridge.put(Commit((), _told, self._fence), 1)
        behind = error is None and self._engine.behind
        if behind:
            # It is over when it can be read: before those that came meanwhile.
            self._bridge.put(Following(commit.operations, commit.done, commit.fence), 1)
        held, self._held = self._held, []
        for one in held:
            self._bridge.put(*one)
        if self._closed is not None:
            self._bridge.stop()
        if not behind:
            self._over([commit])()

    def _submit(self, commit: Commit, weight: int) -> None:
        if self._accepting and self._begun is not None:
            self._held.append((commit, weight))
        elif self._accepting:
            self._bridge.put(commit, weight)
        else:
            commit.error = Unavailable("the grid is not open")
            # While closing, behind those that were accepted.
            self._late.append(commit)
            if self._closed is None:
                self._bridge.hand(self._refuse_late)

    def _finished(self, commits: list[Commit], fence: int, failed: bool) -> None:
        """A turn is on disk, or failed: tell everybody, in the order they came."""
        self._fence, self._failed = fence, failed
        for commit in commits:
            _finish(commit)

    def _opened(self, opened: Deferred[None], error: BaseException | None) -> None:
        if error is not None:
            self._bridge.join()
            opened.errback(error)
            return
        self._accepting, self._failed = True, False
        if self._syncing is not None:
            self._syncing.open()
        opened.callback(None)

    def _ended(self) -> None:
        self._bridge.join()
        if self._syncing is not None:
            self._syncing.close()
        closed, self._closed = self._closed, None
        self._refuse_late()
        if closed is not None:
            closed.callback(None)

    def _refuse_late(self) -> None:
        late, self._late = self._late, []
        for commit in late:
            _finish(commit)

    # In the grid's thread.

    def _begin(self, opened: Deferred[None]) -> Finish | None:
        try:
            self._engine.open()
        except (OpenFault, Unavailable, OSError) as error:
            return partial(self._opened, opened, error)
        self._broken = None
        self._bridge.patience = None
        self._bridge.hand(partial(self._opened, opened, None))
        return None

    def _end(self) -> Finish:
        self._engine.close()
        return self._ended

    def _turn(self, commits: list[Commit]) -> Finish:
        if self._broken is not None and self._monotonic() >= self._retry_at:
            self._reopen()
        self._write(commits)
        return self._over(commits)

    def _over(self, commits: list[Commit]) -> Finish:
        """What the reactor is to be told of commits that are over: how they went, and how the disk is."""
        return partial(self._finished, commits, self._thread_fence, self._broken is not None)

    def _write(self, commits: list[Commit]) -> None:
        changes: dict[bytes, bytes | None] = {}
        prefixes: list[bytes] = []
        live: list[Commit] = []
        try:
            for commit in commits:
                if self._broken is not None:
                    commit.error = self._broken
                elif commit.fence != self._thread_fence:
                    commit.error = Unavailable("an earlier commit failed")
                else:
                    live.append(commit)
                    commit.merge(changes, prefixes, self._engine)
            if changes or prefixes:
                self._engine.write(changes, prefixes)
            for prefix in prefixes:
                if prefix.startswith(BULKY):
                    self._engine.reclaim(prefix)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
            trouble = error if isinstance(error, Unavailable) else Unavailable(f"the grid cannot write: {error!r}")
            for commit in live:
                commit.error = trouble
            self._break(trouble)

    def _break(self, error: Unavailable) -> None:
        log.error("the grid cannot commit: %s", error.detail)
        self._broken = error
        self._thread_fence += 1
        self._delay = self._retry[0]
        self._postpone()

    def _reopen(self) -> None:
        """A new start reads the log back: what was synced is kept, a half-written batch is dropped.

        Until the disk has room for that, the old database stays open, so that reading goes on.
        """
        try:
            self._engine.probe()
            self._engine.close()
            self._engine.open()
        except (OpenFault, Unavailable, OSError) as error:
            self._broken = Unavailable(f"the grid cannot write yet: {error}")
            self._delay = min(self._delay * 2, self._retry[1])
            self._postpone()
            return
        log.warning("the grid commits again")
        self._broken = None
        self._bridge.patience = None

    def _postpone(self) -> None:
        self._retry_at = self._monotonic() + self._delay
        self._bridge.patience = self._delay


def _finish(commit: Commit) -> None:
    try:
        commit.finish()
    except Exception:
        log.exception("a commit's completion failed")


def _told(error: BaseException | None) -> None:
    """Nobody waits."""


def _settle(waiting: Deferred[None], error: BaseException | None) -> None:
    if error is None:
        waiting.callback(None)
    else:
        waiting.errback(error)
