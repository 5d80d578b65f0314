"""The one place where the thread of the file sink crosses into the reactor.

reactor                         sink's thread
put(job) ───▶ queue ───▶ job() ──▶ what is to be run in the reactor ──▶ cross
                    └─(nothing for ``patience()`` seconds)─▶ idle() ──▶ the same
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

#: What a job leaves to be done in the reactor's thread; None: nothing.
After = Callable[[], None] | None
Job = Callable[[], After]
#: Runs a callable in the reactor's thread, some time soon, in the order of calls: ``reactor.callFromThread``.
Cross = Callable[[Callable[[], None]], object]


class Bridge:
    """A queue of jobs and the thread that does them in order. Jobs must not raise."""

    def __init__(self, cross: Cross, idle: Job, patience: Callable[[], float | None]) -> None:
        self._cross = cross
        self._idle = idle
        self._patience = patience
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, job: Job) -> None:
        """Called in the reactor's thread; the first call starts the other one."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="uplink", daemon=True)
            self._thread.start()
        self._queue.put(job)

    def stop(self) -> None:
        """Called in the reactor's thread: end after what was put before."""
        self._queue.put(None)

    def _run(self) -> None:
        while True:
            try:
                job = self._queue.get(timeout=self._patience())
            except Empty:
                job = self._idle
            if job is None:
                return
            after = job()
            if after is not None:
                self._cross(after)
