"""Runs a port's coroutine from the reactor: at once when it awaits nothing, which is the usual case.

``ensureDeferred`` costs several microseconds even for a coroutine that never waits; most CONNECTs are
answered from memory, so this drives the coroutine by hand and only hangs on to a Deferred it really met.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

T = TypeVar("T")

#: Seconds until something that failed is tried again.
RETRY_SECONDS = 1.0


class Driven:
    """A coroutine that waits for something."""

    __slots__ = ("awaited",)

    def __init__(self) -> None:
        self.awaited: Deferred[Any] | None = None

    def cancel(self) -> None:
        """Nobody wants what it is about any more: it is raised ``CancelledError`` where it waits."""
        if self.awaited is not None:
            self.awaited.cancel()


def drive(
    coroutine: Coroutine[Any, Any, T],
    done: Callable[[T], None],
    failed: Callable[[BaseException], None],
    value: object = None,
    error: BaseException | None = None,
    driven: Driven | None = None,
) -> Driven | None:
    """Run until it returns (``done``), raises (``failed``) or awaits a Deferred, and then go on from there. None: it is
    over already.
    """
    try:
        awaited = coroutine.throw(error) if error is not None else coroutine.send(value)
    except StopIteration as stop:
        done(stop.value)
        return None
    except Exception as raised:  # noqa: BLE001 - it is handed to whoever asked
        failed(raised)
        return None
    if not isinstance(awaited, Deferred):
        coroutine.close()
        failed(TypeError(f"a port awaited {type(awaited).__name__}, not a Deferred"))
        return None
    waits = Driven() if driven is None else driven
    waits.awaited = awaited

    def resume(result: object) -> None:
        drive(coroutine, done, failed, value=result, driven=waits)

    def resume_failed(failure: Failure) -> None:
        drive(coroutine, done, failed, error=failure.value, driven=waits)

    awaited.addCallbacks(resume, resume_failed)
    return waits


def breath(call_soon: Callable[[Callable[[], None]], None]) -> Deferred[None]:
    """Wait for the next turn, so that others get theirs."""
    waiting: Deferred[None] = Deferred()
    call_soon(lambda: waiting.callback(None))
    return waiting


def done(_: object) -> None:
    """For ``drive``, where nothing is to be done with the result."""
