"""Where a thread of ours crosses into the reactor: a queue to the thread, and calls that come back in their order.

    reactor                              thread
    put(entry) ──────▶ queue ──────────▶ take(): what waits, in order
    call()     ◀────── cross ◀────────── hand(call)

A ``ThreadBridge`` leaves it to the thread when it takes. With a ``TurnBridge`` the thread does nothing but turns: what
piles up while one is under way is the next. Nothing else of ours starts a thread and feeds it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

Entry = TypeVar("Entry")
#: What is left to be done in the reactor's thread.
Finish = Callable[[], None]
#: Runs a callable in the reactor's thread, some time soon, in the order of calls: ``reactor.callFromThread``.
Cross = Callable[[Finish], object]
Job = Callable[[], None]


class ThreadBridge(Generic[Entry]):
    """A queue, a thread that takes from it, and the way back.

    ``take`` stops as soon as the weights of what it has taken reach ``limit``; one entry may be heavier.
    """

    def __init__(self, name: str, cross: Cross, limit: int = 1) -> None:
        self._name = name
        self._cross = cross
        self._limit = limit
        self._queue: SimpleQueue[tuple[Entry, int] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        #: Of the thread: ``stop`` was called, and all that was put before has been taken.
        self.stopping = False

    # In the reactor's thread.

    def start(self, work: Job) -> None:
        """Have the thread do this; it does not keep the process from ending."""
        self.stopping = False
        self._thread = threading.Thread(target=work, name=self._name, daemon=True)
        self._thread.start()

    @property
    def started(self) -> bool:
        return self._thread is not None

    def put(self, entry: Entry, weight: int = 1) -> None:
        self._queue.put((entry, weight))

    def stop(self) -> None:
        """End behind what was put before."""
        self._queue.put(None)

    def join(self) -> None:
        """The thread has said that it has nothing left to do."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    # In either thread.

    def hand(self, call: Finish) -> None:
        """Have it called in the reactor's thread, after what was handed over before."""
        self._cross(call)

    # In the other one.

    def take(self, patience: float | None) -> list[Entry]:
        """Wait so many seconds (None: however long it takes) for the first entry, then take what else is there."""
        entries: list[Entry] = []
        weight = 0
        try:
            item = self._queue.get(timeout=patience)
            while item is not None:
                entries.append(item[0])
                weight += item[1]
                if weight >= self._limit:
                    return entries
                item = self._queue.get_nowait()
            self.stopping = True
        except Empty:
            pass
        return entries


class TurnBridge(ThreadBridge[Entry]):
    """A thread that works its queue off in turns.

    ``turn`` gets the entries and returns what is to be run in the reactor, if anything; it must not raise. While
    ``patience`` is not None and nothing comes for that many seconds, ``turn`` is called with no entries.
    """

    def __init__(self, name: str, turn: Callable[[list[Entry]], Finish | None], cross: Cross, limit: int = 1) -> None:
        super().__init__(name, cross, limit)
        self._turn = turn
        self.patience: float | None = None
        # Entries that were put, those of turns that have come back, and those of turns that had nothing to say: the
        # first two are the reactor's to count, the last one is the thread's.
        self._put = self._back = self._silent = 0

    def begin(self, begin: Callable[[], Finish | None] | None = None, end: Callable[[], Finish] | None = None) -> None:
        """Run ``begin`` in the thread, then turns until ``stop``, then ``end``. What ``begin`` returns is run in the
        reactor and ends the thread; None means it may go on.
        """
        self.start(partial(self._run, begin, end))

    def put(self, entry: Entry, weight: int = 1) -> None:
        self._put += 1
        super().put(entry, weight)

    @property
    def idle(self) -> bool:
        """Whether the thread has nothing to do and all it did was told: then the reactor may do its work, a little of
        it. Called in the reactor's thread.
        """
        return self._put == self._back + self._silent

    def _run(self, begin: Callable[[], Finish | None] | None, end: Callable[[], Finish] | None) -> None:
        refused = None if begin is None else begin()
        if refused is not None:
            self.hand(refused)
            return
        while not self.stopping:
            entries = self.take(self.patience)
            if entries or not self.stopping:
                finish = self._turn(entries)
                if finish is None:
                    self._silent += len(entries)
                else:
                    self.hand(partial(self._finish, len(entries), finish))
        if end is not None:
            self.hand(end())

    def _finish(self, entries: int, finish: Finish) -> None:
        """In the reactor's thread."""
        self._back += entries
        finish()


def run_jobs(bridge: ThreadBridge[Job], patience: float = 0.0) -> None:
    """Do all jobs that are there, one after the other; wait so many seconds for the first one. They must not raise."""
    while jobs := bridge.take(patience):
        for job in jobs:
            job()
        patience = 0.0
