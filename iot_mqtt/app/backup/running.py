"""A coroutine in a reactor of its own, to its end; what it makes in data directories belongs to their owners.

The node runs as that owner. What root has made, in a mode that is for root alone, keeps it from starting.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from twisted.internet.defer import ensureDeferred
from twisted.python.failure import Failure

from iot_mqtt.app.backup.errors import BackupError

T = TypeVar("T")


def run(main: Callable[[Any], Coroutine[Any, Any, T]], *folders: Path) -> T:
    """What ``main`` returns or raises; ``BackupError`` where somebody stopped it. ``folders``: data directories that it
    may write into.
    """
    from twisted.internet import reactor as installed

    reactor: Any = installed
    results: list[T | Failure] = []

    def done(result: T | Failure) -> None:
        results.append(result)
        if reactor.running:
            reactor.stop()

    reactor.callWhenRunning(lambda: ensureDeferred(main(reactor)).addBoth(done))
    with ExitStack() as leaving:
        for folder in folders:
            leaving.enter_context(left_to_owner(folder))
        reactor.run()
    if not results:
        raise BackupError("stopped")
    (result,) = results
    if isinstance(result, Failure):
        result.raiseException()
    return result


_ROOT: Final = 0


@contextmanager
def left_to_owner(folder: Path) -> Iterator[None]:
    """What is root's in this directory afterwards, root gives to its owner; where it is not there yet, to the owner of
    the next one above it. However the block ends: what a killed command has left is given by the next one.
    """
    top = folder.absolute()
    while not top.exists() and not top.parent.exists():
        top = top.parent
    owner = (top if top.exists() else top.parent).stat()
    try:
        yield
    finally:
        if os.geteuid() == _ROOT and owner.st_uid != _ROOT and top.exists():
            _give(top, owner.st_uid, owner.st_gid)


def _give(top: Path, user: int, group: int) -> None:
    """By descriptors: whoever owns the directory may put links into it, which lead to what is not his."""
    for _, folders, files, inside in os.fwalk(top):
        if os.fstat(inside).st_uid == _ROOT:
            os.fchown(inside, user, group)
        for name in (*folders, *files):
            with suppress(FileNotFoundError):  # a node that serves has removed it
                found = os.stat(name, dir_fd=inside, follow_symlinks=False)
                if found.st_uid == _ROOT and (found.st_nlink == 1 or stat.S_ISDIR(found.st_mode)):
                    os.chown(name, user, group, dir_fd=inside, follow_symlinks=False)
