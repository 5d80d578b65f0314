"""A coroutine in a reactor of its own, to its end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from twisted.internet.defer import ensureDeferred
from twisted.python.failure import Failure

from iot_mqtt.app.backup.errors import BackupError
from iot_mqtt.app.backup.ownership import left_to_owner

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
