"""Where the status of jobs crosses into the reactor: files that may be slow are read on a thread, one read at a time.

::

    API call ──▶ read() ──▶ thread: read_status ──▶ reactor: all who asked meanwhile are answered
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as TookTooLong
from twisted.internet.threads import deferToThreadPool

from iot_mqtt.admin.pipeline_resources import JobStatus
from iot_mqtt.app.pipeline.status import read_status
from iot_mqtt.errors import Unavailable

#: Seconds for an answer; a file system that hangs keeps one thread, and no caller.
PATIENCE = 5.0


class JobsBridge:
    """Reads the status files of one directory."""

    def __init__(self, folder: Path, reactor: Any) -> None:
        self._folder = folder
        self._reactor = reactor
        self._waiting: list[Deferred[list[JobStatus]]] = []
        self._reading = False

    async def read(self) -> list[JobStatus]:
        """The jobs now; ``Unavailable`` when the files do not come."""
        if not self._reading:
            self._reading = True
            reading: Deferred[list[JobStatus]] = deferToThreadPool(
                self._reactor, self._reactor.getThreadPool(), read_status, self._folder
            )
            reading.addBoth(self._done)
        waiting: Deferred[list[JobStatus]] = Deferred()
        waiting.addTimeout(PATIENCE, self._reactor)
        self._waiting.append(waiting)
        try:
            return await waiting
        except TookTooLong as error:
            raise Unavailable(f"{self._folder} cannot be read: its file system does not answer") from error
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def _done(self, outcome: Any) -> None:
        self._reading = False
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.callback(outcome)
