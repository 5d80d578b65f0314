"""Where what is in files crosses into the reactor: they may be slow, so a thread reads them, one read at a time.

::

    read() ──▶ thread: the call that reads ──▶ reactor: all who asked meanwhile are answered

The thread is one of its own for each read, and nobody waits for it when the process ends: a file system that hangs
takes no place from others, and keeps no node from stopping.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as TookTooLong
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure

from iot_mqtt.errors import Unavailable

Found = TypeVar("Found")
Done = Callable[[bool, Any], object]


class Threads(Protocol):
    """What runs a call beside the reactor; ``done`` is told whether it went well, and the result or failure."""

    def callInThreadWithCallback(
        self, done: Done, call: Callable[..., Any], *arguments: Any, **named: Any
    ) -> object: ...


class OwnThreads:
    """A thread for each call."""

    def callInThreadWithCallback(self, done: Done, call: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        def work() -> None:
            try:
                result = call(*arguments, **named)
            except BaseException:  # noqa: BLE001 - whatever it is, it is told in the reactor's thread
                done(False, Failure())  # noqa: FBT003 - Twisted's signature
            else:
                done(True, result)  # noqa: FBT003

        threading.Thread(target=work, name="iot-mqtt-files", daemon=True).start()


class SlowFiles(Generic[Found]):
    """What ``call`` reads. After ``patience`` seconds a file system that hangs keeps one thread, and no caller."""

    def __init__(
        self,
        call: Callable[[], Found],
        reactor: Any,
        patience: float,
        what: str,
        threads: Threads = OwnThreads(),  # noqa: B008 - it has nothing of its own
    ) -> None:
        self._call = call
        self._reactor = reactor
        self._patience = patience
        self._what = what
        self._threads: Any = threads
        self._waiting: list[Deferred[Found]] = []
        self._reading = False

    async def read(self) -> Found:
        """What is there now; what ``call`` raises, and ``Unavailable`` when the files do not come."""
        if not self._reading:
            self._reading = True
            reading: Deferred[Found] = deferToThreadPool(self._reactor, self._threads, self._call)
            reading.addBoth(self._done)
        waiting: Deferred[Found] = Deferred()
        waiting.addTimeout(self._patience, self._reactor)
        self._waiting.append(waiting)
        try:
            return await waiting
        except TookTooLong as error:
            raise Unavailable(f"{self._what}: nothing was read within {self._patience:g} seconds") from error
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
