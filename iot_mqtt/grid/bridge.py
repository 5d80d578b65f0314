"""Where the grid's thread crosses into the reactor. (The one that syncs has a pipe: ``syncing``.)

    reactor                                  grid thread
    put(entry) ──────▶ queue ──────▶ take everything that waits, in order
                                     turn(entries): write, sync
    turn's result() ◀── cross ◀───── a callable, run in the reactor

What piles up while one turn is on its way to the disk is the next turn: that is the group commit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

Entry = TypeVar("Entry")
Finish = Callable[[], None]
#: Runs a callable in the reactor's thread, some time soon, in the order of calls: ``reactor.callFromThread``.
Cross = Callable[[Finish], object]


class Bridge(Generic[Entry]):
    """A queue, a thread that works it off in turns, and the way back.

    ``turn`` gets the entries and returns what is to be run in the reactor; it must not raise. A turn takes
    entries until their weights reach ``limit`` (one entry may be heavier). While ``patience`` is not None and
    nothing comes for that many seconds, ``turn`` is called with no entries.
    """

    def __init__(self, turn: Callable[[list[Entry]], Finish], cross: Cross, limit: int) -> None:
        self._turn = turn
        self._cross = cross
        self._limit = limit
        self._queue: SimpleQueue[tuple[Entry, int] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopping = False
        #: Entries whose turn has not come back; the reactor's count.
        self._under_way = 0
        self.patience: float | None = None

    def start(self, begin: Callable[[], Finish | None], end: Callable[[], Finish]) -> None:
        """Run ``begin`` in the thread, then turns until ``stop``, then ``end``. What ``begin`` returns is
        run in the reactor and ends the thread; None means it may go on.
        """
        self._stopping = False
        self._thread = threading.Thread(target=self._run, args=(begin, end), name="grid", daemon=True)
        self._thread.start()

    def put(self, entry: Entry, weight: int) -> None:
        """Called in the reactor thread."""
        self._under_way += 1
        self._queue.put((entry, weight))

    @property
    def idle(self) -> bool:
        """Whether the thread has nothing to do and all it did was told: then the reactor may do its work, a little of
        it. Called in the reactor thread.
        """
        return not self._under_way

    def stop(self) -> None:
        """Called in the reactor thread: work off what was put before, then end."""
        self._queue.put(None)

    def join(self) -> None:
        """Called in the reactor thread when ``end`` or a failed ``begin`` has come back: it has nothing left to do."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def later(self, call: Finish) -> None:
        """Run ``call`` in the reactor after what the thread has handed over so far."""
        self._cross(call)

    def _run(self, begin: Callable[[], Finish | None], end: Callable[[], Finish]) -> None:
        refused = begin()
        if refused is not None:
            self._cross(refused)
            return
        while not self._stopping:
            entries = self._take()
            if entries or not self._stopping:
                self._cross(partial(self._back, len(entries), self._turn(entries)))
        self._cross(end())

    def _back(self, entries: int, finish: Finish) -> None:
        """In the reactor thread."""
        self._under_way -= entries
        finish()

    def _take(self) -> list[Entry]:
        """Wait for the first entry, then take what else is there."""
        entries: list[Entry] = []
        weight = 0
        queue = self._queue
        try:
            item = queue.get(timeout=self.patience)
            while item is not None:
                entries.append(item[0])
                weight += item[1]
                if weight >= self._limit:
                    return entries
                item = queue.get_nowait()
            self._stopping = True
        except Empty:
            pass
        return entries
