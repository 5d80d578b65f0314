"""Where what is in files crosses into the reactor: they may be slow, so a thread reads them, one read at a time.

::

    read() ──▶ thread: the call that reads ──▶ reactor: all who asked meanwhile are answered
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as TookTooLong
from twisted.internet.threads import deferToThreadPool

from iot_mqtt.errors import Unavailable

Found = TypeVar("Found")


class SlowFiles(Generic[Found]):
    """What ``call`` reads. After ``patience`` seconds a file system that hangs keeps one thread, and no caller."""

    def __init__(self, call: Callable[[], Found], reactor: Any, patience: float, what: str) -> None:
        self._call = call
        self._reactor = reactor
        self._patience = patience
        self._what = what
        self._waiting: list[Deferred[Found]] = []
        self._reading = False

    async def read(self) -> Found:
        """What is there now; what ``call`` raises, and ``Unavailable`` when the files do not come."""
        if not self._reading:
            self._reading = True
            pool = self._reactor.getThreadPool()
            reading: Deferred[Found] = deferToThreadPool(self._reactor, pool, self._call)
            reading.addBoth(self._done)
        waiting: Deferred[Found] = Deferred()
        waiting.addTimeout(self._patience, self._reactor)
        self._waiting.append(waiting)
        try:
            return await waiting
        except TookTooLong as error:
            raise Unavailable(f"{self._what} cannot be read: its file system does not answer") from error
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    async def read_alone(self) -> Found:
        """The same for who puts it in force: nothing that somebody had asked for before, so that is not there last."""
        if self._reading:
            raise Unavailable(f"{self._what} is being read already; try again")
        return await self.read()

    def _done(self, outcome: Any) -> None:
        self._reading = False
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.callback(outcome)  # a failure goes to the errbacks
