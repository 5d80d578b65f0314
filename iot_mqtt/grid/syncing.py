"""Syncs one file at a time in a thread that has no use for the interpreter lock, and says so through a descriptor.

A sync takes 0.15 ms on a good disk. The grid's thread needs the lock before and after it, which a busy reactor gives up
late, and makes a millisecond of that. Here the reactor writes a number into a pipe, and reads one when it is done.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final, Protocol

from iot_mqtt.native import NUMBER, serve

_CLOSED: Final = -1


class Watch(Protocol):
    """The part of a reactor that tells when there is something to read."""

    def addReader(self, reader: object) -> object: ...

    def removeReader(self, reader: object) -> object: ...


class Syncing:
    """One sync at a time; everything is called in the reactor's thread. It is a reactor's ``IReadDescriptor``."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._jobs = self._done = _CLOSED
        self._then: Callable[[int], None] | None = None

    def open(self) -> None:
        theirs, self._jobs = os.pipe()
        self._done, done = os.pipe()
        os.set_blocking(self._done, False)
        threading.Thread(target=_serve, args=(theirs, done), name="sync", daemon=True).start()
        self._watch.addReader(self)

    def close(self) -> None:
        """Nothing is under way."""
        if self._jobs != _CLOSED:
            self._watch.removeReader(self)
            os.close(self._jobs)
            os.close(self._done)
            self._jobs = self._done = _CLOSED

    def sync(self, file: int, then: Callable[[int], None]) -> None:
        """Call ``then`` when the file is on disk; with 0, or an errno."""
        self._then = then
        os.write(self._jobs, NUMBER.pack(file))

    # ``IReadDescriptor``.

    def fileno(self) -> int:
        return self._done

    def doRead(self) -> None:
        (result,) = NUMBER.unpack(os.read(self._done, NUMBER.size))
        then, self._then = self._then, None
        if then is not None:
            then(result)

    def logPrefix(self) -> str:
        return "sync"

    def connectionLost(self, reason: object) -> None:
        """The reactor stops."""


def _serve(jobs: int, done: int) -> None:
    try:
        serve(jobs, done)
    finally:
        os.close(jobs)
        os.close(done)
