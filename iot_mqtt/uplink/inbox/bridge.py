"""The one place where the thread of the inbox crosses into the reactor.

reactor                              consumer's thread
put(job)  ───────▶ queue ──────────▶ run_jobs()
call()    ◀─────── cross ◀────────── hand(call)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

#: Runs a callable in the reactor's thread, some time soon, in the order of calls: ``reactor.callFromThread``.
Cross = Callable[[Callable[[], None]], object]
Job = Callable[[], None]


class Bridge:
    """A thread, jobs for it, and calls from it. Jobs must not raise."""

    def __init__(self, cross: Cross) -> None:
        self._cross = cross
        self._queue: SimpleQueue[Job] = SimpleQueue()

    # In the reactor's thread.

    def start(self, work: Callable[[], None]) -> None:
        """Once. It does not keep the process from ending."""
        threading.Thread(target=work, name="commands", daemon=True).start()

    def put(self, job: Job) -> None:
        self._queue.put(job)

    # In the other one.

    def hand(self, call: Callable[[], None]) -> None:
        """Have it called in the reactor's thread."""
        self._cross(call)

    def aside(self, work: Callable[[], None], seconds: float) -> None:
        """Do something that may take very long, in a thread of its own; wait for it so many seconds at most."""
        thread = threading.Thread(target=work, name="commands-aside", daemon=True)
        thread.start()
        thread.join(seconds)

    def run_jobs(self, patience: float = 0.0) -> None:
        """All that are there; wait so many seconds for the first one."""
        try:
            self._queue.get(timeout=patience)() if patience else self._queue.get_nowait()()
            while True:
                self._queue.get_nowait()()
        except Empty:
            return
