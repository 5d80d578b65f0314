"""Sees a codec reach for files, sockets, threads and processes, by Python's audit events.

A hook cannot be taken out again, so there is one for the whole process, which looks only while it is asked to.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_WATCHED = (
    "open", "socket.__new__", "socket.connect", "subprocess.Popen", "os.system", "os.fork", "os.exec",
    "os.posix_spawn", "os.remove", "os.rename", "os.mkdir", "os.kill",
)  # fmt: skip
#: A module that is imported late is read from a file: not nice, but no harm.
_MODULES = (".py", ".pyc", ".so")


class _Watch:
    """What was seen; None: nobody looks."""

    def __init__(self) -> None:
        self.seen: set[str] | None = None
        self.is_installed = False

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.seen is None or event not in _WATCHED:
            return
        first = str(arguments[0]) if arguments else ""
        if event != "open":
            self.seen.add(event)
        elif not first.endswith(_MODULES):
            self.seen.add(f"open({first[:100]!r})")


_WATCH = _Watch()


@contextmanager
def watched() -> Iterator[set[str]]:
    """What is reached for while this is open."""
    if not _WATCH.is_installed:
        sys.addaudithook(_WATCH.hook)
        _WATCH.is_installed = True
    seen: set[str] = set()
    start = threading.Thread.start

    def started(thread: threading.Thread) -> None:
        seen.add(f"{type(thread).__name__}.start")
        start(thread)

    _WATCH.seen = seen
    # Python 3.11 has no audit event for threads.
    threading.Thread.start = started  # type: ignore[method-assign, assignment]
    try:
        yield seen
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
        _WATCH.seen = None
